"""Scores of examples that have one label each."""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.functional import one_hot

from .counts import ByExample, Counts, figures_of, ratios, scores_of

CELLS = 1_000_000  # examples times labels; the counts of more would fill the memory of a report


class Accuracy(Counts):
    """The share of examples with the correct label, overall and by gold label (its recall)."""

    def __init__(self, labels: Iterable[str]) -> None:
        distinct = sorted(set(labels))
        # One more row than labels, since predictions may have labels that gold does not have.
        super().__init__(len(distinct) + 1, 3)  # correct, predicted, gold
        self.labels = distinct

    def count(self, predicted: Sequence[str], gold: Sequence[str]) -> Int[Tensor, "N K 3"]:
        """Return, for each label, whether it is correct, predicted, gold. Raises ValueError for a
        gold label that is not one of the `labels`.
        """
        unknown = sorted(set(gold) - set(self.labels))
        if unknown:
            raise ValueError(f"gold label {unknown[0]!r}, but the labels are {self.labels}")
        sides = [self._numbers(predicted), self._numbers(gold)]
        guessed, true = one_hot(torch.tensor(sides, dtype=torch.long), len(self.labels) + 1)
        return torch.stack([guessed * true, guessed, true], -1)

    def _numbers(self, side: Sequence[str]) -> list[int]:
        """Return the number of each label; those that gold does not have share the last one."""
        numbers = {label: number for number, label in enumerate(self.labels)}
        return [numbers.get(label, len(self.labels)) for label in side]

    def tally(self, side: Sequence[str]) -> Counter[str]:
        """Return how often each label occurs."""
        return Counter(side)

    def by_example(self, predicted: Sequence[str], gold: Sequence[str]) -> ByExample:
        """Return whether each example is correct, for `accuracy`."""
        return {"accuracy": ratios(self.count(predicted, gold).sum(1))["recall"]}

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `accuracy`, and that of each gold label as `LABEL/accuracy`; from 0 to 1, and 0
        without counts.
        """
        right, _, total = self.counts.double().unbind(1)
        figures = {"accuracy": right.sum() / total.sum().clamp(min=1)}
        for label, share in zip(self.labels, right / total.clamp(min=1), strict=False):
            figures[f"{label}/accuracy"] = share
        return figures


class Classification(Accuracy):
    """Scores of a classification, also if some labels are rare.

    `positive` is the label whose F1 stands for the whole, as in tasks of two labels.
    """

    def __init__(self, labels: Iterable[str], *, positive: str | int | None = None) -> None:
        super().__init__(labels)
        self.positive = None if positive is None else str(positive)
        if self.positive is not None and self.positive not in self.labels:
            raise ValueError(
                f"task.metric.positive={positive}, but the labels are {', '.join(self.labels)}"
            )

    def by_example(self, predicted: Sequence[str], gold: Sequence[str]) -> ByExample:
        """Return the numbers of each example for all scores but the precision and recall of labels;
        only for `accuracy` if the examples times labels are more than CELLS.
        """
        counts = self.count(predicted, gold)
        if counts[..., 0].numel() > CELLS:
            return super().by_example(predicted, gold)
        return self._rows(counts)

    def _rows(self, counts: Int[Tensor, "N K 3"]) -> ByExample:
        f1s = [ratios(of_label)["f1"] for of_label in counts.unbind(1)]
        rows = {}
        for label, f1 in zip(self.labels, f1s, strict=False):
            rows[f"{label}/f1"] = f1
        rows["accuracy"] = ratios(counts.sum(1))["recall"]
        rows["macro_f1"] = torch.cat(f1s, 1)[:, counts[..., 2].any(0)]
        if self.positive is not None:
            rows["f1"] = rows[f"{self.positive}/f1"]
            rows["accuracy_f1"] = torch.cat([rows["accuracy"], rows["f1"]], 1)
        right, guessed, true = counts.double().unbind(-1)
        every = true.sum(1, keepdim=True).expand_as(true)
        moments = torch.stack([every, true, guessed, true, guessed, right], -1)
        return rows | {"matthews": moments.flatten(1)[:, None]}

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `accuracy`, `macro_f1`, `matthews`, `LABEL/precision`, `LABEL/recall`, `LABEL/f1`;
        with a positive label also its `f1`, and `accuracy_f1`, the mean of this and accuracy, which
        is GLUE's score of paraphrases (Wang et al. 2018, section 3).

        `macro_f1` is the mean F1 of the labels that gold has. `matthews` is Matthews' correlation
        for any number of labels, R_K (Gorodkin 2004), from -1 to 1; for two it is phi. The others
        are from 0 to 1. All are 0 without counts.
        """
        scores = scores_of(self._rows(self.counts[None]))
        scores["accuracy"] = super().compute()["accuracy"]
        for label, counts in zip(self.labels, self.counts, strict=False):
            scores |= figures_of(f"{label}/", counts)
        return scores
