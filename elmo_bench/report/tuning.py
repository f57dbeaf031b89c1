"""Tuning curves: how good the best of k random draws of settings is, with exact bands (Lourie, Cho
and He 2024, "Show Your Work with Confidence", arXiv 2311.09480).

Axes: N draws of a side, and the budgets of 1 to N draws.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

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
    shares = 0.5 ** (1 / np.arange(1, len(ordered) + 1))
    least, most = limits(len(ordered), confidence)
    ends = np.array([lowest, *ordered, TOP])
    # Between two neighbouring scores F is at least the lower one's `least`, at most the higher
    # one's `most`.
    return Curve(
        median=ordered[np.searchsorted(np.arange(1, len(ordered) + 1) / len(ordered), shares)],
        low=ends[np.searchsorted(most, shares)],
        high=ends[np.searchsorted(least, shares) + 1],
    )


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

    tail = scipy.optimize.brentq(lambda tail: probability(*cut(tail)) - confidence, 0, 0.5)
    return cut(tail)


def probability(least: Float[np.ndarray, " N"], most: Float[np.ndarray, " N"]) -> float:
    """Return the probability that the i-th lowest of N uniform numbers lies in the i-th interval,
    for all i; both limits rise.

    The numbers are the events of a Poisson process that has N of them; between limits the
    distribution of their count is folded with that of new events (Moscovich and Nadler 2017).
    """
    size = len(least)
    numbers = np.arange(size + 1)
    counts, before = np.eye(1, size + 1)[0], 0.0
    for place in np.sort([*least, *most, 1.0]):
        new = scipy.stats.poisson.pmf(numbers, size * (place - before))
        counts = np.convolve(counts, new)[: size + 1]
        counts[: np.searchsorted(most, place, "right")] = 0  # so many must lie below
        counts[np.searchsorted(least, place) + 1 :] = 0  # and no more may
        before = place
    return float(counts[size] / scipy.stats.poisson.pmf(size, size))
