"""The language model on top of a biLM (section 3.1 of the paper): two softmaxes over words with
shared weights, or one for a biLM with one direction.

The forward direction reads <S> w_1 ... w_n and predicts w_1 ... w_n </S>; the backward one reads
</S> w_n ... w_1 and predicts w_n ... w_1 <S>. Words are read as characters, so any word can be
read; only predictions need a vocabulary.

Axes: B batch or streams, T tokens, C characters, P one direction, V vocabulary, U different words,
N predictions of a sentence.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.encoders import BATCH_TOKENS, batches
from elmo_bench.encoders.bilm import BiLm, State
from elmo_bench.text import chunks

from .corpus import BEGIN, END, UNKNOWN, Corpus, Sentences

Likelihoods = dict[str, Float[np.ndarray, " N"]]  # direction -> log p (nats)
SCORES = 1 << 24  # scores (tokens x vocabulary) in memory at once, for perplexity


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
    ) -> tuple[list[Float[Tensor, "B T P"]], State]:
        """Return each direction's top layer, after dropout, from which words are predicted, and the
        next state.

        A direction has its own window, of word types whose characters are in `frames`. A word is
        encoded once, however often it occurs in the windows.
        """
        device = self.softmax.weight.device
        types, places = np.unique(np.stack(windows), return_inverse=True)
        chars = torch.from_numpy(frames[types].astype(np.int64)).to(device)
        rows = torch.from_numpy(places.reshape(len(windows), *windows[0].shape)).to(device)
        return self.bilm.run(self.bilm.token_encoder(chars)[rows], state)

    @torch.no_grad()
    def likelihoods(self, sentences: Sentences) -> list[Likelihoods]:
        """Return the log probability (nats) of every prediction of each sentence, by direction,
        each sentence from a zero state.

        There is one value per word, in the order of the text; forward has the value of </S> after
        them, backward that of <S> before them.
        """
        device = self.softmax.weight.device
        layers, _ = self.bilm.read(self.bilm.prepare(sentences).chars.to(device), boundaries=True)
        framed = ([BEGIN, *sentence, END] for sentence in sentences)
        numbers = [torch.tensor([*map(self.number, words)]) for words in framed]
        words, sizes = pad_sequence(numbers, True), [len(sentence) + 1 for sentence in sentences]
        here = torch.arange(words.shape[1] - 1) < torch.tensor(sizes)[:, None]
        scores: dict[str, Sequence[np.ndarray]] = {}
        sides = layers[-1].chunk(len(self.directions), -1)
        for name, top in zip(self.directions, sides, strict=True):
            read, predicted = slice(0, -1), slice(1, None)
            if name == "backward":
                read, predicted = predicted, read
            targets = words[:, predicted][here].to(device)
            values = self.log_probabilities(top[:, read][here.to(device)], targets).cpu().numpy()
            scores[name] = np.split(values, np.cumsum(sizes[:-1]))
        return [
            dict(zip(scores, parts, strict=True)) for parts in zip(*scores.values(), strict=True)
        ]

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
    ) -> dict[str, float]:
        """Return the exponential of the mean negative log likelihood of each direction, with the
        full softmax and zero states.

        `watch` receives the batches and yields them unchanged, so that it can show progress.
        """
        training = self.training
        self.eval()
        totals = dict.fromkeys(self.directions, 0.0)
        for places in watch([*batches([len(sentence) for sentence in sentences])]):
            for scores in self.likelihoods([sentences[place] for place in places]):
                add(totals, scores)
        self.train(training)
        return self.perplexities(totals, sum(len(sentence) + 1 for sentence in sentences))

    def perplexities(self, totals: Mapping[str, float], count: int) -> dict[str, float]:
        """Return each direction's perplexity, from the sum of log p of `count` predictions.

        Raises FloatingPointError, with the model's files, if it is beyond all floats.
        """
        losses = {name: -total / count for name, total in totals.items()}
        try:
            return {name: math.exp(loss) for name, loss in losses.items()}
        except OverflowError as error:
            raise FloatingPointError(
                f"a mean loss of {max(losses.values()):.3g} nats per prediction has no finite "
                "perplexity: the training of this language model has diverged; choose a lower "
                f"learning rate (pretrain.lr or adapt.lr){or_damaged(self.source)}"
            ) from error


def add(totals: dict[str, float], scores: Likelihoods) -> None:
    """Add a sentence's log probabilities to the totals of each direction."""
    for name, values in scores.items():
        totals[name] += float(values.sum(dtype=np.float64))


def sentence_likelihoods(
    model: LanguageModel, sentences: Iterable[Sequence[str]]
) -> Iterator[tuple[Sequence[str], Likelihoods]]:
    """Yield each sentence with its `likelihoods`, in order; the text may be longer than memory."""
    for chunk in chunks(sentences, 8 * BATCH_TOKENS):
        results: dict[int, Likelihoods] = {}
        for places in batches([len(sentence) for sentence in chunk]):
            scores = model.likelihoods([chunk[place] for place in places])
            results |= zip(places, scores, strict=True)
        yield from ((sentence, results[place]) for place, sentence in enumerate(chunk))


def or_damaged(source: str) -> str:
    """Return the other cause of a loss that is not finite, where a model was read from files."""
    return f". Or {source} is damaged: get or make it again" if source else ""
