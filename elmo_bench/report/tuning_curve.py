"""Tuning curves: how good the best of k random draws of settings is, with exact bands (Lourie, Cho
and He 2024, "Show Your Work with Confidence", arXiv 2311.09480).

Axes: N draws of a side, and the budgets of 1 to N draws.
"""

from functools import cache
from itertools import groupby
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from elmo_bench.terminal import listed

from .names import points

TOP = 1.0  # the highest score there is
CONFIDENCE = 0.975  # of a curve's band; those of two sides hold together with 95 %


class Curve(NamedTuple):
    """The median of the best score of k draws, k from 1, and a band that holds for all k at once.

    An end that is the lowest or the highest score there is says nothing.
    """

    median: Float[np.ndarray, " N"]
    low: Float[np.ndarray, " N"]
    high: Float[np.ndarray, " N"]


def curve(scores: Float[np.ndarray, " N"], lowest: float, confidence: float = CONFIDENCE) -> Curve:
    """Return the tuning curve of a side from the scores of its draws; `lowest` bounds all scores.

    If F is the distribution of a draw's score, F^k is that of the best of k, and its median is the
    quantile of F at 0.5^(1/k). So a band of F gives one of the curve.
    """
    ordered = np.sort(scores)
    ranks = np.arange(1, len(ordered) + 1)
    shares = 0.5 ** (1 / ranks)
    least, most = limits(len(ordered), confidence)
    ends = np.concatenate([[lowest], ordered, [TOP]])
    median = ordered[np.searchsorted(ranks / len(ordered), shares)]
    # Between two neighbouring scores F is at least the lower one's `least`, at most the higher
    # one's `most`.
    low = ends[np.searchsorted(most, shares)]
    high = ends[np.searchsorted(least, shares) + 1]
    return Curve(median, low, high)


@cache
def limits(num_draws: int, confidence: float) -> Float[np.ndarray, "2 N"]:
    """Return the limits of F at the lowest score of all draws, the second lowest and so on.

    F at the i-th of N is distributed as Beta(i, N + 1 - i). Of each distribution the same tails are
    cut off, so that all limits hold together with this probability if no two scores are equal, and
    else with a higher one (Learned-Miller and DeStefano 2008).
    """
    ranks = np.arange(1, num_draws + 1)

    def cut(tail: float) -> Float[np.ndarray, "2 N"]:
        return scipy.stats.beta.ppf([[tail], [1 - tail]], ranks, num_draws + 1 - ranks)

    def excess(tail: float) -> float:
        least, most = cut(tail)
        return probability(least, most) - confidence

    return cut(scipy.optimize.brentq(excess, 0, 0.5))


def probability(least: Float[np.ndarray, " N"], most: Float[np.ndarray, " N"]) -> float:
    """Return the probability that the i-th lowest of N uniform numbers lies in the i-th interval,
    for all i; both limits rise.

    The numbers are the events of a Poisson process that has N of them; between limits the
    distribution of their count is folded with that of new events (Moscovich and Nadler 2017).
    """
    size = len(least)
    numbers = np.arange(size + 1)
    counts = np.eye(1, size + 1)[0]
    before = 0.0
    for place in np.sort(np.concatenate([least, most, [1.0]])):
        new = scipy.stats.poisson.pmf(numbers, size * (place - before))
        counts = np.convolve(counts, new)[: size + 1]
        counts[: np.searchsorted(most, place, "right")] = 0  # so many must lie below
        counts[np.searchsorted(least, place) + 1 :] = 0  # and no more may
        before = place
    return float(counts[size] / scipy.stats.poisson.pmf(size, size))


def budgets(most: int) -> list[int]:
    """Return the budgets that are shown, up to so many draws.

    >>> budgets(16), budgets(20)
    ([1, 2, 4, 8, 16], [1, 2, 4, 8, 16, 20])
    """
    numbers = [2**power for power in range(most.bit_length())]
    if most not in numbers:
        numbers.append(most)
    return numbers


def verdict(ours: Curve, theirs: Curve) -> str:
    """Return with which numbers of draws, the same for both, ours is better or worse because the
    bands part, and the gain in the medians.
    """

    def outcome(k: int) -> str:
        if ours.low[k - 1] > theirs.high[k - 1]:
            return "better"
        if ours.high[k - 1] < theirs.low[k - 1]:
            return "worse"
        is_open = ours.high[k - 1] == theirs.high[k - 1] == TOP
        return "not to be decided" if is_open else "undecided"

    most = min(len(ours.median), len(theirs.median))
    outcomes = []
    for word, neighbours in groupby(range(1, most + 1), outcome):
        numbers = list(neighbours)
        if len(numbers) == 1:
            outcomes.append(f"{word} with {numbers[0]}")
        else:
            outcomes.append(f"{word} with {numbers[0]} to {numbers[-1]}")
    gains = []
    for k in budgets(most):
        gain = float(ours.median[k - 1] - theirs.median[k - 1])
        gains.append(f"{points(gain, signed=True)} with {k}")
    return f"{', '.join(outcomes)} draws of each; the medians differ by {listed(gains)}"
