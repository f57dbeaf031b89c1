"""Against scipy where there is one source of noise, against a bootstrap where there are two, against
every exchange there is, and in simulations in which nothing differs.
"""

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.significance import Setting, pair, rejections, unpaired
from elmo_bench.report.significance import (
    Variance,
    by_cluster,
    compare,
    covariance,
    equal_within,
    fewest,
    figure,
    holm,
    noncentrality,
    same_examples,
    same_models,
    seeds_needed,
    without_each,
)


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


def test_examples_alone_is_the_paired_t_test():
    """Runs that are all equal leave the choice of examples, for which scipy has a test."""
    rng = np.random.default_rng(1)
    ours, theirs = (rng.random(300) < chance for chance in (0.75, 0.7))
    test = compare(accuracy([ours] * 3), accuracy([theirs] * 4), resamples=99)
    expected = stats.ttest_rel(ours.astype(float), theirs)
    assert test.p == pytest.approx(expected.pvalue, rel=1e-9)
    assert test.interval == pytest.approx(tuple(expected.confidence_interval()), rel=1e-9)
    assert test.shares.examples == pytest.approx(1)


@pytest.mark.parametrize("paired", [False, True])
def test_seeds_alone_is_a_t_test(paired):
    """Examples that are all alike leave the spread of the runs: Welch's test, or that of pairs."""
    left, right = np.array([0.5, 0.6, 0.8, 0.7, 0.6]), np.array([0.4, 0.45, 0.5, 0.42, 0.3])
    ours, theirs = (accuracy(np.repeat(runs[:, None], 50, 1)) for runs in (left, right))
    test = compare(ours, theirs, paired=paired, resamples=99)
    welch = stats.ttest_ind(left, right, equal_var=False)
    expected = stats.ttest_rel(left, right) if paired else welch
    assert test.p == pytest.approx(expected.pvalue, rel=1e-6)
    assert test.interval == pytest.approx(tuple(expected.confidence_interval()), rel=1e-6)
    assert test.p_same_examples == pytest.approx(welch.pvalue)
    assert test.correlation == (pytest.approx(np.corrcoef(left, right)[0, 1]) if paired else None)


def test_pairs_are_of_equal_number_and_not_too_few():
    ours, theirs = pair(Setting("accuracy", runs=5), seed=1)
    for left, right in ((ours, theirs[:4]), (ours[:4], theirs[:4])):
        with pytest.raises(ValueError, match="runs, but a paired test needs at least 5"):
            compare(left, right, paired=True)


def test_both_agrees_with_the_multi_bootstrap():
    """Sellam et al. (2022): examples drawn for both systems together, runs for each by itself."""
    ours, theirs = pair(Setting("f1", runs=12, skill=0.3, taste=1.0), seed=7)
    test, rng = compare(ours, theirs, resamples=99), np.random.default_rng(1)
    differences = []
    for _ in range(2000):
        examples = rng.integers(ours.shape[1], size=ours.shape[1])
        means = (
            figure(system[rng.integers(12, size=12)][:, examples].sum(1)).mean()
            for system in (ours, theirs)
        )
        differences.append(next(means) - next(means))
    # The bootstrap's variance between runs is 11 / 12 of the unbiased one.
    assert np.std(differences) == pytest.approx(test.error, rel=0.1)
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
    test = compare(ours, theirs, resamples=999)
    assert shown < -0.03 < 0.01 < averaged
    assert test.difference == pytest.approx(shown)
    assert test.interval[0] < shown < test.interval[1]
    assert test.p > 0.5  # four runs say better, one much worse
    assert test.shares.seeds > 0.9


def test_the_error_is_never_below_that_of_the_examples():
    """Runs that happen to differ by less than chance on the examples are no proof of small noise."""
    setting = Setting("accuracy", runs=2, taste=1.0)
    for seed in range(40):
        ours, theirs = pair(setting, seed)
        change = without_each(ours).mean(0) - without_each(theirs).mean(0)
        of_examples = math.sqrt(covariance(change[None])[0, 0])
        assert compare(ours, theirs, resamples=0).error > of_examples - 1e-12


