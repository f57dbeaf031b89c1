"""The language model around a biLM (paper, section 3.1): two softmaxes over words that share their weights.

The forward direction reads <S> w_1 ... w_n and predicts w_1 ... w_n </S>; the backward one reads </S> w_n ... w_1 and predicts
w_n ... w_1 <S>. Words are read by their characters, so any word can be read; only what is predicted needs a vocabulary.

Axes: B batch, T tokens, C characters, P one direction, V vocabulary, U different words.
"""

import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from .bilm import BiLm, State
from .chars import char_ids, word_frame

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
SCORES = 1 << 24  # numbers that a full softmax may take at a time: 64 MiB
Sentences = Sequence[Sequence[str]]


class LanguageModel(nn.Module):
    """A biLM and the softmax that both of its directions predict words with."""

    def __init__(self, bilm: BiLm, vocabulary: Sequence[str]) -> None:
        super().__init__()
        self.bilm, self.vocabulary = bilm, list(vocabulary)
        self.numbers = {word: number for number, word in enumerate(self.vocabulary)}
        size = bilm.options.projection_size
        self.softmax = nn.Linear(size, len(self.vocabulary))
        nn.init.normal_(self.softmax.weight, std=1 / math.sqrt(size))
        nn.init.zeros_(self.softmax.bias)

    def number(self, word: str) -> int:
        """A word's place in the vocabulary, or that of <UNK>."""
        return self.numbers.get(word, self.numbers[UNKNOWN])

    def loss(
        self,
        direction: int,
        frames: Int[Tensor, "U C"],
        inputs: Int[Tensor, "B T"],
        targets: Int[Tensor, "B T"],
        state: State,
    ) -> tuple[Float[Tensor, ""], State]:
        """The mean negative log likelihood of the targets, in nats, and the state to go on from.

        `inputs` are rows of `frames`: a word that occurs twice in a batch is encoded once.
        """
        x = self.bilm.token_encoder(frames[None])[0][inputs]
        outputs, after = self.bilm.run(direction, x, None, state)
        top = F.dropout(outputs[-1], self.bilm.dropout, self.training)
        loss = F.cross_entropy(self.softmax(top).flatten(0, 1), targets.flatten())
        return loss, after

    @torch.no_grad()
    def log_likelihoods(self, sentences: Sentences) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B T"]]:
        """Log p of every prediction, forward and backward, each sentence from a zero state; 0 past its end.

        Column t is word t in both (from 0); the forward direction ends with </S>, the backward one has <S> before the words, so
        that there T is the longest sentence and one.
        """
        device = self.softmax.weight.device
        chars = char_ids(sentences, self.bilm.options.max_characters).to(device)
        forward, backward = self.bilm(chars, boundaries=True)[0][-1].chunk(2, -1)
        return (
            self._gather(forward[:, :-1], [[*sentence, END] for sentence in sentences]),
            self._gather(backward[:, 1:], [[BEGIN, *sentence] for sentence in sentences]),
        )

    def _gather(self, top: Float[Tensor, "B T P"], words: Sentences) -> Float[Tensor, "B T"]:
        rows = [torch.tensor([self.number(word) for word in row]) for row in words]
        targets = nn.utils.rnn.pad_sequence(rows, True, -1).to(top.device)
        return self.log_probabilities(top, targets.clamp(min=0)).masked_fill(targets < 0, 0.0)

    def log_probabilities(self, top: Float[Tensor, "B T P"], targets: Int[Tensor, "B T"]) -> Float[Tensor, "B T"]:
        """Log p of each target under the full softmax, for as many places at a time as `SCORES` allows."""
        step = max(1, SCORES // len(self.vocabulary))
        pairs = zip(top.flatten(0, 1).split(step), targets.flatten().split(step), strict=True)
        parts = [-F.cross_entropy(self.softmax(x), target, reduction="none") for x, target in pairs]
        return torch.cat(parts).view_as(targets)

    def perplexity(self, sentences: Sentences, *, batch_size: int = 64) -> tuple[float, float]:
        """Exp of the mean negative log likelihood, forward and backward, with the full softmax and zero states."""
        training = self.training
        self.eval()
        ordered = sorted(sentences, key=len)
        totals = torch.zeros(2, dtype=torch.double)
        for start in range(0, len(ordered), batch_size):
            batch = self.log_likelihoods(ordered[start : start + batch_size])
            totals += torch.stack([scores.double().sum().cpu() for scores in batch])
        self.train(training)
        count = sum(len(sentence) + 1 for sentence in sentences)
        forward, backward = (-totals / count).exp().tolist()
        return forward, backward


class Corpus:
    """Tokenised sentences as numbers of word types, and each type's characters; types 0 and 1 are <S> and </S>."""

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        types = {BEGIN: 0, END: 1}
        tokens = [np.array([types.setdefault(word, len(types)) for word in s], dtype=np.int32) for s in sentences if s]
        if not tokens:
            raise ValueError("the corpus has no sentences")
        self.words = list(types)
        self.sentences = tokens
        self.num_tokens = sum(map(len, tokens))

    def vocabulary(self, size: int) -> list[str]:
        """<S>, </S>, <UNK> and the most frequent words, `size` in all: the first lines that the original asks for."""
        counts = np.bincount(np.concatenate(self.sentences), minlength=len(self.words))
        special = {BEGIN, END, UNKNOWN}
        order = sorted(range(len(self.words)), key=lambda number: (-counts[number], self.words[number]))
        frequent = [self.words[number] for number in order if self.words[number] not in special]
        return [BEGIN, END, UNKNOWN, *frequent[: size - 3]]

    def frames(self, width: int) -> Int[np.ndarray, "U C"]:
        """The character ids of every word type."""
        return np.stack([word_frame(word, width) for word in self.words]).astype(np.int16)

    def windows(
        self, direction: int, *, batch_size: int, unroll: int, rng: np.random.Generator
    ) -> Iterator[tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B T"]]]:
        """One epoch of (inputs, targets), as word types in the order in which the direction reads them.

        The sentences, in a random order, are one stream cut into `batch_size` streams that run side by side: row b of a window
        goes on where row b of the last one ended. The few tokens that fill no window are left for another epoch.
        """
        order = rng.permutation(len(self.sentences))
        first, last = ([0], [1]) if direction == 0 else ([1], [0])
        step = 1 if direction == 0 else -1
        pieces = [self.sentences[k][::step] for k in order]
        inputs = np.concatenate([part for piece in pieces for part in (first, piece)])
        targets = np.concatenate([part for piece in pieces for part in (piece, last)])
        length = len(inputs) // batch_size
        if length < unroll:
            raise ValueError(f"{len(inputs)} tokens do not fill one window of batch_size={batch_size} x unroll={unroll}")
        inputs, targets = (x[: length * batch_size].reshape(batch_size, length) for x in (inputs, targets))
        for start in range(0, length - unroll + 1, unroll):
            yield inputs[:, start : start + unroll], targets[:, start : start + unroll]

    def num_windows(self, *, batch_size: int, unroll: int) -> int:
        """How many windows an epoch has."""
        return (self.num_tokens + len(self.sentences)) // batch_size // unroll
