"""The likelihood of a text under a language model, word by word: sentences independently, or as one
continuous text.

Axes: B streams, T tokens, P one direction.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float, Int

from elmo_bench.encoders import BATCH_TOKENS, batches
from elmo_bench.encoders.bilm import State, char_ids
from elmo_bench.text import chunks

from .lm import BEGIN, END, LanguageModel

Likelihoods = dict[str, Float[np.ndarray, " N"]]  # direction -> log p (nats)


def sentence_likelihoods(
    model: LanguageModel, sentences: Iterable[Sequence[str]], *, batch_tokens: int = BATCH_TOKENS
) -> Iterator[Likelihoods]:
    """Yield the log probability (nats) of every prediction of each sentence, by direction, each
    sentence from a zero state.

    There is one value per word, in the order of the text; forward has the value of </S> after them,
    backward that of <S> before them.
    """
    for chunk in chunks(sentences, 8 * batch_tokens):
        results: dict[int, Likelihoods] = {}
        for positions in batches([len(sentence) for sentence in chunk], batch_tokens):
            scores = {
                direction: part.cpu().numpy()
                for direction, part in model.log_likelihoods([chunk[k] for k in positions]).items()
            }
            for row, position in enumerate(positions):
                count = len(chunk[position]) + 1
                results[position] = {
                    direction: part[row, :count] for direction, part in scores.items()
                }
        yield from (results[position] for position in range(len(chunk)))


def text_likelihoods(
    model: LanguageModel, sentences: Sequence[Sequence[str]], *, streams: int = 64, unroll: int = 32
) -> Iterator[Likelihoods]:
    """Like `sentence_likelihoods`, but carry the state from sentence to sentence, as the original's
    evaluation does.

    The text is cut between sentences into `streams` parts that run in parallel, each from a zero
    state; with one stream every sentence follows the one before. The backward direction reads the
    sentences in the same order, each from its end.
    """
    words = {BEGIN: 0, END: 1}
    numbers = [
        np.array([words.setdefault(word, len(words)) for word in sentence], dtype=np.int64)
        for sentence in sentences
    ]
    parts = [
        numbers[start:end] for start, end in pairwise(_cuts([len(n) + 1 for n in numbers], streams))
    ]
    stacked = {direction: _stack(parts, direction) for direction in model.directions}
    scores = _run(model, list(words), stacked, unroll)
    for row, part in enumerate(parts):
        start = 0
        for sentence in part:
            end = start + len(sentence) + 1
            yield {
                direction: part[row, start:end][:: 1 if direction == "forward" else -1]
                for direction, part in scores.items()
            }
            start = end


def _cuts(sizes: Sequence[int], streams: int) -> list[int]:
    """Return where to cut a sequence of items of these sizes into at most so many non-empty parts
    of similar size.
    """
    ends = np.cumsum(sizes)
    wanted = ends[-1] * np.arange(1, streams) / streams
    inner = np.searchsorted(ends, wanted) + 1
    return sorted({0, *inner.tolist(), len(sizes)})


def _stack(
    parts: Sequence[Sequence[np.ndarray]], direction: str
) -> tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B T"]]:
    """Return (inputs, targets) of each stream in the order in which a direction reads them; targets
    are -1 after the end of a stream.
    """
    first, last, step = ([0], [1], 1) if direction == "forward" else ([1], [0], -1)
    length = max(sum(len(sentence) + 1 for sentence in part) for part in parts)
    inputs, targets = np.zeros((len(parts), length), np.int64), np.full((len(parts), length), -1)
    for row, part in enumerate(parts):
        read = np.concatenate([piece for sentence in part for piece in (first, sentence[::step])])
        predicted = np.concatenate(
            [piece for sentence in part for piece in (sentence[::step], last)]
        )
        inputs[row, : len(read)], targets[row, : len(read)] = read, predicted
    return inputs, targets


@torch.no_grad()
def _run(
    model: LanguageModel,
    words: list[str],
    stacked: Mapping[str, tuple[np.ndarray, np.ndarray]],
    unroll: int,
) -> dict[str, Float[np.ndarray, "B T"]]:
    """Return the log probability of all targets for each direction, window by window with carried
    state.
    """
    device = model.softmax.weight.device
    rows_of = np.array([model.number(word) for word in words])
    count, length = next(iter(stacked.values()))[0].shape
    state = model.bilm.zero_state(count)
    scores = {direction: np.zeros((count, length), np.float32) for direction in stacked}
    for start in range(0, length, unroll):
        after = []
        for number, (direction, (inputs, targets)) in enumerate(stacked.items()):
            types, places = np.unique(inputs[:, start : start + unroll], return_inverse=True)
            wanted = targets[:, start : start + unroll]
            frames = char_ids(
                [[words[number] for number in types]], model.bilm.options.max_characters
            ).to(device)
            x = model.bilm.token_encoder(frames)[0][
                torch.from_numpy(places.reshape(wanted.shape)).to(device)
            ]
            mask = torch.from_numpy(wanted >= 0).to(device)
            outputs, now = model.bilm.run(number, x, mask, state)
            rows = torch.from_numpy(rows_of[wanted.clip(0)]).to(device)
            scores[direction][:, start : start + unroll] = (
                model.log_probabilities(outputs[-1], rows).cpu().numpy()
            )
            after.append(now)
        state = State(*(torch.stack(parts) for parts in zip(*after, strict=True)))
    return scores