def test_clusters():
    """Examples that come five times each, in clusters, say no more than once each."""
    ours, theirs = pair(Setting("accuracy", examples=80, runs=3, taste=1.0), seed=2)
    once = compare(ours, theirs, resamples=999)
    often = [system.repeat(5, axis=1) for system in (ours, theirs)]
    clustered = compare(*often, np.arange(80).repeat(5), resamples=999)
    assert clustered.p == pytest.approx(once.p)
    assert (clustered.examples, clustered.clusters) == (400, 80)
    assert compare(*often, resamples=99).p < once.p
    with pytest.raises(ValueError, match="1 clusters of examples"):
        compare(ours, theirs, np.zeros(80, dtype=int))


def test_by_cluster():
    counts = np.arange(24.0).reshape(2, 3, 1, 4)
    sums = by_cluster(counts, np.array([7, 2, 7]))
    assert sums[:, 0] == pytest.approx(counts[:, 1])
    assert sums[:, 1] == pytest.approx(counts[:, 0] + counts[:, 2])


def test_a_single_run():
    """Nothing is said of other seeds; the interval is of these models."""
    ours, theirs = pair(Setting("accuracy", runs=1, taste=1.0), seed=3)
    test = compare(ours, theirs, resamples=999)
    expected = stats.ttest_rel(ours[0, :, 0, 0], theirs[0, :, 0, 0]).confidence_interval()
    assert test.interval == pytest.approx(tuple(expected))
    assert test.p is test.detectable is test.seeds_needed is test.shares is None
    assert test.p_same_examples is None
    assert equal_within(test, 1.0) is None


def test_two_that_are_the_same():
    ours, _ = pair(Setting("mean of 3"), seed=1)
    test = compare(ours, ours, resamples=99)
    assert (test.difference, test.p, test.p_same_models) == (0, 1, 1)
    flat = accuracy(np.ones((2, 9)))
    assert compare(flat, flat, resamples=99)[:5] == (0, 0, math.inf, 1, (0, 0))
    assert compare(flat, 0.5 * flat + 0.5 * accuracy(np.zeros((2, 9))), resamples=99).p == 0


def test_no_difference_is_larger_than_all():
    """Two runs that are far apart say little, but not that figures may differ by 150 points."""
    left, right = np.array([0.1, 0.9]), np.array([0.4, 0.5])
    ours, theirs = (accuracy(np.repeat(runs[:, None], 50, 1)) for runs in (left, right))
    test = compare(ours, theirs, resamples=9)
    assert (test.interval, test.detectable) == ((-1, 1), 1)


def test_equal_within():
    """Two one-sided tests at 5 %: the 90 % interval lies within the region."""
    ours, theirs = pair(Setting("accuracy", runs=5, skill=0.1), seed=4)
    test = compare(ours, theirs, resamples=99)
    reach = abs(test.difference) + test.error * stats.t.ppf(0.95, test.freedom)
    assert equal_within(test, 1.001 * reach) is True
    assert equal_within(test, 0.999 * reach) is False


def test_power():
    """Of a normal, 1.96 + 0.84 standard errors; of few degrees of freedom by simulation."""
    assert noncentrality(math.inf) == pytest.approx(stats.norm.ppf([0.975, 0.8]).sum())
    bonferroni = stats.norm.ppf([1 - 0.025 / 12, 0.8]).sum()
    assert noncentrality(math.inf, 12) == pytest.approx(bonferroni)
    rng = np.random.default_rng(2)
    t = (noncentrality(3.0) + rng.normal(size=40_000)) / np.sqrt(rng.chisquare(3, 40_000) / 3)
    assert np.mean(abs(t) > stats.t.ppf(0.975, 3)) == pytest.approx(0.8, abs=0.01)


def test_seeds_needed():
    """The first number that is enough, by trying each; none where the examples are too few."""
    variance = Variance((0.0009, 0.0004), (3, 3), (0.0, 0.0), 0.00001, 500)
    for difference in (0.1, 0.03, 0.02):
        enough = (
            count
            for count in range(3, 1000)
            if abs(difference)
            >= noncentrality((other := variance.with_runs((count, count))).freedom)
            * math.sqrt(other.total)
        )
        assert seeds_needed(difference, variance) == next(enough)
    assert seeds_needed(0.008, variance) is None
    assert seeds_needed(0.0, variance) is None
    assert seeds_needed(0.5, variance) == 3  # two are too few for the level
    assert seeds_needed(0.03, variance, 12) > seeds_needed(0.03, variance)


