"""Bands of tuning curves cover as often as they say, whatever the scores."""

import math

import numpy as np
import pytest

from elmo_bench.report.tuning import CONFIDENCE, curve, limits, probability

SIMULATIONS = 4000


def within(count, confidence):
    """Whether so many simulations of SIMULATIONS are what chance does (four standard errors)."""
    error = math.sqrt(confidence * (1 - confidence) / SIMULATIONS)
    return abs(count / SIMULATIONS - confidence) < 4 * error


@pytest.mark.parametrize("confidence", [0.5, CONFIDENCE])
@pytest.mark.parametrize("draws", [1, 5, 16, 48, 200])
def test_all_limits_hold_together_as_often_as_they_say(draws, confidence):
    least, most = limits(draws, confidence)
    numbers = np.sort(np.random.default_rng(draws).random((SIMULATIONS, draws)), axis=1)
    assert within(((least <= numbers) & (numbers <= most)).all(1).sum(), confidence)


@pytest.mark.parametrize("draws", [1, 2, 7, 12])
def test_the_probability_is_that_of_stecks_determinant(draws):
    """(1971): N! det[max(b_i - a_j, 0)^(j - i + 1) / (j - i + 1)!]; also for other limits."""
    sides = np.sort(np.random.default_rng(draws).random((2, draws)) ** 2 * 0.3, axis=1)
    for least, most in (limits(draws, 0.9), (sides[0], 1 - sides[1][::-1])):
        matrix = [
            [
                max(b - a, 0) ** power / math.factorial(power) if (power := j - i + 1) >= 0 else 0
                for j, a in enumerate(least)
            ]
            for i, b in enumerate(most)
        ]
        exact = math.factorial(draws) * np.linalg.det(matrix)
        assert probability(least, most) == pytest.approx(exact, abs=1e-9)
    assert probability(*limits(draws, 0.9)) == pytest.approx(0.9)


@pytest.mark.parametrize("draws", [5, 16, 48])
@pytest.mark.parametrize("steps", [None, 1, 3, 20])  # a continuous score, and few different ones
def test_the_band_covers_the_true_curve(draws, steps):
    """Everywhere at once; with equal scores at least as often."""
    rng, budgets = np.random.default_rng(draws), np.arange(1, draws + 1)
    shares = 0.5 ** (1 / budgets)
    # The score of a draw is that share of the draws which are worse, rounded up to a step.
    rounded = (lambda x: x) if steps is None else (lambda x: np.ceil(x * steps) / steps)
    covered = 0
    for _ in range(SIMULATIONS // 4):
        _, low, high = curve(rounded(rng.random(draws)), 0.0)
        covered += bool(((low <= rounded(shares)) & (rounded(shares) <= high)).all())
    assert covered / (SIMULATIONS // 4) > CONFIDENCE - 0.015


def test_a_curve():
    """It rises, begins at the median, and where the draws say nothing it has the bounds of the score;
    equal scores in any order are the same curve.
    """
    scores = np.array([0.5, 0.2, 0.9, 0.0, 0.5])
    found = curve(scores, -1.0)
    assert [*found.median] == [0.5, 0.5, 0.5, 0.9, 0.9]
    assert found.low[0] == -1.0
    assert found.high[-1] == 1.0
    for ends in found:
        assert (np.diff(ends) >= 0).all()
    assert (found.low <= found.median).all()
    assert (found.median <= found.high).all()
    assert all(map(np.array_equal, found, curve(np.sort(scores), -1.0)))
    many = curve(np.linspace(0, 1, 201)[:-1], 0.0)
    assert 0.3 < many.low[0] < many.median[0] == 0.495 < many.high[0] < 0.7
