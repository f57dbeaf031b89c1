"""Metrics that several tasks share.

Their states are sums, so several processes get the figure of the whole corpus. SpanF1 and Accuracy
sum integer counts, exactly; Mean sums floats.

`by_example` returns four counts of each example and score, for significance tests: the numerator
and denominator of recall, then of precision. A figure is the mean over the S scores of the harmonic
mean of recall and precision; accuracy has the same ratio twice.

Axes: N examples, S scores (3 for CoNLL's F1 of coreference, else 1), K types and one row for
others.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor
from torchmetrics import Metric

from elmo_bench.text import tags_to_spans

Tags = Sequence[str]
ByExample = dict[str, Float[Tensor, "N S 4"]]


class Counts(Metric):
    """A metric whose only state is the sum over examples of what `count` returns of each."""

    full_state_update = False

    def __init__(self, *shape: int, dtype: torch.dtype = torch.long) -> None:
        super().__init__()
        self.counts: torch.Tensor
        self.add_state("counts", torch.zeros(shape, dtype=dtype), dist_reduce_fx="sum")

    def count(self, predicted: Sequence[Any], gold: Sequence[Any]) -> Shaped[Tensor, "N ..."]:
        """Return the counts of each example."""
        raise NotImplementedError

    def update(self, predicted: Sequence[Any], gold: Sequence[Any]) -> None:
        """Add the counts of a batch of examples."""
        self.counts += self.count(predicted, gold).sum(0).to(self.counts.device)


class SpanF1(Counts):
    """Precision, recall and F1 of labelled chunks, overall and by type, as conlleval computes them.

    `labels` are the possible tags ("B-PER") or types ("PER"). Chunks are those of IOB2 tags.
    """

    def __init__(self, labels: Iterable[str]) -> None:
        types = {label.partition("-")[2] or label for label in labels} - {"O"}
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
            guessed, true = set(self.chunks(ours)), set(self.chunks(theirs))
            for column, chunks in enumerate((guessed & true, guessed, true)):
                for name, *_ in chunks:
                    row[numbers.get(name, -1), column] += 1
        return counts

    def by_example(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> ByExample:
        """Return the counts of each sentence for `precision`, `recall` and `f1` over all types."""
        right, guessed, true = self.totals(self.count(predicted, gold)).double().unbind(1)
        columns = {
            "precision": (right, guessed, right, guessed),
            "recall": (right, true, right, true),
            "f1": (right, true, right, guessed),
        }
        return {name: torch.stack(column, 1)[:, None] for name, column in columns.items()}

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `precision`, `recall`, `f1`, and the same three for each type that occurs, such as
        `PER/f1`.

        The values are fractions of 1, and 0 without counts. A type that is not one of the `labels`
        counts only in the totals.
        """
        figures = _figures("", self.totals(self.counts))
        for name, counts in zip(self.types, self.counts, strict=False):
            if counts.any():
                figures |= _figures(f"{name}/", counts)
        return figures


def _figures(prefix: str, counts: Int[Tensor, "3"]) -> dict[str, torch.Tensor]:
    right, predicted, gold = counts.double()
    return {
        f"{prefix}precision": right / predicted.clamp(min=1),
        f"{prefix}recall": right / gold.clamp(min=1),
        f"{prefix}f1": 2 * right / (predicted + gold).clamp(min=1),
    }


class Mean(Metric):
    """The mean over items of batches' sums, without waiting for the GPU.

    (torchmetrics' `MeanMetric` ignores the weights if it does not check for NaN.)
    """

    full_state_update = False

    def __init__(self, *shape: int, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.sums: torch.Tensor
        self.count: torch.Tensor
        self.add_state("sums", torch.zeros(shape, dtype=dtype), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, sums: Float[Tensor, "*shape"], count: int | Tensor) -> None:
        """Add the sums over the items of a batch, and their number."""
        self.sums += sums
        self.count += count

    def compute(self) -> Float[Tensor, "*shape"]:
        """Return the means; 0 without items."""
        return self.sums / self.count.clamp(min=1)


class Accuracy(Counts):
    """The share of examples with the correct label, overall and by gold label (its recall)."""

    def __init__(self, labels: Iterable[str]) -> None:
        distinct = sorted(set(labels))
        super().__init__(len(distinct), 2)  # correct, gold
        self.labels = distinct

    def count(self, predicted: Sequence[str], gold: Sequence[str]) -> Int[Tensor, "N K 2"]:
        """Return, by gold label, whether each example is correct, and 1. Raises ValueError for a
        gold label that is not one of the `labels`.
        """
        if unknown := sorted(set(gold) - set(self.labels)):
            raise ValueError(f"gold label {unknown[0]!r}, but the labels are {self.labels}")
        counts = torch.zeros(len(gold), *self.counts.shape, dtype=torch.long)
        for row, ours, theirs in zip(counts, predicted, gold, strict=True):
            row[self.labels.index(theirs)] = torch.tensor([ours == theirs, True])
        return counts

    def by_example(self, predicted: Sequence[str], gold: Sequence[str]) -> ByExample:
        """Return whether each example is correct, for `accuracy`."""
        return {"accuracy": self.count(predicted, gold).sum(1).double().repeat(1, 2)[:, None]}

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `accuracy`, and that of each gold label as `LABEL/accuracy`; from 0 to 1, and 0
        without counts.
        """
        right, total = self.counts.double().unbind(1)
        shares = zip(self.labels, right / total.clamp(min=1), strict=True)
        figures = {"accuracy": right.sum() / total.sum().clamp(min=1)}
        return figures | {f"{label}/accuracy": share for label, share in shares}
