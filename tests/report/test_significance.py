"""Against scipy, against every exchange there is, and in simulations in which nothing differs."""

import itertools

import numpy as np
import pytest
from scipy import stats

from elmo_bench.report.significance import bootstrap, figure, holm, randomisation, seeds


def system(rng, examples, *, runs=1, spread=0.0, ease=None):
    """Right, gold, right and predicted chunks of some runs of one way to train; its runs differ in
    skill by `spread`.
    """
    gold = examples
    skill = rng.normal(0, spread, runs)[:, None]
    chance = 1 / (1 + np.exp(-(0.8 + skill + (0 if ease is None else ease))))
    right = rng.binomial(gold, np.broadcast_to(chance, (runs, len(gold))))
    wrong = rng.binomial(2, 0.3 * (1 - np.broadcast_to(chance, right.shape)))
    return np.stack([right, np.broadcast_to(gold, right.shape), right, right + wrong], -1)[
        :, :, None
    ].astype(float)


def pair(seed, count=60, **settings):
    rng = np.random.default_rng(seed)
    examples, ease = rng.poisson(1.5, count), rng.normal(0, 1, count)
    return [system(rng, examples, ease=ease, **settings) for _ in range(2)]


def test_figure():
    """F1, accuracy, the mean of several scores, and nothing at all."""
    assert figure(np.array([[3.0, 4, 3, 6]])) == pytest.approx(2 * 3 / (4 + 6))
    assert figure(np.array([[3.0, 4, 3, 4]])) == 0.75
    assert figure(np.array([[3.0, 4, 3, 4], [0, 0, 0, 5]])) == 0.375
    assert figure(np.zeros((2, 1, 4))).tolist() == [0, 0]


def test_randomisation_agrees_with_scipy():
    ours, theirs = pair(3)
    both = np.concatenate([ours[0], theirs[0]])

    def difference(left, right, axis):
        return figure(both[left].sum(left.ndim - 1)) - figure(both[right].sum(right.ndim - 1))

    places = np.arange(60)
    expected = stats.permutation_test(
        *((places, places + 60), difference),
        permutation_type="samples",
        n_resamples=9999,
        vectorized=True,
        rng=1,
    )
    assert 0.05 < expected.pvalue < 0.95
    assert randomisation(ours, theirs) == pytest.approx(expected.pvalue, abs=0.02)


def test_randomisation_against_every_exchange():
    """Eight examples, two scores, two runs that are averaged: 256 exchanges."""
    rng = np.random.default_rng(5)
    ours, theirs = rng.integers(0, 5, (2, 2, 8, 2, 4)).astype(float)
    left, right = ours.mean(0), theirs.mean(0)
    observed, extreme = abs(figure(left.sum(0)) - figure(right.sum(0))), 0
    for swap in itertools.product([0, 1], repeat=8):
        chosen = np.array(swap, dtype=bool)[:, None, None]
        moved = figure(np.where(chosen, right, left).sum(0)) - figure(
            np.where(chosen, left, right).sum(0)
        )
        extreme += abs(moved) >= observed - 1e-12
    assert randomisation(ours, theirs, resamples=20_000) == pytest.approx(extreme / 256, abs=0.015)


def test_bootstrap_agrees_with_scipy():
    ours, theirs = pair(4, count=80)

    def difference(places, axis):
        return figure(ours[0][places].sum(places.ndim - 1)) - figure(
            theirs[0][places].sum(places.ndim - 1)
        )

    expected = stats.bootstrap(
        (np.arange(80),), difference, method="percentile", vectorized=True, rng=1
    ).confidence_interval
    assert bootstrap(ours, theirs) == pytest.approx((expected.low, expected.high), abs=0.006)


def test_bootstrap_over_seeds():
    """Examples that are all alike leave the runs' spread: of three runs, the mean of two draws."""
    right = np.array([0.2, 0.5, 0.8])[:, None, None]
    ours = np.stack([right, np.ones_like(right)] * 2, -1).repeat(50, 1)
    low, high = bootstrap(ours, ours[1:2], level=0.5, resamples=40_000)
    assert (low, high) == pytest.approx((-0.15, 0.15))
    rng = np.random.default_rng(1)
    draws = right.ravel()[rng.integers(3, size=(40_000, 2))].mean(1)
    assert np.var(draws) == pytest.approx(
        np.var(right, ddof=1) / 3, rel=0.05
    )  # the variance of a mean of three


def test_seeds_is_welchs_t():
    ours, theirs = pair(6, runs=4, spread=0.3)
    figures = [figure(runs.sum(1)) for runs in (ours, theirs)]
    assert seeds(ours, theirs) == pytest.approx(stats.ttest_ind(*figures, equal_var=False).pvalue)
    assert seeds(ours, theirs[:1]) is None
    assert seeds(ours[[0, 0]], ours[[0, 0]]) == 1
    assert seeds(ours[[0, 0]], theirs[[0, 0]]) == 0


def test_two_that_are_the_same():
    ours, _ = pair(1)
    assert randomisation(ours, ours) == 1
    assert bootstrap(ours, ours) == (0, 0)


def rate(test, times, **settings):
    """How often nothing is taken for something, at 5 %."""
    return np.mean([test(*pair(seed, **settings), seed) <= 0.05 for seed in range(times)])


def test_error_rate_over_examples():
    """Two models that are equally good."""
    assert (
        0.035
        <= rate(lambda a, b, seed: randomisation(a, b, resamples=999, seed=seed), 2000, count=100)
        <= 0.065
    )


def test_error_rate_over_seeds():
    """Two equal ways to train whose runs differ: alone, exchanging examples is wrong far too often."""

    def both(a, b, seed):
        return max(randomisation(a, b, resamples=999, seed=seed), seeds(a, b))

    settings = {"runs": 5, "spread": 0.5, "count": 100}
    assert 0.035 <= rate(both, 1500, **settings) <= 0.065
    assert (
        rate(lambda a, b, seed: randomisation(a, b, resamples=999, seed=seed), 200, **settings)
        > 0.3
    )


def test_the_interval_covers():
    """Between two runs, over examples: 95 % of the time the truth, which is no difference, lies in
    it.
    """
    found = (bootstrap(*pair(seed, count=200), resamples=999, seed=seed) for seed in range(1000))
    missed = [not low <= 0 <= high for low, high in found]
    assert 0.035 <= np.mean(missed) <= 0.065


def test_holm():
    """The worked example of Holm's procedure: 4 tests, each against what is left of the 5 %."""
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.8]) == [1, 1]
    assert holm([]) == []
