"""Metrics that several tasks share.

Their states are sums, so several processes get the figure of the whole corpus. SpanF1 and Accuracy
sum integer counts, exactly; Mean sums floats.

`by_example` returns four counts of each example and score, for significance tests: the numerator
and denominator of recall, then of precision. A figure is the mean over the S scores of the harmonic
mean of recall and precision; accuracy has the same ratio twice.

Axes: N examples, S scores (3 for CoNLL's F1 of coreference, else 1), K types and one row for
others.
"""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torchmetrics import Metric

from elmo_bench.text import tags_to_spans

Tags = Sequence[str]
ByExample = dict[str, Float[Tensor, "N S 4"]]


def precision_recall_f1(prefix: str, counts: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the three metrics from the counts of correct, predicted and gold chunks; 0 without
    counts.
    """
    right, predicted, gold = counts.double()
    return {
        f"{prefix}precision": right / predicted.clamp(min=1),
        f"{prefix}recall": right / gold.clamp(min=1),
        f"{prefix}f1": 2 * right / (predicted + gold).clamp(min=1),
    }


def chunks_by_example(counts: Int[Tensor, "N 3"]) -> ByExample:
    """Return the same three metrics for `by_example`, from the counts of each example."""
    right, predicted, gold = counts.double().unbind(1)
    columns = {
        "precision": (right, predicted, right, predicted),
        "recall": (right, gold, right, gold),
        "f1": (right, gold, right, predicted),
    }
    return {name: torch.stack(column, 1)[:, None] for name, column in columns.items()}


class SpanF1(Metric):
    """Precision, recall and F1 of labelled chunks, overall and by type, as conlleval computes them.

    `labels` are the possible tags ("B-PER") or types ("PER"). Chunks are those of IOB2 tags.
    """

    full_state_update = False

    def __init__(self, labels: Iterable[str]) -> None:
        super().__init__()
        self.types = sorted({label.partition("-")[2] or label for label in labels} - {"O"})
        self.counts: torch.Tensor  # types x (correct, predicted, gold)
        # One more row than types, since predictions may have types that gold does not have.
        self.add_state(
            "counts", torch.zeros(len(self.types) + 1, 3, dtype=torch.long), dist_reduce_fx="sum"
        )

    def update(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> None:
        """Count the chunks of a batch of sentences."""
        self.counts += self._count(predicted, gold).sum(0).to(self.counts.device)

    def by_example(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> ByExample:
        """Return the counts of each sentence for `precision`, `recall` and `f1` over all types."""
        return chunks_by_example(self._count(predicted, gold).sum(1))

    def _count(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> Int[Tensor, "N K 3"]:
        numbers = {name: number for number, name in enumerate(self.types)}
        counts = torch.zeros(len(gold), *self.counts.shape, dtype=torch.long)
        for row, ours, theirs in zip(counts, predicted, gold, strict=True):
            guessed, true = set(tags_to_spans(ours)), set(tags_to_spans(theirs))
            for column, chunks in enumerate((guessed & true, guessed, true)):
                for name, _, _ in chunks:
                    row[numbers.get(name, -1), column] += 1
        return counts

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `precision`, `recall`, `f1`, and the same three for each type that occurs, such as
        `PER/f1`.

        The values are fractions of 1, and 0 without counts. A type that is not one of the `labels`
        counts only in the totals.
        """
        figures = precision_recall_f1("", self.counts.sum(0))
        for name, counts in zip(self.types, self.counts, strict=False):
            if counts.any():
                figures |= precision_recall_f1(f"{name}/", counts)
        return figures


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


class Accuracy(Metric):
    """The share of examples with the correct label, overall and by gold label (its recall)."""

    full_state_update = False

    def __init__(self, labels: Iterable[str]) -> None:
        super().__init__()
        self.labels = sorted(set(labels))
        self.counts: torch.Tensor  # labels x (correct, gold)
        self.add_state(
            "counts", torch.zeros(len(self.labels), 2, dtype=torch.long), dist_reduce_fx="sum"
        )

    def update(self, predicted: Sequence[str], gold: Sequence[str]) -> None:
        """Count some examples. Raises ValueError for a gold label that is not one of the
        `labels`.
        """
        numbers = {label: number for number, label in enumerate(self.labels)}
        counts = torch.zeros_like(self.counts, device="cpu")
        for ours, theirs in zip(predicted, gold, strict=True):
            if theirs not in numbers:
                raise ValueError(f"gold label {theirs!r}, but the labels are {self.labels}")
            counts[numbers[theirs]] += torch.tensor([ours == theirs, True])
        self.counts += counts.to(self.counts.device)

    def by_example(self, predicted: Sequence[str], gold: Sequence[str]) -> ByExample:
        """Return whether each example is correct, for `accuracy`."""
        rows = [[[ours == theirs, 1] * 2] for ours, theirs in zip(predicted, gold, strict=True)]
        return {"accuracy": torch.tensor(rows, dtype=torch.double).reshape(-1, 1, 4)}

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `accuracy`, and that of each gold label as `LABEL/accuracy`; from 0 to 1, and 0
        without counts.
        """
        right, total = self.counts.double().unbind(1)
        figures = {"accuracy": right.sum() / total.sum().clamp(min=1)}
        return figures | {
            f"{label}/accuracy": right[k] / total[k].clamp(min=1)
            for k, label in enumerate(self.labels)
        }
