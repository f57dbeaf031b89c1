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
from .labels import headed, labels_of
from .names import points
from .significance import LEVEL, holm
from .table import Report
from .writers import Grid

ABOUT = (
    "Of the differences to {}, in points; corpora are a sample. Above 0 on: so many corpora at "
    "least, with 95 %. Mean: of a random-effects model (Röver 2020), of five corpora or more. New "
    "corpus: where the true difference on another corpus lies with 95 %. Corpora on which the same "
    "models were tested, or which an encoder has seen, are not told from others."
)
HEADS = ["above 0 on", "below 0 on", "mean", "95 % interval", "new corpus, 95 %", "corpora"]
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
        if test is None or test.p is None or test.is_preliminary:
            ps.append(1.0)
        else:
            ps.append(test.p)
    above = 0
    below = 0
    for comparison, p in zip(comparisons, holm(ps), strict=True):
        if p < LEVEL and comparison.difference > 0:
            above += 1
        elif p < LEVEL:
            below += 1
    return above, below


def corpora_grid(report: Report) -> Grid:
    """Return a table of what holds over the corpora that are a report's rows, of each column."""
    labels = labels_of(report)
    rows = []
    for column in report.heads:
        compared = []
        for cells in report.by_row.values():
            comparison = cells[column].comparison if column in cells else None
            if comparison is not None:
                compared.append(comparison)
        if compared:
            rows.append([labels.columns[column]] + _over_corpora(compared))
    caption = ABOUT.format(labels.base)
    return Grid(headed(report, "what holds over corpora"), [labels.axes, *HEADS], rows, 1, caption)


def _over_corpora(compared: Sequence[Comparison]) -> list[str]:
    """Return the figures for the columns of HEADS."""
    above, below = at_least(compared)
    effects = []
    errors = []
    for comparison in compared:
        if comparison.test is not None and comparison.test.p is not None:
            effects.append(comparison.difference)
            errors.append(comparison.test.scales[0].error)
    number = str(len(effects))
    mean = pooled(effects, errors)
    counts = [f"{above} of {len(compared)}", f"{below} of {len(compared)}"]
    if mean is None:
        return [*counts, "", "", "", number]
    intervals = []
    for low, high in (mean.interval, mean.prediction):
        intervals.append(f"{points(low, signed=True)} to {points(high, signed=True)}")
    return counts + [points(mean.mean, signed=True)] + intervals + [number]
