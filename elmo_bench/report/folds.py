"""The test of runs on several splits: a fold of the corpus is test in some runs, another in others.

Folds are tested on different examples, and trained on examples that overlap. So the differences of
two sides, one for each fold, are not independent, and a paired t-test is wrong too often. Nadeau
and Bengio (2003, equation 9) add the share n_test / n_train to the variance of their mean.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from elmo_bench.runs import F1, Counts, Run

from .significance import LEVEL, ROUNDING, Scale, Test, largest_p, reach

NO_FOLD = (0, 0)


class Fold(NamedTuple):
    """Which fold of how many a run is tested on; `NO_FOLD` if its corpus has a fixed split."""

    number: int
    folds: int


class Measured(NamedTuple):
    """A run's fold, its score, and the counts of its examples."""

    fold: Fold
    figure: float
    counts: Counts


def fold_of_run(run: Run) -> Fold:
    """Return the fold that a run is tested on."""
    folds = run.settings.get("data.folds")
    number = run.settings.get("data.fold")
    if isinstance(folds, int) and isinstance(number, int):
        return Fold(number, folds)
    return Fold(*NO_FOLD)


def by_fold(runs: Sequence[Run]) -> dict[Fold, list[int]]:
    """Return the positions of the runs of each fold."""
    positions: dict[Fold, list[int]] = defaultdict(list)
    for position, run in enumerate(runs):
        positions[fold_of_run(run)].append(position)
    return dict(positions)


def unlike(runs: Sequence[Run], base: Sequence[Run]) -> str:
    """Return why the folds of two sides cannot be compared; "" if they can."""
    ours = by_fold(runs)
    theirs = by_fold(base)
    if ours.keys() != theirs.keys():
        return "the sides have different folds"
    for side in (ours, theirs):
        if len({len(positions) for positions in side.values()}) > 1:
            return "a side has more runs of one fold than of another"
    return ""


def compare_folds(ours: Sequence[Measured], theirs: Sequence[Measured]) -> Test:
    """Test the difference between two systems that were run on the same folds, at least two of
    them, each fold equally often on a side.

    A fold's difference is that of the sides' mean scores. With J folds of F, the variance of the
    mean over folds is (1/J + 1/(F - 2)) S^2: S^2 is the variance between the folds' differences,
    with J - 1 degrees of freedom, and n_test / n_train is 1 to F - 2, since the folds are of nearly
    equal size, one of them is test and one dev.
    """
    our_means = _means(ours)
    their_means = _means(theirs)
    differences = [our_means[fold] - their_means[fold] for fold in our_means]
    difference = statistics.fmean(differences)
    count = len(differences)
    folds = ours[0].fold.folds
    error = corrected_error(differences, folds)
    scales = (Scale(0.0, math.inf) if error < ROUNDING else Scale(error, float(count - 1)),)
    half = reach(scales, LEVEL)
    counts = {one.fold: one.counts for one in ours}
    num_examples = 0
    num_clusters = 0
    for of_fold in counts.values():
        num_examples += len(of_fold.rows)
        num_clusters += len(np.unique(of_fold.groups))
    most = 1.0 if ours[0].counts.rows.shape[-1] == F1 else 2.0
    return Test(
        difference,
        scales,
        largest_p(difference, scales),
        (max(difference - half, -most), min(difference + half, most)),
        num_examples,
        num_clusters,
        (len(ours), len(theirs)),
        unit=ours[0].counts.unit,
        most=most,
        folds=count,
    )


def corrected_error(differences: Sequence[float], folds: int) -> float:
    """Return the standard error of the mean of the differences on some of so many folds.

    >>> round(corrected_error([0.01, 0.03, 0.02, 0.04, 0.0], 5), 5)  # 0.0158 * sqrt(1/5 + 1/3)
    0.01155
    """
    share = 1 / len(differences) + 1 / (folds - 2)
    return math.sqrt(share * statistics.variance(differences))


def _means(runs: Sequence[Measured]) -> Mapping[Fold, float]:
    """Return the mean score on each fold, the folds in order."""
    figures: dict[Fold, list[float]] = defaultdict(list)
    for run in runs:
        figures[run.fold].append(run.figure)
    return {fold: statistics.fmean(figures[fold]) for fold in sorted(figures)}
