"""Metrics that several tasks share.

Their states are additive counts, so that several processes sum to the exact corpus score.

`by_example` gives the counts of each example, for tests of significance: a figure is the mean over
S scores of the harmonic mean of recall and precision, and an example is the numerator and
denominator of each.

Axes: N examples, S scores, K types; L layers, B batch, T tokens, D encoder.
"""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torchmetrics import Metric

Tags = Sequence[str]
ByExample = dict[str, Float[Tensor, "N S 4"]]


def precision_recall_f1(prefix: str, counts: torch.Tensor) -> dict[str, torch.Tensor]:
    """Three figures from the counts of right, predicted and gold chunks; 0 for no counts."""
    right, predicted, gold = counts.double()
    return {
        f"{prefix}precision": right / predicted.clamp(min=1),
        f"{prefix}recall": right / gold.clamp(min=1),
        f"{prefix}f1": 2 * right / (predicted + gold).clamp(min=1),
    }


def chunks_by_example(counts: Int[Tensor, "N 3"]) -> ByExample:
    """The same three figures for `by_example`, from the counts of each example."""
    right, predicted, gold = counts.double().unbind(1)
    columns = {
        "precision": (right, predicted, right, predicted),
        "recall": (right, gold, right, gold),
        "f1": (right, gold, right, predicted),
    }
    return {name: torch.stack(column, 1)[:, None] for name, column in columns.items()}


class SpanF1(Metric):
    """Precision, recall and F1 of labelled chunks, over all and by type: conlleval's figures.

    `labels` are tags ("B-PER") or types ("PER") that may occur. Chunks are what seqeval's default
    mode finds in IOB2 tags.
    """

    full_state_update = False

    def __init__(self, labels: Iterable[str]) -> None:
        super().__init__()
        self.types = sorted({label.partition("-")[2] or label for label in labels} - {"O"})
        self.counts: torch.Tensor  # types x (right, predicted, gold)
        # A row more than there are types: predictions may name one that gold does not.
        self.add_state(
            "counts", torch.zeros(len(self.types) + 1, 3, dtype=torch.long), dist_reduce_fx="sum"
        )

    def update(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> None:
        """Count the chunks of some sentences."""
        self.counts += self._count(predicted, gold).sum(0).to(self.counts.device)

    def by_example(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> ByExample:
        """The counts of each sentence, for `precision`, `recall` and `f1` over all types."""
        return chunks_by_example(self._count(predicted, gold).sum(1))

    def _count(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> Int[Tensor, "N K 3"]:
        from seqeval.metrics.sequence_labeling import get_entities  # imports scikit-learn: a second

        numbers = {name: number for number, name in enumerate(self.types)}
        counts = torch.zeros(len(gold), *self.counts.shape, dtype=torch.long)
        for row, ours, theirs in zip(counts, predicted, gold, strict=True):
            guessed, true = set(get_entities(list(ours))), set(get_entities(list(theirs)))
            for column, chunks in enumerate((guessed & true, guessed, true)):
                for name, _, _ in chunks:
                    row[numbers.get(name, -1), column] += 1
        return counts

    def compute(self) -> dict[str, torch.Tensor]:
        """`precision`, `recall`, `f1`, and the three as `PER/f1` for each type that occurs.

        They are fractions of 1, 0 where nothing was counted. A type that is none of the `labels`
        counts in the totals only.
        """
        figures = precision_recall_f1("", self.counts.sum(0))
        for name, counts in zip(self.types, self.counts, strict=False):
            if counts.any():
                figures |= precision_recall_f1(f"{name}/", counts)
        return figures


class MeanLoss(Metric):
    """The mean over examples of the means of batches, without a wait for the GPU.

    (torchmetrics' own `MeanMetric` leaves the weights out where it does not look for NaN.)
    """

    full_state_update = False

    def __init__(self) -> None:
        super().__init__()
        self.total: torch.Tensor
        self.count: torch.Tensor
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, mean: Float[Tensor, ""], examples: int) -> None:
        """Add a batch of so many examples."""
        self.total += mean * examples
        self.count += examples

    def compute(self) -> Float[Tensor, ""]:
        """The mean; 0 where there was no example."""
        return self.total / self.count.clamp(min=1)


class MeanNorms(Metric):
    """The mean length of each layer's vectors: a share of long vectors weighs more."""

    full_state_update = False

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.sums: torch.Tensor
        self.count: torch.Tensor
        self.add_state("sums", torch.zeros(num_layers, dtype=torch.double), dist_reduce_fx="sum")
        self.add_state("count", torch.zeros((), dtype=torch.long), dist_reduce_fx="sum")

    def update(self, layers: Float[Tensor, "L B T D"], mask: Bool[Tensor, "B T"]) -> None:
        """Add the words of a batch."""
        self.sums += (layers.norm(dim=-1) * mask).sum((1, 2))
        self.count += mask.sum()

    def compute(self) -> Float[Tensor, " L"]:
        """The mean of each layer; 0 where there was no word."""
        return self.sums / self.count.clamp(min=1)


class Accuracy(Metric):
    """The share of examples with the right label, over all and by gold label (its recall)."""

    full_state_update = False

    def __init__(self, labels: Iterable[str]) -> None:
        super().__init__()
        self.labels = sorted(set(labels))
        self.counts: torch.Tensor  # labels x (right, gold)
        self.add_state(
            "counts", torch.zeros(len(self.labels), 2, dtype=torch.long), dist_reduce_fx="sum"
        )

    def update(self, predicted: Sequence[str], gold: Sequence[str]) -> None:
        """Count some examples; ValueError for a gold label that is none of the `labels`."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        counts = torch.zeros_like(self.counts, device="cpu")
        for ours, theirs in zip(predicted, gold, strict=True):
            if theirs not in numbers:
                raise ValueError(f"gold label {theirs!r}, but the labels are {self.labels}")
            counts[numbers[theirs]] += torch.tensor([ours == theirs, True])
        self.counts += counts.to(self.counts.device)

    def by_example(self, predicted: Sequence[str], gold: Sequence[str]) -> ByExample:
        """Of each example whether it is right, for `accuracy`."""
        rows = [[[ours == theirs, 1] * 2] for ours, theirs in zip(predicted, gold, strict=True)]
        return {"accuracy": torch.tensor(rows, dtype=torch.double).reshape(-1, 1, 4)}

    def compute(self) -> dict[str, torch.Tensor]:
        """`accuracy`, and that of each gold label as `LABEL/accuracy`; 0 to 1, 0 for no counts."""
        right, total = self.counts.double().unbind(1)
        figures = {"accuracy": right.sum() / total.sum().clamp(min=1)}
        return figures | {
            f"{label}/accuracy": right[k] / total[k].clamp(min=1)
            for k, label in enumerate(self.labels)
        }