def test_fewest_against_every_exchange():
    """Of 3 + 3, 2 + 4 and 2 + 5 runs that are all apart; of five pairs."""
    for ours, theirs in ((3, 3), (2, 4), (2, 5)):
        pooled = np.arange(ours + theirs) ** 2.0
        differences = [
            pooled[[*chosen]].mean() - np.delete(pooled, [*chosen]).mean()
            for chosen in itertools.combinations(range(ours + theirs), ours)
        ]
        extreme = max(map(abs, differences))
        share = sum(abs(one) >= extreme - 1e-9 for one in differences) / len(differences)
        assert fewest(ours, theirs) == pytest.approx(share)
    signs = np.array([*itertools.product((-1, 1), repeat=5)])
    sums = abs(signs @ np.array([1.0, 2, 4, 8, 16]))
    assert fewest(5, 5, paired=True) == (sums == sums.max()).mean()


def test_same_models_agrees_with_scipy():
    ours, theirs = pair(Setting("f1", examples=60, runs=1, taste=1.0), seed=4)
    both = np.concatenate([ours[0], theirs[0]])

    def difference(left, right, axis):
        return figure(both[left].sum(left.ndim - 1)) - figure(both[right].sum(right.ndim - 1))

    places = np.arange(60)
    expected = stats.permutation_test(
        *((places, places + 60), difference),
        permutation_type="samples",
        n_resamples=4999,
        vectorized=True,
        rng=1,
    )
    assert 0.02 < expected.pvalue < 0.98
    assert same_models(ours, theirs) == pytest.approx(expected.pvalue, abs=0.025)


@pytest.mark.parametrize(("ours_runs", "theirs_runs"), [(2, 2), (1, 2)])
def test_same_models_against_every_exchange(ours_runs, theirs_runs):
    """Eight examples, two scores: 256 exchanges, each run's figure before the mean."""
    rng = np.random.default_rng(5)
    ours, theirs = rng.integers(0, 5, (2, 2, 8, 2, 4)).astype(float)
    ours, theirs = ours[:ours_runs], theirs[:theirs_runs]
    pairs = [(ours[k % ours_runs], theirs[k]) for k in range(2)]

    def shown(swapped):
        chosen = np.array(swapped, dtype=bool)[:, None, None]
        return abs(
            np.mean(
                [
                    figure(np.where(chosen, right, left).sum(0))
                    - figure(np.where(chosen, left, right).sum(0))
                    for left, right in pairs
                ]
            )
        )

    observed = shown([0] * 8)
    assert observed == pytest.approx(abs(figure(ours.sum(1)).mean() - figure(theirs.sum(1)).mean()))
    extreme = sum(shown(swap) >= observed - 1e-12 for swap in itertools.product([0, 1], repeat=8))
    assert same_models(ours, theirs, resamples=20_000) == pytest.approx(extreme / 256, abs=0.015)


def test_same_examples_is_welchs_t():
    left, right = np.array([0.5, 0.6, 0.8]), np.array([0.4, 0.45, 0.5, 0.42])
    expected = stats.ttest_ind(left, right, equal_var=False).pvalue
    assert same_examples(left, right) == pytest.approx(expected)
    assert same_examples(left, right[:1]) is None
    assert same_examples(left[[0, 0]], left[[0, 0]]) == 1
    assert same_examples(left[[0, 0]], right[[0, 0]]) == 0


@pytest.mark.parametrize(
    "setting",
    [
        Setting("accuracy", runs=10, taste=1.0),
        Setting("f1", runs=5, skill=0.3),
        Setting("f1", runs=3, skill=0.3, taste=1.0),
    ],
)
def test_level(setting):
    """Nothing is taken for something in 5 % of cases (`python -m benchmarks.significance`: all)."""
    assert 0.025 <= rejections(unpaired, setting, 800) <= 0.075


def test_three_runs_are_conservative_where_seeds_do_not_matter():
    assert rejections(unpaired, Setting("accuracy", runs=3, taste=1.0), 800) <= 0.05


def test_two_runs_close_together_are_no_proof():
    """At the level of a corrected p; p was below 0.0025 in 2 % of these cases."""
    setting = Setting("accuracy", runs=2, skill=0.3)
    assert rejections(unpaired, setting, 800, level=0.0025) <= 0.0025


def test_holm():
    assert holm([]) == []
    assert holm([0.5]) == [0.5]
    assert holm([0.9, 0.02, 0.8]) == [1.0, 0.06, 1.0]
