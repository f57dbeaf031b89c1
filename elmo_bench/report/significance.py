"""Significance test that generalises over examples and seeds, its power, and Holm's correction, for
corpus-level figures.

An example is M numbers for each of S scores, whose sums give the figure: F1, accuracy, or a
correlation (`elmo_bench/runs/counts.py`). The tested quantity is the reported one, the mean over
runs of each run's figure.

Axes: N examples, C clusters of examples, R and Q runs (seeds) of two systems, S scores, M numbers.
"""

import itertools
import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

from elmo_bench.runs import F1, figure

LEVEL = 0.05
POWER = 0.8
FEWEST = 5  # runs a side; with fewer there is no star and no verdict (docs/statistics.md)
PRELIMINARY = "preliminary"  # stands for the verdict of a comparison with fewer
ROUNDING = 1e-8  # a smaller standard error is that of equal predictions, and rounding


class Scale(NamedTuple):
    """The standard error of a difference, and the degrees of freedom of its t distribution."""

    error: float
    freedom: float


class Variances(NamedTuple):
    """What moves the figures of a system's runs.

    `between` is the variance between runs. It cannot be below the noise of their predictions on the
    examples, which the jackknife estimates more precisely: few runs are often closer together than
    they would be again. `shared`, the covariance of different runs due to the choice of examples,
    is not lowered by more runs.
    """

    between: float
    noise: float
    shared: float


class Test(NamedTuple):
    """The result of a test of the difference between two systems, on new examples and new seeds.

    A single run on a side does not show the variance over seeds, so `p` and all values derived from
    it are None, and the interval holds only for these trained models.
    """

    difference: float
    scales: tuple[Scale, ...]  # the first is of all variances; the one that says least decides
    p: float | None  # two-sided
    interval: tuple[float, float]  # 95 %; excludes 0 if p is below 0.05; clipped to ±`most`
    examples: int
    clusters: int
    runs: tuple[int, int]
    unit: str = "cluster"  # what a cluster is, such as "document"
    # Smallest true difference found with 80 % power, at most `most`; Bonferroni over all
    # comparisons. None with fewer than FEWEST runs a side: rough, and nothing is decided.
    detectable: float | None = None
    most: float = 1.0  # the largest difference there is; of correlations 2
    folds: int | None = None  # number of folds that were test (`report/folds.py`); None: one split

    @property
    def is_preliminary(self) -> bool:
        """Whether a side has fewer than FEWEST runs, or runs on fewer folds."""
        has_few_folds = self.folds is not None and self.folds < FEWEST
        return has_few_folds or min(self.runs) < FEWEST


def compare(
    ours: Float[np.ndarray, "R N S M"],
    theirs: Float[np.ndarray, "Q N S M"],
    clusters: Int[np.ndarray, " N"] | None = None,
) -> Test:
    """Test the difference between two systems' runs on the same examples, given by their counts.

    Runs and clusters of examples (by default each example) are both random samples. This is the
    analysis of readers and cases of Obuchowski and Rockette (1995) with the degrees of freedom of
    Hillis (2007), for runs nested in systems and unequal variances (Welch 1947). p is never below
    that of Welch's test over the runs' figures. Raises ValueError for fewer than two clusters.
    """
    num_examples = ours.shape[1]
    if clusters is not None:
        ours = by_cluster(ours, clusters)
        theirs = by_cluster(theirs, clusters)
    if ours.shape[1] < 2:
        raise ValueError(f"{ours.shape[1]} clusters of examples, but a test needs at least two")
    difference = float(figure(ours.sum(1)).mean() - figure(theirs.sum(1)).mean())
    runs = len(ours), len(theirs)
    scales: tuple[Scale, ...]
    if min(runs) > 1:
        scales = unpaired_scales(ours, theirs)
        p = largest_p(difference, scales)
    else:
        scales = (_of_models(ours, theirs),)
        p = None
    half = reach(scales, LEVEL)
    most = 1.0 if ours.shape[-1] == F1 else 2.0
    interval = max(difference - half, -most), min(difference + half, most)
    return Test(difference, scales, p, interval, num_examples, ours.shape[1], runs, most=most)


def reach(scales: Sequence[Scale], level: float) -> float:
    """Return half the width of the widest interval that these scales give at a level."""
    halves = [scale.error * scipy.stats.t.ppf(1 - level / 2, scale.freedom) for scale in scales]
    return float(max(halves))


def with_power(test: Test, comparisons: int) -> Test:
    """Return a test of FEWEST runs a side or more with its power among so many comparisons."""
    smallest = [scale.error * noncentrality(scale.freedom, comparisons) for scale in test.scales]
    return test._replace(detectable=min(max(smallest), test.most))


def by_cluster(
    counts: Float[np.ndarray, "R N S M"], clusters: Int[np.ndarray, " N"]
) -> Float[np.ndarray, "R C S M"]:
    """Sum the counts of each cluster, in the order of the clusters' numbers."""
    numbers, positions = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(counts), len(numbers), *counts.shape[2:]))
    for run, run_sums in zip(counts, sums, strict=True):
        np.add.at(run_sums, positions, run)
    return sums


