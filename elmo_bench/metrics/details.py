"""What a metric tells of examples besides its scores."""

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from torchmetrics import Metric

from .counts import ByExample


class Details(NamedTuple):
    """Optional parts of a task's metric, which may be any of torchmetrics."""

    tally: Callable[[Sequence[Any]], Counter[Any]] | None  # how often each label occurs on a side
    by_example: Callable[[Sequence[Any], Sequence[Any]], ByExample] | None  # for tests
    labels: Sequence[str]  # all that may occur, if scores are given by label
    sought: str  # what one of the things is called that a text may lack


def details(metric: Metric) -> Details:
    """Return what a metric has of these parts: methods and attributes of the same names."""
    return Details(
        tally=getattr(metric, "tally", None),
        by_example=getattr(metric, "by_example", None),
        labels=getattr(metric, "labels", ()),
        sought=getattr(metric, "sought", ""),
    )
