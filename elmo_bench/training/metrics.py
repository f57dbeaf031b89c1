"""Metrics that several tasks share; and what a run measures besides: mean losses, norms of layers.

Their states are sums, so several processes get the score of the whole corpus: integer counts,
exactly, or floats (Mean). Correlations keeps all pairs instead, since ranks need them.

`by_example` returns numbers of each example for each score, for significance tests. Their sums give
the score, as `elmo_bench.runs.figure` says: F1 from the numerator and denominator of recall, then
of precision (accuracy has the same ratio twice), or a correlation from six moments.

`tally` counts what one side has, of gold or of the predictions: how often each label occurs, type
of chunk, or number (`cautions.py` says what is silent nonsense). A metric of things that a text may
lack says in `sought` what one is called.

Axes: N examples, S scores whose mean is meant (3 for CoNLL's F1 of coreference, else mostly 1), M
numbers of a score (4 counts, or 6 moments of each label), K types or labels and one row for others.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from scipy.stats import rankdata
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from elmo_bench.runs import figure
from elmo_bench.text import tags_to_spans

Tags = Sequence[str]
ByExample = dict[str, Float[Tensor, "N S M"]]
CELLS = 1_000_000  # examples times labels; the counts of more would fill the memory of a report


class Unrounded(nn.Module):
    """Metrics whose sums keep their types when a module is converted: in 16 bits they would soon
    stop growing. (torchmetrics guards them from `half()`, not from `to(dtype)`, which Lightning
    calls.)
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> Any:
        return super()._apply(lambda tensor: tensor.to(fn(tensor).device), *args, **kwargs)


