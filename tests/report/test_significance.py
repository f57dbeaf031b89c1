"""Against scipy where there is one source of noise, against a bootstrap where there are two, and
in simulations in which nothing differs.
"""

import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.significance import Setting, pair, rejections
from benchmarks.significance import moments as matthews
from elmo_bench.report.significance import (
    by_cluster,
    compare,
    covariance,
    holm,
    noncentrality,
    with_power,
    without_each,
)
from elmo_bench.runs import figure


def accuracy(right):
    """Counts "R N 1 4" of runs that get examples right ("R N", 0 or 1)."""
    right = np.asarray(right, dtype=float)
    return np.stack([right, np.ones_like(right)] * 2, -1)[:, :, None]


def test_figure():
    """F1, accuracy, the mean of several scores, and nothing at all."""
    assert figure(np.array([[3.0, 4, 3, 6]])) == pytest.approx(2 * 3 / (4 + 6))
    assert figure(np.array([[3.0, 4, 3, 4]])) == 0.75
    assert figure(np.array([[3.0, 4, 3, 4], [0, 0, 0, 5]])) == 0.375
    assert figure(np.zeros((2, 1, 4))).tolist() == [0, 0]


@pytest.mark.parametrize("metric", ["pearson", "spearman", "matthews"])
def test_a_correlation_without_each_cluster(metric):
    """Against numpy on the examples that are left; ranks stay those of all examples."""
    ours, _ = pair(Setting(metric, examples=40, runs=(2, 2), skill=0.5), seed=3)
    clusters = np.arange(40) // 4
    without = without_each(by_cluster(ours, clusters))
    for run, found in zip(ours, without, strict=True):
        for cluster, each in enumerate(found):
            _, x, y, *_ = run[clusters != cluster, 0].T
            assert each == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)


def test_examples_alone_is_the_paired_t_test():
    """Runs that are all equal leave the choice of examples, for which scipy has a test."""
    rng = np.random.default_rng(1)
    ours, theirs = (rng.random(300) < chance for chance in (0.75, 0.7))
    test = compare(accuracy([ours] * 5), accuracy([theirs] * 6))
    expected = stats.ttest_rel(ours.astype(float), theirs)
    assert test.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert test.interval == pytest.approx(tuple(expected.confidence_interval()), rel=1e-9)


def test_seeds_alone_is_welchs_test():
    """Examples that are all alike leave the spread of the runs."""
    left, right = np.array([0.5, 0.6, 0.8, 0.7, 0.6]), np.array([0.4, 0.45, 0.5, 0.42, 0.3])
    test = compare(*(accuracy(np.repeat(runs[:, None], 50, 1)) for runs in (left, right)))
    expected = stats.ttest_ind(left, right, equal_var=False)
    assert test.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert test.interval == pytest.approx(tuple(expected.confidence_interval()), rel=1e-6)


def runs_of_clusters(figures, spread, rng):
    """Accuracies of runs on 48 clusters, which differ in how difficult they are for the system."""
    hard = rng.normal(0, spread, 48)
    return accuracy(np.clip(np.asarray(figures)[:, None] + (hard - hard.mean()), 0, 1))


@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_more_noise_never_makes_p_smaller(seeds):
    """It is Welch's where the examples are alike, and not below it where they differ; the degrees of
    freedom of the examples once made p fall from .009 to .003.
    """
    shift = np.array([-0.007, 0.007, 0.002, -0.002, 0.001])[:seeds]
    left, right = 0.66 + shift, 0.57 + shift
    welch, ps = stats.ttest_ind(left, right, equal_var=False), []
    for spread in (0.0, 0.01, 0.02, 0.04, 0.08, 0.12):
        rng = np.random.default_rng(3)
        test = compare(*(runs_of_clusters(side, spread, rng) for side in (left, right)))
        ps.append(test.p)
        assert test.difference == pytest.approx(0.09, abs=0.004)
        low, high = test.interval
        expected = welch.confidence_interval()
        assert high - low >= 0.999 * (expected.high - expected.low)
    assert ps[0] == pytest.approx(welch.pvalue, rel=1e-6)
    assert ps == pytest.approx(sorted(ps), rel=1e-9)
    assert ps[-1] > ps[0]


def test_the_interval_goes_with_p():
    """At 5 %, whichever of the scales decides."""
    for seed in range(60):
        ours, theirs = pair(Setting(runs=(2 + seed % 4, 5), skill=0.3, difference=0.5), seed)
        test = compare(ours, theirs)
        low, high = test.interval
        assert (low > 0 or high < 0) == (test.p < 0.05)


def test_both_agrees_with_the_multi_bootstrap():
    """Sellam et al. (2022): examples drawn for both systems together, runs for each by itself."""
    ours, theirs = pair(Setting("f1", runs=(12, 12), skill=0.3, taste=1.0), seed=7)
    test, rng = compare(ours, theirs), np.random.default_rng(1)
    differences = []
    for _ in range(2000):
        examples = rng.integers(ours.shape[1], size=ours.shape[1])
        means = (
            figure(system[rng.integers(12, size=12)][:, examples].sum(1)).mean()
            for system in (ours, theirs)
        )
        differences.append(next(means) - next(means))
    # The bootstrap's variance between runs is 11 / 12 of the unbiased one.
    assert np.std(differences) == pytest.approx(test.scales[0].error, rel=0.1)
    assert np.quantile(differences, [0.025, 0.975]) == pytest.approx(test.interval, abs=0.012)


