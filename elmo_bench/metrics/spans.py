"""Scores of labelled chunks: precision, recall and F1."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from elmo_bench.text import tags_to_spans

from .counts import ByExample, Counts, figures_of, ratios

Tags = Sequence[str]


class SpanF1(Counts):
    """Precision, recall and F1 of labelled chunks, overall and by type, as conlleval computes them.

    `labels` are the possible tags ("B-PER") or types ("PER"). Chunks are those of IOB2 tags.
    """

    sought = "chunk"

    def __init__(self, labels: Iterable[str]) -> None:
        types = {label.partition("-")[2] or label for label in labels}
        types.discard("O")
        # One more row than types, since predictions may have types that gold does not have.
        super().__init__(len(types) + 1, 3)  # correct, predicted, gold
        self.types = sorted(types)

    def chunks(self, tags: Tags) -> Collection[Any]:
        """Return what is counted: tuples that begin with a type."""
        return tags_to_spans(tags)

    def totals(self, counts: Int[Tensor, "*N K 3"]) -> Int[Tensor, "*N 3"]:
        """Return the counts over all types."""
        return counts.sum(-2)

    def count(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> Int[Tensor, "N K 3"]:
        """Return the chunks of each type in each sentence: correct, predicted, gold."""
        numbers = {name: number for number, name in enumerate(self.types)}
        counts = torch.zeros(len(gold), *self.counts.shape, dtype=torch.long)
        for row, ours, theirs in zip(counts, predicted, gold, strict=True):
            guessed = set(self.chunks(ours))
            true = set(self.chunks(theirs))
            for column, chunks in enumerate((guessed & true, guessed, true)):
                for name, *_ in chunks:
                    row[numbers.get(name, -1), column] += 1
        return counts

    def tally(self, side: Sequence[Tags]) -> Counter[str]:
        """Return how often each type of chunk occurs."""
        counts: Counter[str] = Counter()
        for tags in side:
            counts.update(name for name, *_ in set(self.chunks(tags)))
        return counts

    def by_example(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> ByExample:
        """Return the counts of each sentence for `precision`, `recall` and `f1` over all types."""
        return ratios(self.totals(self.count(predicted, gold)))

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `precision`, `recall`, `f1`, and the same three for each type that occurs, such as
        `PER/f1`.

        The values are fractions of 1, and 0 without counts. A type that is not one of the `labels`
        counts only in the totals.
        """
        figures = figures_of("", self.totals(self.counts))
        for name, counts in zip(self.types, self.counts, strict=False):
            if counts.any():
                figures |= figures_of(f"{name}/", counts)
        return figures
