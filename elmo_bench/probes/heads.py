"""The heads of words in a dependency tree: a bilinear probe.

Axes: N words of training, M of test, B sentences of a batch, T words of the longest, D encoder,
H = T + 1 possible heads of a word: the root, which is number 0, and the words.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo_bench.encoders import batches

from .words import (
    BATCH,
    Text,
    Training,
    accuracy,
    drawn,
    fit,
    labelled,
    most_frequent,
    standardised,
)

NO_HEAD = -1  # words without a scored head
CONTROL = ("itself", "first", "last")


class Place(NamedTuple):
    """The position of a word in its sentence, counted from 1, and the length of the sentence."""

    number: int
    length: int


class Padded(NamedTuple):
    """The row numbers of the words of a batch of sentences, and a mask: true at words."""

    rows: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]


class Heads:
    """A bilinear classifier of the heads of words; reports unlabelled attachment scores.

    Punctuation is not scored. In the control task, the head of a word type is the word itself, or
    the first or last word of its sentence, at random (Hewitt and Liang 2019).
    """

    is_random = True

    def __init__(self, name: str, train: Text, test: Text, training: Training) -> None:
        self.layers, self.training = (train.layers, test.layers), training
        self.train, self.test = (labelled(text.sentences, name) for text in (train, test))
        self.lengths, self.new_lengths = (
            [len(sentence.words) for sentence in text.sentences] for text in (train, test)
        )
        self.places = places(self.lengths, self.train.rows)
        self.new_places = places(self.new_lengths, self.test.rows)

    def baseline(self) -> dict[str, float]:
        """Return the accuracy of the most frequent distance from each word to its head in training.

        Being the root counts as a distance, 0.
        """
        distances = [
            head and head - place.number
            for head, place in zip(self.train.labels, self.places, strict=True)
        ]
        guesses = most_frequent(self.train.words, distances, self.test.words)
        heads = [
            distance and place.number + distance
            for distance, place in zip(guesses, self.new_places, strict=True)
        ]
        return {"accuracy": accuracy(heads, self.test.labels)}

    def figures(self, layer: int, seed: int) -> dict[str, float]:
        """Return the figures of a layer, on the test set."""
        x, new = standardised(*(layers[layer].to(self.training.device) for layers in self.layers))
        behaviours = drawn([*self.train.words, *self.test.words], CONTROL, seed)
        control = control_heads(self.train.words, self.places, behaviours)
        new_control = control_heads(self.test.words, self.new_places, behaviours)
        return {
            "accuracy": self._accuracy(x, new, self.train.labels, self.test.labels, seed),
            "control": self._accuracy(x, new, control, new_control, seed),
        }

    def _accuracy(
        self,
        x: Float[Tensor, "N D"],
        new: Float[Tensor, "M D"],
        heads: Sequence[int],
        correct: Sequence[int],
        seed: int,
    ) -> float:
        all_heads = torch.full((len(x),), NO_HEAD)
        all_heads[self.train.rows] = torch.tensor(heads)
        guesses = bilinear(x, self.lengths, all_heads, new, self.new_lengths, self.training, seed)
        return accuracy([guesses[row] for row in self.test.rows], correct)


def places(lengths: Sequence[int], rows: Sequence[int]) -> list[Place]:
    """Return the places of some rows of a text whose sentences have these lengths."""
    all_places = [Place(n, length) for length in lengths for n in range(1, length + 1)]
    return [all_places[row] for row in rows]


def control_heads(
    words: Sequence[str], places: Sequence[Place], behaviours: Mapping[str, str]
) -> list[int]:
    """Return the head of each word in the control task."""
    return [
        {"itself": place.number, "first": 1, "last": place.length}[behaviours[word]]
        for word, place in zip(words, places, strict=True)
    ]


class Bilinear(nn.Module):
    """Scores word j as the head of word i by (h_i A h_j + sqrt(D) b h_j) / D, and the root by
    c h_i + d.

    D is the size of the vectors h. Cross-entropy of these scores is convex in the parameters.
    """

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.head, self.root = nn.Linear(dim, dim), nn.Linear(dim, 1)

    def forward(
        self, x: Float[Tensor, "B T D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T H"]:
        # Unscaled, one Adam step would change a score (D^2 products) D times as much as in a linear
        # probe.
        scaled = x / x.shape[-1] ** 0.5
        words = (self.head(scaled) @ scaled.mT).masked_fill(~mask[:, None], -torch.inf)
        return torch.cat([self.root(x), words], 2)


def bilinear(
    x: Float[Tensor, "N D"],
    lengths: Sequence[int],
    heads: Int[Tensor, " N"],
    new: Float[Tensor, "M D"],
    new_lengths: Sequence[int],
    training: Training,
    seed: int,
) -> list[int]:
    """Train the probe and predict the heads of all new words.

    `lengths` and `new_lengths` are the lengths of the sentences. A training step is a batch of
    sentences of similar length. Words with a head of -1 are left out of the loss.
    """
    model = Bilinear(x.shape[1]).to(x.device)
    padded = [batch for batch in _padded(lengths) if (heads[batch.rows[batch.mask]] >= 0).any()]

    def loss(number: Tensor) -> Tensor:
        rows, mask = padded[number]
        gold = heads[rows].masked_fill(~mask, NO_HEAD).to(x.device)
        scores = model(x[rows.to(x.device)], mask.to(x.device))
        return F.cross_entropy(scores.flatten(0, 1), gold.flatten(), ignore_index=NO_HEAD)

    fit(model, len(padded), 1, loss, training, seed)
    guesses = torch.zeros(len(new), dtype=torch.long)
    with torch.no_grad():
        for rows, mask in _padded(new_lengths):
            scores = model(new[rows.to(x.device)], mask.to(x.device))
            guesses[rows[mask]] = scores.argmax(2).cpu()[mask]
    return guesses.tolist()


def _padded(lengths: Sequence[int]) -> list[Padded]:
    """Return the batches of a text whose sentences have these lengths."""
    sizes = torch.tensor(lengths)
    starts = sizes.cumsum(0) - sizes
    result = []
    for numbers in batches(lengths, BATCH):
        position = torch.arange(int(sizes[numbers].max()))
        mask = position < sizes[numbers, None]
        result.append(Padded((starts[numbers, None] + position).where(mask, 0), mask))
    return result
