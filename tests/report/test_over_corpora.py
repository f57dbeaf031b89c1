"""The mean over corpora, what to expect on a new one, and on how many a gain is sure."""

import numpy as np
import pytest
import scipy

from elmo_bench.report.comparison import Comparison
from elmo_bench.report.over_corpora import at_least, pooled
from elmo_bench.report.significance import Test as Outcome


def test_corpora_without_errors():
    """The mean is the simple one, and its interval that of a t distribution, nearly: a uniform
    prior has one degree of freedom less.
    """
    effects = [0.01, 0.03, 0.08, 0.02, 0.05, 0.04]
    found = pooled(effects, [1e-6] * 6)
    assert found.mean == pytest.approx(np.mean(effects), abs=1e-6)
    deviation = np.std(effects, ddof=1) * np.sqrt(5 / 4)
    for interval, factor in ((found.interval, 1 / 6), (found.prediction, 1 + 1 / 6)):
        half = scipy.stats.t.ppf(0.975, 4) * deviation * np.sqrt(factor)
        assert interval == pytest.approx((found.mean - half, found.mean + half), abs=1e-3)


def test_a_precise_corpus_counts_more():
    found = pooled([0.0, 0.0, 0.0, 0.0, 0.1], [0.001, 0.001, 0.001, 0.001, 0.1])
    assert found.mean == pytest.approx(0.0, abs=0.001)


def test_four_corpora_have_no_mean():
    assert pooled([0.1, 0.2, 0.1, 0.3], [0.01] * 4) is None


@pytest.mark.parametrize("between", [0.0, 0.5, 2.0])
def test_coverage(between):
    """About 95 % of the intervals have the mean, and of the predictions a new corpus."""
    rng = np.random.default_rng(1)
    errors = np.geomspace(0.3, 2, 9)
    in_interval = 0
    in_prediction = 0
    repeats = 200
    for _ in range(repeats):
        effects = rng.normal(1, np.hypot(errors, between))
        found = pooled(list(effects), list(errors))
        in_interval += found.interval[0] < 1 < found.interval[1]
        new = rng.normal(1, between)
        in_prediction += found.prediction[0] < new < found.prediction[1]
    assert in_interval / repeats > 0.92
    assert in_prediction / repeats > 0.92


def a_comparison(difference, p, runs=5):
    test = Outcome(difference, (), p, (-1.0, 1.0), 10, 10, (runs, runs))
    return Comparison(difference, None, test)


def test_on_how_many_corpora():
    """Those that Holm's method finds; one of few runs counts, but cannot be among them."""
    gains = [a_comparison(0.1, 0.001), a_comparison(0.1, 0.016), a_comparison(-0.1, 0.01)]
    assert at_least([*gains, a_comparison(0.1, 0.6)]) == (2, 1)
    assert at_least([*gains[:2], a_comparison(0.1, 0.06)]) == (2, 0)
    assert at_least([*gains, a_comparison(0.3, 1e-9, runs=4)]) == (2, 1)
    assert at_least([Comparison(0.1, None)]) == (0, 0)
