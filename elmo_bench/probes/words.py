"""Words with their vectors and labels, and functions that all probes share.

Axes: L layers, N words of a text, M of another, D encoder; B of a batch.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.encoders import Encoder, encode_each

from .read import Sentence

BATCH = 1024  # words per training step of a probe


class Text(NamedTuple):
    """Sentences and the vectors of all their words, in text order (4 L N D bytes)."""

    sentences: list[Sentence]
    layers: Float[Tensor, "L N D"]


class Labelled(NamedTuple):
    """The labelled words of a text: row numbers, words, labels, and their number per sentence."""

    rows: list[int]
    words: list[str]
    labels: list[Any]
    lengths: list[int]


class Training(NamedTuple):
    """Training settings of a probe: Adam steps, initial rate (decays linearly to 0), device."""

    steps: int
    lr: float
    device: str


@runtime_checkable
class Probe(Protocol):
    """The probe of one property.

    Figures are fractions of 1 by name: `accuracy`, and where they apply `control`, the accuracy on
    a control task, and `f1`, of whole chunks.
    """

    is_random: bool  # whether its figures depend on the seed

    def baseline(self) -> dict[str, float]:
        """Return the figures of a guess without vectors, on the test set."""
        ...

    def figures(self, layer: int, seed: int) -> dict[str, float]:
        """Return the figures of a layer, on the test set."""
        ...


def encoded(encoder: Encoder, sentences: Sequence[Sentence], advance: Callable[[], object]) -> Text:
    """Encode sentences; `advance` is called after each."""
    starts = np.cumsum([0, *(len(sentence.words) for sentence in sentences)]).tolist()
    layers = torch.empty(encoder.num_layers, starts[-1], encoder.dim)
    for number, vectors in encode_each(encoder, [sentence.words for sentence in sentences]):
        layers[:, starts[number] : starts[number + 1]] = vectors
        advance()
    return Text(list(sentences), layers)


def properties(train: Sequence[Sentence], test: Sequence[Sentence]) -> list[str]:
    """Return the names of the properties with at least two labels in training and one in test."""
    names = dict.fromkeys(name for sentence in train for name in sentence.labels)
    return [
        name
        for name in names
        if len(set(labelled(train, name).labels)) > 1 and labelled(test, name).labels
    ]


def measure(
    probe: Probe, num_layers: int, seeds: Sequence[int], advance: Callable[[], object]
) -> dict[str, Any]:
    """Return the figures of the baseline and of each layer and seed, in the format of `probe.json`.

    `advance` is called after each layer and seed.
    """
    layers = []
    for layer in range(num_layers):
        by_seed = []
        for seed in seeds:
            by_seed.append(probe.figures(layer, seed))
            advance()
        layers.append({name: [figures[name] for figures in by_seed] for name in by_seed[0]})
    return {"baseline": probe.baseline(), "layers": layers}


def fit(
    model: nn.Module,
    count: int,
    size: int,
    loss: Callable[[Int[Tensor, " B"]], Float[Tensor, ""]],
    training: Training,
    seed: int,
) -> None:
    """Minimise a convex loss over random batches of `size` indices below `count`.

    The parameters start at 0, so that the seed determines the order of the batches only.
    """
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    optimizer = torch.optim.Adam(model.parameters(), lr=training.lr)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, training.steps)
    for batch in islice(_shuffled(count, size, seed), training.steps):
        optimizer.zero_grad()
        loss(batch).backward()
        optimizer.step()
        schedule.step()


def _shuffled(count: int, size: int, seed: int) -> Iterator[Int[Tensor, " B"]]:
    """Yield batches forever, shuffling the indices anew in each epoch."""
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield from torch.randperm(count, generator=generator).split(size)


def labelled(sentences: Sequence[Sentence], name: str) -> Labelled:
    """Return the words that have a label of this property."""
    result, start = Labelled([], [], [], []), 0
    for words, by_name in sentences:
        labels = by_name.get(name, [None] * len(words))
        positions = [position for position, label in enumerate(labels) if label is not None]
        result.rows.extend(start + position for position in positions)
        result.words.extend(words[position] for position in positions)
        result.labels.extend(labels[position] for position in positions)
        result.lengths.append(len(positions))
        start += len(words)
    return result


def standardised(
    x: Float[Tensor, "N D"], other: Float[Tensor, "M D"]
) -> tuple[Float[Tensor, "N D"], Float[Tensor, "M D"]]:
    """Standardise `x` in each dimension, and apply the same shift and scale to `other`."""
    mean, deviation = x.mean(0), x.std(0, unbiased=False).clamp(min=1e-6)
    return (x - mean) / deviation, (other - mean) / deviation


def accuracy(guesses: Sequence[Any], labels: Sequence[Any]) -> float:
    """Return the share of correct guesses."""
    return float(np.mean([a == b for a, b in zip(guesses, labels, strict=True)]))


def most_frequent(
    keys: Sequence[Hashable], labels: Sequence[Any], new_keys: Sequence[Hashable]
) -> list[Any]:
    """Return the most frequent label of each new key; of all labels if the key is unknown."""
    counts: Mapping[Hashable, Counter] = defaultdict(Counter)
    for key, label in zip(keys, labels, strict=True):
        counts[key][label] += 1
    default = Counter(labels).most_common(1)[0][0]
    best = {key: counter.most_common(1)[0][0] for key, counter in counts.items()}
    return [best.get(key, default) for key in new_keys]


def drawn(words: Sequence[str], labels: Sequence[Any], seed: int) -> dict[str, Any]:
    """Return a control task (Hewitt and Liang 2019): assign a random label to each word type.

    A label that is listed twice is drawn twice as often.
    """
    types = sorted(set(words))
    numbers = np.random.default_rng(seed).integers(len(labels), size=len(types))
    return {word: labels[number] for word, number in zip(types, numbers, strict=True)}
