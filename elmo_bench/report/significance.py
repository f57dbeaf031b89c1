"""Significance test that generalises over examples and seeds, its power, and Holm's correction, for
corpus-level figures.

A figure is the mean over S scores of the harmonic mean of two ratios of sums over examples: F1 has
one score, the CoNLL coreference figure three, and accuracy uses the same ratio twice. An example is
therefore four counts for each score: numerator and denominator of recall, then of precision. The
tested quantity is the reported one, the mean over runs of each run's figure.

Axes: N examples, C clusters of examples, R and Q runs (seeds) of two systems, S scores, P
resamples.
"""

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float, Int

LEVEL, POWER = 0.05, 0.8
# With fewer pairs the paired test rejects too often: up to 12 % at 5 % with two, 8 % with three.
FEWEST_PAIRS = 5
FEWEST_SEEDS, MOST_SEEDS = 3, 1_000  # the range of `seeds_needed`
RESAMPLES = 9_999
ROUNDING = 1e-8  # a smaller standard error is that of equal predictions, and rounding
AT_ONCE = 4_000_000  # numbers in a block of resamples: 32 MB


class Shares(NamedTuple):
    """The sources of a difference's variance, as shares that sum to 1.

    `both` is the interaction of runs and examples; more seeds and more examples both lower it.
    """

    seeds: float
    examples: float
    both: float


class Test(NamedTuple):
    """The result of a test of the difference between two systems, on new examples and new seeds.

    Figures are fractions of 1. A single run on a side does not show the variance over seeds, so `p`
    and all values derived from it are None, and the interval holds only for these trained models.
    """

    difference: float
    error: float  # the difference's standard error
    freedom: float  # degrees of freedom of the t distribution
    p: float | None  # two-sided
    interval: tuple[float, float]  # 95 %, from the same error and t as p; clipped to [-1, 1]
    # Smallest true difference found with 80 % power, at most 1; Bonferroni over all comparisons.
    detectable: float | None
    # Runs a side for 80 % power at the observed difference; None: more seeds are not enough.
    seeds_needed: int | None
    shares: Shares | None
    # Diagnostic: the same trained models on new examples; None if not requested.
    p_same_models: float | None
    p_same_examples: float | None  # diagnostic: new seeds on the same examples
    correlation: float | None  # Pearson's, of the figures of paired runs
    examples: int
    clusters: int
    runs: tuple[int, int]
    paired: bool = False  # whether runs of the same seed were compared with each other
    unit: str = "cluster"  # what a cluster is, such as "document"
    variance: "Variance | None" = None  # of the difference


class Variance(NamedTuple):
    """The variances of a difference, and their degrees of freedom.

    The variance between a system's runs cannot be below the noise of their predictions on the
    examples, which the jackknife estimates more precisely. The larger of the two is used, with the
    degrees of freedom of the runs: few runs are often closer together than they would be again.
    """

    runs: tuple[float, ...]  # variance of a run, of each system (or of a difference of paired runs)
    counts: tuple[int, ...]  # the numbers of runs (or of pairs)
    noise: tuple[float, ...]  # the part of `runs` from the interaction of runs and examples
    examples: float  # variance from the choice of examples, which more runs do not lower
    clusters: int

    def with_runs(self, counts: tuple[int, ...]) -> "Variance":
        """Return the variances with other numbers of runs."""
        return self._replace(counts=counts)

    @property
    def total(self) -> float:
        return self.examples + sum(self._means())

    def _means(self) -> list[float]:
        """Return the variance of each system's mean over runs."""
        larger = map(max, self.runs, self.noise)
        return [variance / count for variance, count in zip(larger, self.counts, strict=True)]

    @property
    def freedom(self) -> float:
        """Satterthwaite's (1946) degrees of freedom of the total."""
        parts = [(self.examples, self.clusters - 1)] + [
            (mean, count - 1) for mean, count in zip(self._means(), self.counts, strict=True)
        ]
        largest = max(part for part, _ in parts)
        if not largest:
            return math.inf
        # Divide by the largest part, because squares of small variances underflow to 0.
        squared_sum = sum(part / largest for part, _ in parts) ** 2
        return squared_sum / sum((part / largest) ** 2 / degrees for part, degrees in parts if part)

    @property
    def shares(self) -> Shares | None:
        if not self.total:
            return None
        both = sum(noise / count for noise, count in zip(self.noise, self.counts, strict=True))
        seeds = max(self.total - self.examples - both, 0.0)
        return Shares(seeds / self.total, self.examples / self.total, both / self.total)