class BySplit(Unrounded, nn.ModuleDict):
    """The task's metric of each split."""


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

    sought = "chunk"

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

    def tally(self, side: Sequence[Tags]) -> Counter[str]:
        """Return how often each type of chunk occurs."""
        return Counter(name for tags in side for name, *_ in set(self.chunks(tags)))

    def by_example(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> ByExample:
        """Return the counts of each sentence for `precision`, `recall` and `f1` over all types."""
        return _ratios(self.totals(self.count(predicted, gold)))

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


def _ratios(counts: Int[Tensor, "N 3"]) -> ByExample:
    right, predicted, gold = counts.double().unbind(1)
    columns = {
        "precision": (right, predicted, right, predicted),
        "recall": (right, gold, right, gold),
        "f1": (right, gold, right, predicted),
    }
    return {name: torch.stack(column, 1)[:, None] for name, column in columns.items()}


def _figures(prefix: str, counts: Int[Tensor, "3"]) -> dict[str, torch.Tensor]:
    return {f"{prefix}{name}": value for name, value in _scores(_ratios(counts[None])).items()}


class Mean(Unrounded, Metric):
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


class LayerNorms(nn.Module):
    """The mean norm of each layer, as a mix reads it, over the words of dev."""

    def __init__(self, mixes: nn.ModuleDict) -> None:
        super().__init__()
        self.mixes: list[tuple[str, Any]] = [*mixes.items()]
        self.norms: Any = nn.ModuleDict()
        for place, mix in self.mixes:
            self.norms[place] = Mean(len(mix.layers), dtype=torch.double)
        self.hooks: list[Any] = []
        self.read: list[tuple[Mean, Tensor, Tensor]] = []  # measured, and not yet added

    def watch(self) -> None:
        """Measure whatever the mixes read, until `means` is called."""
        for place, mix in self.mixes:
            hook = mix.register_forward_pre_hook(partial(_measure, self.norms[place], self.read))
            self.hooks.append(hook)

    def add(self) -> None:
        """Add what the mixes have read since the last call."""
        for norms, sums, count in self.read:
            norms.update(sums, count)
        self.read.clear()

    def means(self) -> dict[str, list[float]]:
        """Return the mean norm of each layer by place, over all processes, and end measuring."""
        while self.hooks:
            self.hooks.pop().remove()
        # torchmetrics returns a single value as a scalar.
        means = {place: one.compute().flatten().tolist() for place, one in self.norms.items()}
        for one in self.norms.values():
            one.reset()
        return means


def _measure(norms: Mean, read: list, mix: Any, given: tuple[Tensor, Tensor]) -> None:
    layers, mask = mix.normed(*given), given[1]
    read.append((norms, (layers.norm(dim=-1, dtype=torch.float32) * mask).sum((1, 2)), mask.sum()))


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
        if unknown := sorted(set(gold) - set(self.labels)):
            raise ValueError(f"gold label {unknown[0]!r}, but the labels are {self.labels}")
        numbers, size = {label: k for k, label in enumerate(self.labels)}, len(self.labels)
        sides = [[numbers.get(label, size) for label in side] for side in (predicted, gold)]
        guessed, true = one_hot(torch.tensor(sides, dtype=torch.long), size + 1)
        return torch.stack([guessed * true, guessed, true], -1)

    def tally(self, side: Sequence[str]) -> Counter[str]:
        """Return how often each label occurs."""
        return Counter(side)

    def by_example(self, predicted: Sequence[str], gold: Sequence[str]) -> ByExample:
        """Return whether each example is correct, for `accuracy`."""
        return {"accuracy": _ratios(self.count(predicted, gold).sum(1))["recall"]}

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `accuracy`, and that of each gold label as `LABEL/accuracy`; from 0 to 1, and 0
        without counts.
        """
        right, _, total = self.counts.double().unbind(1)
        shares = zip(self.labels, right / total.clamp(min=1), strict=False)
        figures = {"accuracy": right.sum() / total.sum().clamp(min=1)}
        return figures | {f"{label}/accuracy": share for label, share in shares}


class Classification(Accuracy):
    """Scores of a classification, also if some labels are rare.

    `positive` is the label whose F1 stands for the whole, as in tasks of two labels.
    """

    def __init__(self, labels: Iterable[str], *, positive: str | int | None = None) -> None:
        super().__init__(labels)
        self.positive = None if positive is None else str(positive)
        if self.positive not in (None, *self.labels):
            raise ValueError(
                f"task.metric.positive={positive}, but the labels are {', '.join(self.labels)}"
            )

    def by_example(self, predicted: Sequence[str], gold: Sequence[str]) -> ByExample:
        """Return the numbers of each example for all scores but the precision and recall of labels;
        only for `accuracy` if the examples times labels are more than CELLS.
        """
        counts = self.count(predicted, gold)
        few = counts[..., 0].numel() <= CELLS
        return self._rows(counts) if few else super().by_example(predicted, gold)

    def _rows(self, counts: Int[Tensor, "N K 3"]) -> ByExample:
        f1s = [_ratios(one)["f1"] for one in counts.unbind(1)]
        rows = {f"{label}/f1": f1 for label, f1 in zip(self.labels, f1s, strict=False)}
        rows["accuracy"] = _ratios(counts.sum(1))["recall"]
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
        scores = _scores(self._rows(self.counts[None]))
        scores["accuracy"] = super().compute()["accuracy"]
        for label, counts in zip(self.labels, self.counts, strict=False):
            scores |= _figures(f"{label}/", counts)
        return scores


class Correlations(Metric):
    """Pearson's and Spearman's correlation of predicted numbers with the right ones."""

    full_state_update = False

    def __init__(self, labels: Iterable[str] = ()) -> None:
        super().__init__()
        self.pairs: list[Tensor]
        self.add_state("pairs", [], dist_reduce_fx="cat")

    def update(self, predicted: Sequence[float], gold: Sequence[float]) -> None:
        """Add the pairs of a batch."""
        pairs = torch.tensor([[*predicted], [*gold]], dtype=torch.double)
        self.pairs.append(pairs.T.to(self.device))

    def tally(self, side: Sequence[float]) -> Counter[float]:
        """Return how often each number occurs."""
        return Counter(map(float, side))

    def by_example(self, predicted: Sequence[float], gold: Sequence[float]) -> ByExample:
        """Return the moments of each example for all scores."""
        y, x = (torch.tensor([*side], dtype=torch.double) for side in (predicted, gold))
        # Moments of numbers far from 0 lose digits; gold's first number is the same for all runs.
        of_x, of_y = torch.from_numpy(rankdata([x, y], axis=1))  # equal numbers have their mean
        sides = {"pearson": (x - x[:1], y - x[:1]), "spearman": (of_x, of_y)}
        rows = {
            name: torch.stack([x**0, x, y, x * x, y * y, x * y], -1)[:, None]
            for name, (x, y) in sides.items()
        }
        return rows | {"pearson_spearman": torch.cat([*rows.values()], 1)}

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `pearson`, `spearman` (equal numbers have their mean rank), and their mean as
        `pearson_spearman`, which is GLUE's score of similarity (Wang et al. 2018, section 3); from
        -1 to 1, and 0 where all numbers of a side are equal or there is none.
        """
        pairs = dim_zero_cat(self.pairs) if len(self.pairs) else torch.zeros(1, 2)
        return _scores(self.by_example(*pairs.T.tolist()))


def _scores(rows: ByExample) -> dict[str, Tensor]:
    """Return what rows of examples, or of their sum, add up to."""
    sums = {name: each.sum(0).cpu().numpy() for name, each in rows.items()}
    return {name: torch.as_tensor(figure(each)) for name, each in sums.items()}