def test_one_collapsed_seed():
    """What is shown is what is tested: counts that are averaged before F1 would say the opposite."""
    rng = np.random.default_rng(0)
    gold = np.ones((5, 400))

    def runs(chance):
        right = (rng.random((5, 400)) < chance).astype(float)
        return np.stack([right, gold, right, gold], -1)[:, :, None]

    ours, theirs = runs(0.7), runs(0.6)
    ours[0, :, :, 2:] = ours[0, :, :, 0] = 0  # a run that predicts nothing
    shown = figure(ours.sum(1)).mean() - figure(theirs.sum(1)).mean()
    averaged = figure(ours.mean(0).sum(0)) - figure(theirs.mean(0).sum(0))
    test = compare(ours, theirs)
    assert shown < -0.03 < 0.01 < averaged
    assert test.difference == pytest.approx(shown)
    assert test.interval[0] < shown < test.interval[1]
    assert test.p > 0.5  # four runs say better, one much worse


def test_the_error_is_never_below_that_of_the_examples():
    """Runs that happen to differ by less than chance on the examples are no proof of small noise."""
    setting = Setting("accuracy", runs=(2, 2), taste=1.0)
    for seed in range(40):
        ours, theirs = pair(setting, seed)
        change = without_each(ours).mean(0) - without_each(theirs).mean(0)
        of_examples = math.sqrt(covariance(change[None])[0, 0])
        assert compare(ours, theirs).scales[0].error > of_examples - 1e-12


def test_clusters():
    """Examples that come five times each, in clusters, say no more than once each."""
    ours, theirs = pair(Setting("accuracy", examples=80, runs=(3, 3), taste=1.0), seed=2)
    once = compare(ours, theirs)
    often = [system.repeat(5, axis=1) for system in (ours, theirs)]
    clustered = compare(*often, np.arange(80).repeat(5))
    assert clustered.p == pytest.approx(once.p)
    assert (clustered.examples, clustered.clusters) == (400, 80)
    assert compare(*often).p < once.p
    with pytest.raises(ValueError, match="1 clusters of examples"):
        compare(ours, theirs, np.zeros(80, dtype=int))


def test_a_single_run():
    """Nothing is said of other seeds; the interval is of these models."""
    ours, theirs = pair(Setting("accuracy", runs=(1, 1), taste=1.0), seed=3)
    test = compare(ours, theirs)
    expected = stats.ttest_rel(ours[0, :, 0, 0], theirs[0, :, 0, 0]).confidence_interval()
    assert test.interval == pytest.approx(tuple(expected))
    assert test.p is None


def test_two_that_are_the_same():
    ours, _ = pair(Setting("mean of 3"), seed=1)
    test = compare(ours, ours)
    assert (test.difference, test.p) == (0, 1)
    flat = accuracy(np.ones((2, 9)))
    assert (compare(flat, flat).p, compare(flat, flat).interval) == (1, (0, 0))
    assert compare(flat, 0.5 * flat + 0.5 * accuracy(np.zeros((2, 9)))).p == 0


def test_no_difference_is_larger_than_all():
    """Two runs that are far apart say little, but not that figures may differ by 150 points."""

    def test_of(left, right):
        return compare(*(accuracy(np.repeat(runs[:, None], 50, 1)) for runs in (left, right)))

    assert test_of(np.array([0.1, 0.9]), np.array([0.4, 0.5])).interval == (-1, 1)
    assert with_power(test_of(np.arange(5) % 2, np.arange(1, 6) % 2), 1).detectable == 1
    right = np.array([[0, 1] * 6] * 3)
    found = right.copy()
    found[0] = 1 - right[0]
    ours, theirs = (matthews(right, each) for each in (found, found[::-1]))
    assert compare(ours, theirs).interval == (-2, 2)


def test_few_runs_on_either_side_decide_nothing():
    for runs in ((4, 5), (10, 4)):
        test = compare(*pair(Setting(runs=runs), seed=4))
        assert (test.runs, test.is_preliminary) == (runs, True)


def test_power():
    """Of a normal, 1.96 + 0.84 standard errors; of few degrees of freedom by simulation."""
    assert noncentrality(math.inf, 1) == pytest.approx(stats.norm.ppf([0.975, 0.8]).sum())
    bonferroni = stats.norm.ppf([1 - 0.025 / 12, 0.8]).sum()
    assert noncentrality(math.inf, 12) == pytest.approx(bonferroni)
    rng = np.random.default_rng(2)
    t = (noncentrality(3.0, 1) + rng.normal(size=40_000)) / np.sqrt(rng.chisquare(3, 40_000) / 3)
    assert np.mean(abs(t) > stats.t.ppf(0.975, 3)) == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(
    "setting",
    [
        Setting("accuracy", runs=(10, 10), taste=1.0),
        Setting("f1", runs=(5, 5), skill=0.3),
        Setting("f1", runs=(10, 5), skill=0.3, taste=1.0),
        Setting("spearman", runs=(5, 5), skill=0.3, taste=1.0),
    ],
)
def test_level(setting):
    """Nothing is taken for something in 5 % of cases (`python -m benchmarks.significance`: all)."""
    usual, corrected = rejections(setting, 800)
    assert 0.025 <= usual <= 0.075
    assert corrected <= 0.00625


def test_holm():
    assert holm([]) == []
    assert holm([0.9, 0.02, 0.8]) == [1.0, 0.06, 1.0]