def figure(sums: Float[np.ndarray, "*P S 4"]) -> Float[np.ndarray, "*P"]:
    """Return the mean over scores of 2rp / (r + p), a fraction of 1; 0 without counts."""
    recall, precision = np.moveaxis(_ratio(sums[..., ::2], sums[..., 1::2]), -1, 0)
    return np.asarray(_ratio(2 * recall * precision, recall + precision).mean(-1))


def _ratio(
    part: Float[np.ndarray, "*P"], whole: Float[np.ndarray, "*P"]
) -> Float[np.ndarray, "*P"]:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def compare(
    ours: Float[np.ndarray, "R N S 4"],
    theirs: Float[np.ndarray, "Q N S 4"],
    clusters: Int[np.ndarray, " N"] | None = None,
    *,
    paired: bool = False,
    resamples: int = RESAMPLES,
) -> Test:
    """Test the difference between two systems' runs on the same examples.

    Runs and clusters of examples are both random samples. The variance of the difference is the
    variance between each system's runs, divided by their number, plus the covariance of different
    runs due to the choice of examples, from the jackknife over clusters. The difference divided by
    the root of this variance has a t distribution with Satterthwaite's degrees of freedom. This is
    the analysis of readers and cases of Obuchowski and Rockette (1995) with the degrees of freedom
    of Hillis (2007), for runs nested in systems and unequal variances (Welch 1947).

    Args:
        ours: counts of each run and example.
        theirs: the same of the baseline.
        clusters: the cluster of each example; by default each example is a cluster.
        paired: run k of both systems has the same seed; the test uses the differences of pairs.
        resamples: resamples for `p_same_models`; 0 skips it.

    Raises:
        ValueError: fewer than two clusters, fewer than five pairs, or unpaired runs with `paired`.

    """
    num_examples = ours.shape[1]
    if clusters is not None:
        ours, theirs = by_cluster(ours, clusters), by_cluster(theirs, clusters)
    count = ours.shape[1]
    if count < 2:
        raise ValueError(f"{count} clusters of examples, but a test needs at least two")
    left, right = figure(ours.sum(1)), figure(theirs.sum(1))
    if paired and not FEWEST_PAIRS <= len(left) == len(right):
        raise ValueError(
            f"{len(left)} and {len(right)} runs, but a paired test needs at least "
            f"{FEWEST_PAIRS} pairs"
        )
    difference = float(left.mean() - right.mean())
    single = min(len(left), len(right)) < 2
    if single:
        change = without_each(ours).mean(0) - without_each(theirs).mean(0)
        variance = Variance((), (), (), float(covariance(change[None])[0, 0]), count)
    else:
        variance = (paired_variance if paired else unpaired_variance)(ours, theirs)
    error, freedom = math.sqrt(variance.total), variance.freedom
    if error < ROUNDING:
        error = 0.0
    p = None if single else two_sided(difference, error, freedom)
    reach = error * float(scipy.stats.t.ppf(1 - LEVEL / 2, freedom))
    test = Test(
        difference=difference,
        error=error,
        freedom=freedom,
        p=p,
        interval=(max(difference - reach, -1.0), min(difference + reach, 1.0)),
        detectable=None,
        seeds_needed=None,
        shares=None if single else variance.shares,
        p_same_models=same_models(ours, theirs, resamples=resamples) if resamples else None,
        p_same_examples=same_examples(left, right),
        correlation=correlation(left, right) if paired else None,
        examples=num_examples,
        clusters=count,
        runs=(len(left), len(right)),
        paired=paired,
        variance=variance,
    )
    return with_power(test)


def with_power(test: Test, comparisons: int = 1) -> Test:
    """Return a test with its power, corrected for this number of comparisons; none without p."""
    if test.p is None or test.variance is None:
        return test
    return test._replace(
        detectable=min(test.error * noncentrality(test.freedom, comparisons), 1.0),
        seeds_needed=seeds_needed(test.difference, test.variance, comparisons),
    )


