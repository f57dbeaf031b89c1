"""What metrics of several tasks are made of: sums over examples, and the scores that follow."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torchmetrics import Metric

from elmo_bench.runs import figure

ByExample = dict[str, Float[Tensor, "N S M"]]


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


def ratios(counts: Int[Tensor, "N 3"]) -> ByExample:
    """Return the rows of `precision`, `recall` and `f1`, given correct, predicted and gold counts:
    the numerator and denominator of recall, then of precision.
    """
    right, predicted, gold = counts.double().unbind(1)
    columns = {
        "precision": (right, predicted, right, predicted),
        "recall": (right, gold, right, gold),
        "f1": (right, gold, right, predicted),
    }
    return {name: torch.stack(column, 1)[:, None] for name, column in columns.items()}


def figures_of(prefix: str, counts: Int[Tensor, "3"]) -> dict[str, torch.Tensor]:
    """Return precision, recall and F1, given the counts of correct, predicted and gold; their names
    begin with `prefix`.
    """
    scores = scores_of(ratios(counts[None]))
    return {f"{prefix}{name}": value for name, value in scores.items()}


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


def scores_of(rows: ByExample) -> dict[str, Tensor]:
    """Return what rows of examples, or of their sum, add up to."""
    scores = {}
    for name, of_examples in rows.items():
        sums = of_examples.sum(0).cpu().numpy()
        scores[name] = torch.as_tensor(figure(sums))
    return scores
