"""Is a difference real? Approximate randomisation, bootstrap intervals and Holm's correction, for
figures of a whole corpus.

Every figure here is the mean over some scores of the harmonic mean of two ratios of sums over
examples: F1 is that of one score, CoNLL's coreference figure that of three, and an accuracy has the
same ratio twice. So an example is, for each score, four counts (recall's numerator and denominator,
precision's numerator and denominator), and a resampled corpus is a matrix product.

Axes: N examples, R and Q runs (seeds) of two systems, S scores, P resamples.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from jaxtyping import Float
from scipy import stats

RESAMPLES = 9_999
AT_ONCE = 4_000_000  # numbers in a block of resamples: 32 MB


def figure(sums: Float[np.ndarray, "*P S 4"]) -> Float[np.ndarray, "*P"]:
    """The mean over scores of 2rp / (r + p); fractions of 1, 0 where nothing was counted."""
    recall, precision = np.moveaxis(_ratio(sums[..., ::2], sums[..., 1::2]), -1, 0)
    return np.asarray(_ratio(2 * recall * precision, recall + precision).mean(-1))


def _ratio(
    part: Float[np.ndarray, "*P"], whole: Float[np.ndarray, "*P"]
) -> Float[np.ndarray, "*P"]:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def randomisation(
    ours: Float[np.ndarray, "R N S 4"],
    theirs: Float[np.ndarray, "Q N S 4"],
    *,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> float:
    """The two-sided p-value of paired approximate randomisation (Noreen 1989; Yeh 2000).

    An example's counts are first averaged over the runs of each system, since runs read the same
    examples and are not independent; then the two systems' counts are exchanged or not, example by
    example. What is tested: are these trained models equal but for the choice of test examples? It
    says nothing of models trained with other seeds.
    """
    rng = np.random.default_rng(seed)
    left, right = ours.mean(0), theirs.mean(0)
    change = (right - left)[(left != right).any((1, 2))]
    left, right = left.sum(0), right.sum(0)
    observed = abs(figure(left) - figure(right))
    extreme = 0
    for size in _blocks(resamples, len(change)):
        swapped = rng.integers(2, size=(size, len(change)), dtype=np.int8).astype(float)
        moved = np.tensordot(swapped, change, 1)
        extreme += int(
            np.count_nonzero(abs(figure(left + moved) - figure(right - moved)) >= observed - 1e-12)
        )
    return (extreme + 1) / (resamples + 1)


def seeds(ours: Float[np.ndarray, "R N S 4"], theirs: Float[np.ndarray, "Q N S 4"]) -> float | None:
    """The two-sided p-value of Welch's t-test on the runs' figures (Reimers and Gurevych 2018): is
    it more than other seeds give?

    What is tested: do the two ways of training give equal figures on these examples, but for the
    choice of seeds? None where a system has a single run.
    """
    if min(len(ours), len(theirs)) < 2:
        return None
    left, right = figure(ours.sum(1)), figure(theirs.sum(1))
    if np.ptp(left) == np.ptp(right) == 0:  # no spread at all, for which a t-test has no answer
        return float(left[0] == right[0])
    spread = [(runs.mean(), runs.std(ddof=1), len(runs)) for runs in (left, right)]
    return float(stats.ttest_ind_from_stats(*spread[0], *spread[1], equal_var=False).pvalue)


def bootstrap(
    ours: Float[np.ndarray, "R N S 4"],
    theirs: Float[np.ndarray, "Q N S 4"],
    *,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> tuple[float, float]:
    """The percentile interval of the difference of the two systems' mean figures, over examples and
    seeds.

    Examples are drawn anew for both systems together, runs for each by itself (Sellam et al. 2022,
    Multi-Bootstrap, unpaired seeds). Of n runs n - 1 are drawn, so that the variance between seeds
    is not underrated when they are few (Rao and Wu 1988). With a single run of each, the interval
    is of these models and the choice of examples alone; with two to five it is somewhat narrow
    where seeds differ much more than examples do, and otherwise wide: the tests decide, the
    interval shows.
    """
    rng = np.random.default_rng(seed)
    count = ours.shape[1]
    differences = []
    for size in _blocks(resamples, count):
        drawn = rng.integers(count, size=(size, count)) + count * np.arange(size)[:, None]
        times = (
            np.bincount(drawn.ravel(), minlength=size * count).reshape(size, count).astype(float)
        )
        means = []
        for system in (ours, theirs):
            figures = figure(np.tensordot(times, system, (1, 1)))
            runs = rng.integers(len(system), size=(size, max(1, len(system) - 1)))
            means.append(np.take_along_axis(figures, runs, 1).mean(1))
        differences.append(means[0] - means[1])
    low, high = np.quantile(np.concatenate(differences), [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def _blocks(resamples: int, count: int) -> Iterator[int]:
    """How many resamples at a time."""
    size = max(1, AT_ONCE // max(1, count))
    for start in range(0, resamples, size):
        yield min(size, resamples - start)


def holm(values: Sequence[float]) -> list[float]:
    """p-values corrected for how many there are, step by step from the smallest (Holm 1979).

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted, highest = [0.0] * len(values), 0.0
    for rank, index in enumerate(sorted(range(len(values)), key=values.__getitem__)):
        highest = max(highest, min(1.0, (len(values) - rank) * values[index]))
        adjusted[index] = highest
    return adjusted