def without_each(counts: Float[np.ndarray, "R C S M"]) -> Float[np.ndarray, "R C"]:
    """Return each run's figure with each cluster left out."""
    return figure(counts.sum(1, keepdims=True) - counts)


def covariance(without: Float[np.ndarray, "R C"]) -> Float[np.ndarray, "R R"]:
    """Return the jackknife covariance of runs' figures over clusters (Efron 1982)."""
    count = without.shape[1]
    change = without - without.mean(1, keepdims=True)
    return (count - 1) / count * change @ change.T


def covariance_between(ours: Float[np.ndarray, "R C"], theirs: Float[np.ndarray, "Q C"]) -> float:
    """Return the mean covariance of a run of one system with a run of another."""
    both = np.concatenate([ours, theirs])
    return float(covariance(both)[: len(ours), len(ours) :].mean())


def variances(figures: Float[np.ndarray, " R"], without: Float[np.ndarray, "R C"]) -> Variances:
    """Return what moves a system's figures, given them with each cluster left out, too."""
    covariances = covariance(without)
    count = len(figures)
    own = float(np.trace(covariances))
    shared = (float(covariances.sum()) - own) / (count * (count - 1))
    return Variances(float(figures.var(ddof=1)), own / count - shared, shared)


def unpaired_scales(
    ours: Float[np.ndarray, "R C S M"], theirs: Float[np.ndarray, "Q C S M"]
) -> tuple[Scale, Scale, Scale]:
    """Return `weighted_scales` of the difference of two systems, each with its own seeds."""
    return weighted_scales([ours, theirs], [1.0, -1.0])


def weighted_scales(
    systems: Sequence[np.ndarray], weights: Sequence[float]
) -> tuple[Scale, Scale, Scale]:
    """Return the scale of all variances of a weighted sum of systems' mean figures, that without
    the examples', and Welch's over the runs only.

    The counts of a system are "R C S M", over the same clusters; S and M may differ, of systems of
    different tasks. Satterthwaite adds the degrees of freedom of the examples, so that more noise
    could make p smaller; the two other scales prevent that.
    """
    without = [without_each(system) for system in systems]
    welch = []
    runs = []
    examples = 0.0
    for system, left_out, weight in zip(systems, without, weights, strict=True):
        count = len(system)
        between, noise, shared = variances(figure(system.sum(1)), left_out)
        square = weight * weight
        welch.append((square * between / count, count - 1))
        runs.append((square * max(between, noise) / count, count - 1))
        examples += square * shared
    for first, second in itertools.combinations(range(len(systems)), 2):
        product = weights[first] * weights[second]
        examples += 2 * product * covariance_between(without[first], without[second])
    of_examples = max(examples, 0.0), systems[0].shape[1] - 1
    return scale_of(*runs, of_examples), scale_of(*runs), scale_of(*welch)


def _of_models(ours: Float[np.ndarray, "R C S M"], theirs: Float[np.ndarray, "Q C S M"]) -> Scale:
    """Return the scale of the difference between these trained models on new examples."""
    change = without_each(ours).mean(0) - without_each(theirs).mean(0)
    return scale_of((float(covariance(change[None])[0, 0]), ours.shape[1] - 1))


def scale_of(*parts: tuple[float, float | int]) -> Scale:
    """Return the scale of a sum of variances, with Satterthwaite's (1946) degrees of freedom."""
    variances = [variance for variance, _ in parts]
    total = sum(variances)
    largest = max(variances)
    error = math.sqrt(total)
    if error < ROUNDING:
        return Scale(0.0, math.inf)
    # Divide by the largest part, because squares of small variances underflow to 0.
    squares = sum((variance / largest) ** 2 / degrees for variance, degrees in parts)
    return Scale(error, (total / largest) ** 2 / squares)


def largest_p(difference: float, scales: Sequence[Scale]) -> float:
    """Return the largest two-sided p-value that these scales give a difference."""
    ts = [(abs(difference) / error, freedom) for error, freedom in scales if error]
    if not ts:
        return float(difference == 0)
    return max(float(2 * scipy.stats.t.sf(t, freedom)) for t, freedom in ts)


@lru_cache(maxsize=10_000)
def noncentrality(freedom: float, comparisons: int) -> float:
    """Return the true difference, in standard errors, that a two-sided test at 5 %, divided by the
    number of comparisons, finds with 80 % power.

    >>> round(noncentrality(math.inf, 1), 3), round(noncentrality(4.0, 1), 2)
    (2.802, 3.76)
    """
    limit = float(scipy.stats.t.ppf(1 - LEVEL / comparisons / 2, freedom))
    if freedom > 10_000:  # here the noncentral t is practically normal
        return limit + float(scipy.stats.norm.ppf(POWER))

    def lacking(shift: float) -> float:
        return float(scipy.stats.nct.sf(limit, freedom, shift)) - POWER

    return float(scipy.optimize.brentq(lacking, 0, 10 * limit))


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's (1979) step-down correction for their number.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = highest
    return adjusted
