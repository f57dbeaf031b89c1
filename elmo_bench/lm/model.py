"""The language model on top of a biLM (section 3.1 of the paper): two softmaxes over words with
shared weights, or one for a biLM with one direction.

The forward direction reads <S> w_1 ... w_n and predicts w_1 ... w_n </S>; the backward one reads
</S> w_n ... w_1 and predicts w_n ... w_1 <S>. Words are read as characters, so any word can be
read; only predictions need a vocabulary.

Axes: B batch or streams, T tokens, C characters, P one direction, V vocabulary, U different words,
N predictions of a sentence.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.encoders import BATCH_TOKENS, batches
from elmo_bench.encoders.bilm import BiLm, State
from elmo_bench.encoders.bilm.chars import word_frame
from elmo_bench.text import chunks

from .corpus import BEGIN, END, UNKNOWN, Corpus, Sentences

Likelihoods = dict[str, Float[np.ndarray, " N"]]  # direction -> log p (nats)
SCORES = 1 << 24  # scores (tokens x vocabulary) in memory at once, for perplexity
UNROLL = 512  # tokens of a sentence that are read at once


class LanguageModel(nn.Module):
    """A biLM and the softmax with which its directions predict words."""

    def __init__(self, bilm: BiLm, vocabulary: Sequence[str]) -> None:
        super().__init__()
        self.bilm, self.vocabulary = bilm, list(vocabulary)
        self.source = ""  # the files that it comes from, for errors
        self.directions: Sequence[str] = bilm.options.directions
        self.numbers = {word: number for number, word in enumerate(self.vocabulary)}
        size = bilm.options.projection_size
        self.softmax = nn.Linear(size, len(self.vocabulary))
        nn.init.normal_(self.softmax.weight, std=1 / math.sqrt(size))
        nn.init.zeros_(self.softmax.bias)

    def number(self, word: str) -> int:
        """Return a word's index in the vocabulary, or that of <UNK>."""
        return self.numbers.get(word, self.numbers[UNKNOWN])

    @torch.no_grad()
    def start_from(self, corpus: Corpus) -> None:
        """Initialise the softmax with word frequencies.

        A sampled softmax needs this: it sees rare words too seldom to correct random rows, and for
        a long time they would dominate the sum over a large vocabulary.
        """
        counts = np.bincount([*map(self.number, corpus.words)], corpus.counts, len(self.vocabulary))
        counts[[self.number(BEGIN), self.number(END)]] = corpus.num_sentences
        self.softmax.bias.copy_(torch.from_numpy(np.log((counts + 1) / (counts + 1).sum())))
        self.softmax.weight.mul_(0.01)

    def tops(
        self,
        frames: Int[np.ndarray, "U C"],
        windows: Sequence[Int[np.ndarray, "B T"]],
        state: State,
    ) -> Iterator[tuple[Float[Tensor, "B T P"], State]]:
        """Yield each direction's top layer, after dropout, from which words are predicted, and its
        next state; on a GPU, all directions run at once.

        A direction has its own window, of word types whose characters are in `frames`. A word is
        encoded once, however often it occurs in the windows.
        """
        device = self.softmax.weight.device
        types, places = np.unique(np.stack(windows), return_inverse=True)
        chars = torch.from_numpy(frames[types].astype(np.int64)).to(device)
        rows = torch.from_numpy(places.reshape(len(windows), *windows[0].shape)).to(device)
        x = self.bilm.token_encoder(chars)[rows]
        for top, after in self.bilm.run(x, state):
            yield F.dropout(top, self.bilm.dropout, self.training), after

    @torch.no_grad()
    def likelihoods(self, texts: Sequence[Sentences], unroll: int = UNROLL) -> list[Likelihoods]:
        """Return the log probability (nats) of every prediction of each sentence, text by text.

        A text is read from a zero state, which is carried from sentence to sentence; the backward
        direction reads the sentences in the same order, each from its end. The texts are read in
        parallel, `unroll` tokens at a time.
        """
        words = {BEGIN: 0, END: 1}

        def numbers(sentence: Sequence[str]) -> Int[np.ndarray, " T"]:
            return np.array([words.setdefault(word, len(words)) for word in sentence], np.int64)

        numbered = [[numbers(sentence) for sentence in text] for text in texts]
        scores = self._scores(list(words), numbered, unroll)
        steps = {"forward": 1, "backward": -1}
        results = []
        for row, text in enumerate(numbered):
            ends = np.cumsum([len(sentence) + 1 for sentence in text])
            for sentence, end in zip(text, ends, strict=True):
                part = slice(end - len(sentence) - 1, end)
                results.append({d: all_[row, part][:: steps[d]] for d, all_ in scores.items()})
        return results

    def _scores(
        self, words: Sequence[str], texts: Sequence[Sequence[np.ndarray]], unroll: int
    ) -> dict[str, Float[np.ndarray, "B T"]]:
        """Return the log probability of all targets of each direction, in the order in which it
        reads the texts, window by window with carried state.
        """
        width, device = self.bilm.options.max_characters, self.softmax.weight.device
        frames = np.stack([word_frame(word, width) for word in words])
        rows_of = np.array([*map(self.number, words)])
        stacked = {direction: _stack(texts, direction) for direction in self.directions}
        scores = {d: np.zeros(targets.shape, np.float32) for d, (_, targets) in stacked.items()}
        count = len(texts)
        length = max(targets.shape[1] for _, targets in stacked.values())
        state = self.bilm.zero_state(count)
        for start in range(0, length, unroll):
            part, after = slice(start, start + unroll), []
            tops = self.tops(frames, [inputs[:, part] for inputs, _ in stacked.values()], state)
            for (direction, (_, targets)), (top, now) in zip(stacked.items(), tops, strict=True):
                rows = torch.from_numpy(rows_of[targets[:, part].clip(0)]).to(device)
                scores[direction][:, part] = self.log_probabilities(top, rows).cpu().numpy()
                after.append(now)
            state = State(*(torch.stack(parts) for parts in zip(*after, strict=True)))
        return scores

    def log_probabilities(
        self, top: Float[Tensor, "*N P"], targets: Int[Tensor, "*N"]
    ) -> Float[Tensor, "*N"]:
        """Return the log probability of each target under the full softmax, as many positions at a
        time as `SCORES` allows.
        """
        size = max(1, SCORES // len(self.vocabulary))
        pairs = zip(top.flatten(0, -2).split(size), targets.flatten().split(size), strict=True)
        parts = [-F.cross_entropy(self.softmax(x), target, reduction="none") for x, target in pairs]
        return torch.cat(parts).view_as(targets)

    def perplexity(
        self,
        sentences: Sentences,
        watch: Callable[[Sequence[list[int]]], Iterable[list[int]]] = iter,
        *,
        batch_tokens: int = BATCH_TOKENS,
    ) -> dict[str, float]:
        """Return the exponential of the mean negative log likelihood of each direction, with the
        full softmax and zero states.

        `watch` receives the batches and yields them unchanged, so that it can show progress.
        """
        training = self.training
        self.eval()
        totals = dict.fromkeys(self.directions, 0.0)
        for places in watch([*batches([len(sentence) for sentence in sentences], batch_tokens)]):
            for scores in self.likelihoods([[sentences[place]] for place in places]):
                for direction, values in scores.items():
                    totals[direction] += float(values.sum(dtype=np.float64))
        self.train(training)
        count = sum(len(sentence) + 1 for sentence in sentences)
        return {d: perplexity_of(-total / count, self.source) for d, total in totals.items()}


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
        for places in batches([len(sentence) for sentence in chunk], batch_tokens):
            scores = model.likelihoods([[chunk[place]] for place in places])
            results |= zip(places, scores, strict=True)
        yield from (results[place] for place in range(len(chunk)))


def text_likelihoods(
    model: LanguageModel, sentences: Sentences, *, streams: int = 64, unroll: int = 32
) -> list[Likelihoods]:
    """Like `sentence_likelihoods`, but carry the state from sentence to sentence, as the original's
    evaluation does.

    The text is cut between sentences into `streams` parts that run in parallel, each from a zero
    state; with one stream every sentence follows the one before.
    """
    cuts = _cuts([len(sentence) + 1 for sentence in sentences], streams)
    return model.likelihoods([sentences[start:end] for start, end in pairwise(cuts)], unroll)


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
        sentences = [sentence[::step] for sentence in part]
        read = np.concatenate([piece for words in sentences for piece in (first, words)])
        inputs[row, : len(read)] = read
        targets[row, : len(read)] = np.concatenate(
            [piece for words in sentences for piece in (words, last)]
        )
    return inputs, targets


def perplexity_of(loss: float, source: str = "") -> float:
    """Return the perplexity of a mean negative log likelihood (nats).

    Raises FloatingPointError, with the model's `source`, if it is beyond all floats.
    """
    try:
        return math.exp(loss)
    except OverflowError as error:
        raise FloatingPointError(
            f"a mean loss of {loss:.3g} nats per prediction has no finite perplexity: the training "
            "of this language model has diverged; choose a lower learning rate (pretrain.lr or "
            f"adapt.lr){or_damaged(source)}"
        ) from error


def or_damaged(source: str) -> str:
    """Return the other cause of a loss that is not finite, where a model was read from files."""
    return f". Or {source} is damaged: get or make it again" if source else ""