def by_cluster(
    counts: Float[np.ndarray, "R N S 4"], clusters: Int[np.ndarray, " N"]
) -> Float[np.ndarray, "R C S 4"]:
    """Sum the counts of each cluster, in the order of the clusters' numbers."""
    numbers, positions = np.unique(clusters, return_inverse=True)
    sums = np.zeros((len(counts), len(numbers), *counts.shape[2:]))
    for run, run_sums in zip(counts, sums, strict=True):
        np.add.at(run_sums, positions, run)
    return sums


def without_each(counts: Float[np.ndarray, "R C S 4"]) -> Float[np.ndarray, "R C"]:
    """Return each run's figure with each cluster left out."""
    return figure(counts.sum(1, keepdims=True) - counts)


def covariance(without: Float[np.ndarray, "R C"]) -> Float[np.ndarray, "R R"]:
    """Return the jackknife covariance of runs' figures over clusters (Efron 1982)."""
    count = without.shape[1]
    change = without - without.mean(1, keepdims=True)
    return (count - 1) / count * change @ change.T


def unpaired_variance(
    ours: Float[np.ndarray, "R C S 4"], theirs: Float[np.ndarray, "Q C S 4"]
) -> Variance:
    """Return the variance of the difference if each system has its own seeds."""
    runs, noise, examples, without = [], [], 0.0, [without_each(ours), without_each(theirs)]
    for system, left_out in zip((ours, theirs), without, strict=True):
        own, shared = _own_and_shared(covariance(left_out))
        runs.append(float(figure(system.sum(1)).var(ddof=1)))
        noise.append(max(own - shared, 0.0))
        examples += shared
    across = covariance(np.concatenate(without))[: len(ours), len(ours) :].mean()
    return Variance(
        tuple(runs),
        (len(ours), len(theirs)),
        tuple(noise),
        max(examples - 2 * float(across), 0.0),
        ours.shape[1],
    )


def paired_variance(
    ours: Float[np.ndarray, "R C S 4"], theirs: Float[np.ndarray, "R C S 4"]
) -> Variance:
    """Return the variance of the difference if run k of both systems has the same seed."""
    own, shared = _own_and_shared(covariance(without_each(ours) - without_each(theirs)))
    between = float((figure(ours.sum(1)) - figure(theirs.sum(1))).var(ddof=1))
    return Variance(
        (between,), (len(ours),), (max(own - shared, 0.0),), max(shared, 0.0), ours.shape[1]
    )


def _own_and_shared(covariances: Float[np.ndarray, "R R"]) -> tuple[float, float]:
    """Return the mean of the variances and the mean of the covariances of different runs."""
    count, own = len(covariances), float(np.trace(covariances))
    return own / count, (float(covariances.sum()) - own) / (count * (count - 1))


def two_sided(difference: float, error: float, freedom: float) -> float:
    """Return the two-sided p-value of a difference with this standard error."""
    if not error:
        return float(difference == 0)
    return float(2 * scipy.stats.t.sf(abs(difference) / error, freedom))


def equal_within(test: Test, region: float) -> bool | None:
    """Whether two one-sided tests at 5 % show that the true difference is smaller than the region.

    Schuirmann (1987). Returns None if the test has no p value.
    """
    if test.p is None:
        return None
    reach = test.error * float(scipy.stats.t.ppf(1 - LEVEL, test.freedom)) if test.error else 0.0
    return bool(abs(test.difference) + reach < region)


@lru_cache(maxsize=10_000)
def noncentrality(freedom: float, comparisons: int = 1) -> float:
    """Return the true difference, in standard errors, that has 80 % power.

    The test is two-sided at 5 %, divided by the number of comparisons.

    >>> round(noncentrality(math.inf), 3), round(noncentrality(4.0), 2)
    (2.802, 3.76)
    """
    level = LEVEL / comparisons
    limit = float(scipy.stats.t.ppf(1 - level / 2, freedom))
    if freedom > 10_000:  # here the noncentral t is practically normal
        return limit + float(scipy.stats.norm.ppf(POWER))

    def lacking(shift: float) -> float:
        return float(scipy.stats.nct.sf(limit, freedom, shift)) - POWER

    return float(scipy.optimize.brentq(lacking, 0, 10 * limit))


