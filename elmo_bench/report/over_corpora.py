"""What holds over corpora: on how many of them a gain is sure, the mean gain, and what to expect on
a new corpus.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from .comparison import Comparison
from .significance import LEVEL, holm

FEWEST_CORPORA = 5  # fewer say next to nothing of others
POINTS = 400  # of the grid of deviations between corpora


class Pooled(NamedTuple):
    """The mean of a random-effects model: corpora are a sample, and their true gains differ."""

    mean: float
    interval: tuple[float, float]  # 95 %, of the mean
    prediction: tuple[float, float]  # 95 %, of the true gain on a new corpus


def pooled(effects: Sequence[float], errors: Sequence[float]) -> Pooled | None:
    """Return the mean of corpora's gains with these standard errors; None for fewer than five.

    True gains are normal around the mean. How much they differ is not estimated but averaged over,
    every deviation being equally likely beforehand (Röver 2020, bayesmeta): with a single estimate
    the prediction for a new corpus misses in up to 14 % of cases (docs/validation.md).
    """
    if len(effects) < FEWEST_CORPORA:
        return None
    gains = np.asarray(effects)
    squares = np.square(errors)
    widest = 5 * max(float(np.ptp(gains)), math.sqrt(squares.max()))
    deviations = np.linspace(0, 1, POINTS + 1)[1:] ** 2 * widest  # closer to each other near 0
    weights = 1 / (squares + deviations[:, None] ** 2)
    totals = weights.sum(1)
    means = (weights * gains).sum(1) / totals
    misfit = (weights * (gains - means[:, None]) ** 2).sum(1)
    log_likelihood = (np.log(weights).sum(1) - np.log(totals) - misfit) / 2
    chances = np.exp(log_likelihood - log_likelihood.max()) * np.gradient(deviations)
    chances /= chances.sum()
    of_mean = 1 / totals
    of_new = of_mean + deviations**2
    return Pooled(
        float(chances @ means),
        _interval(chances, means, np.sqrt(of_mean)),
        _interval(chances, means, np.sqrt(of_new)),
    )


def _interval(
    chances: Float[np.ndarray, " P"], means: Float[np.ndarray, " P"], errors: np.ndarray
) -> tuple[float, float]:
    """Return the middle 95 % of a mixture of normal distributions."""
    lowest = float((means - 10 * errors).min())
    highest = float((means + 10 * errors).max())

    def above(value: float, share: float) -> float:
        return float(chances @ scipy.stats.norm.cdf((value - means) / errors)) - share

    low = scipy.optimize.brentq(above, lowest, highest, args=(LEVEL / 2,))
    high = scipy.optimize.brentq(above, lowest, highest, args=(1 - LEVEL / 2,))
    return float(low), float(high)


def at_least(comparisons: Sequence[Comparison]) -> tuple[int, int]:
    """Return on how many corpora at least, with 95 %, the true difference is above 0, and on how
    many below 0.

    The partial conjunction of Benjamini and Heller (2008) with Bonferroni's p, which is the number
    of corpora that Holm's method (1979) finds: it needs no independence. A comparison without p
    counts as 1.
    """
    ps = []
    for comparison in comparisons:
        test = comparison.test
        is_tested = test is not None and test.p is not None and not test.is_preliminary
        ps.append(test.p if is_tested and test is not None and test.p is not None else 1.0)
    above = 0
    below = 0
    for comparison, p in zip(comparisons, holm(ps), strict=True):
        if p < LEVEL and comparison.difference > 0:
            above += 1
        elif p < LEVEL:
            below += 1
    return above, below