def seeds_needed(difference: float, variance: Variance, comparisons: int = 1) -> int | None:
    """Return the runs of each system (or pairs) for 80 % power at a true difference of this size.

    The number is at least 3. Returns None if more than 1,000 are needed, or too few examples allow
    none.
    """

    def finds(count: int) -> bool:
        other = variance.with_runs((count,) * len(variance.counts))
        return abs(difference) >= noncentrality(other.freedom, comparisons) * math.sqrt(other.total)

    if not finds(MOST_SEEDS):
        return None
    low, high = FEWEST_SEEDS - 1, MOST_SEEDS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high


def fewest(ours: int, theirs: int, *, paired: bool = False) -> float:
    """Return the smallest two-sided p-value of a permutation test with these numbers of runs.

    The statistic is the absolute difference of the means. With equal numbers of runs, exchanging
    all of them leaves it the same.

    >>> fewest(3, 3), round(fewest(5, 5), 3), round(fewest(2, 5), 3), fewest(5, 5, paired=True)
    (0.1, 0.008, 0.048, 0.0625)
    """
    if paired:
        return 2 / 2**ours
    return (2 if ours == theirs else 1) / math.comb(ours + theirs, ours)


def correlation(left: Float[np.ndarray, " R"], right: Float[np.ndarray, " R"]) -> float | None:
    """Return Pearson's correlation of paired runs; None if all runs of a system are equal."""
    if not np.ptp(left) or not np.ptp(right):
        return None
    return float(np.corrcoef(left, right)[0, 1])


def same_examples(left: Float[np.ndarray, " R"], right: Float[np.ndarray, " Q"]) -> float | None:
    """Return the two-sided p-value of Welch's t-test on the runs' figures.

    The test generalises over seeds, on the same examples (Reimers and Gurevych 2018). Returns None
    if a system has a single run.
    """
    if min(len(left), len(right)) < 2:
        return None
    if np.ptp(left) == np.ptp(right) == 0:  # the t statistic is undefined without variance
        return float(left[0] == right[0])
    spread = [(runs.mean(), runs.std(ddof=1), len(runs)) for runs in (left, right)]
    return float(scipy.stats.ttest_ind_from_stats(*spread[0], *spread[1], equal_var=False).pvalue)


def same_models(
    ours: Float[np.ndarray, "R C S 4"],
    theirs: Float[np.ndarray, "Q C S 4"],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """Return the two-sided p-value of paired approximate randomisation (Noreen 1989; Yeh 2000).

    The test generalises over examples, for the same trained models, and not over seeds. Runs of the
    two systems are paired so that each run is in equally many pairs. A pair's counts are exchanged
    at random, cluster by cluster; the statistic is the mean difference of the runs' figures.
    """
    rng = np.random.default_rng(seed)
    pairs = math.lcm(len(ours), len(theirs))
    left, right = (np.resize(np.arange(len(runs)), pairs) for runs in (ours, theirs))
    differ = (ours[left] != theirs[right]).any((0, 2, 3))
    change = (theirs[right] - ours[left])[:, differ]  # pairs, clusters, S, 4
    sums = ours.sum(1)[left], theirs.sum(1)[right]
    observed = abs(float((figure(sums[0]) - figure(sums[1])).mean()))
    extreme = 0
    for size in _blocks(resamples, change.shape[1] + sums[0].size):
        swapped = rng.integers(2, size=(size, change.shape[1]), dtype=np.int8).astype(float)
        moved = np.einsum("pc,kcsf->pksf", swapped, change, optimize=True)
        mean = (figure(sums[0] + moved) - figure(sums[1] - moved)).mean(1)
        extreme += int(np.count_nonzero(abs(mean) >= observed - 1e-12))
    return (extreme + 1) / (resamples + 1)


def _blocks(resamples: int, count: int) -> Iterator[int]:
    """Yield the sizes of blocks of resamples that need at most `AT_ONCE` numbers."""
    size = max(1, AT_ONCE // max(1, count))
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def holm(values: Sequence[float]) -> list[float]:
    """Return p-values with Holm's (1979) step-down correction for their number.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = highest
    return adjusted
