"""Plot tuning curves, and the gain over a baseline by the baseline's number of draws."""

from collections.abc import Mapping

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.ticker import NullLocator

from ..labels import headed, labels_of
from ..names import metric_title
from ..table import Key, Report
from ..tuning import Side, sides
from ..tuning_curve import TOP, Curve, budgets
from . import style

HEIGHT = 2.5  # inches of a row of panels
EDGE: style.Look = {"marker": "_", "linewidth": 0.7, "linestyle": ":"}  # of a band
READING = (
    "Left: the median of what the best of k random draws reaches on dev (line), and its band "
    "(between dotted lines). Right: the median of the best of all draws, less that of the best of "
    "k draws of {0}. Bands hold for all k, that of a side and of {0} together with 95 %; where the "
    "upper or lower dotted line is missing, they have no bound."
)


def tuning(report: Report) -> style.Plot | None:
    """Plot the tuning curves of each row, and beside them the gains; None without any."""
    by_row = sides(report)
    if not by_row:
        return None
    base = labels_of(report).base
    height = HEIGHT * len(by_row) + style.LINE * 2
    title = headed(report, f"tuning curves, and the gain by the number of draws of {base}.")
    return style.Plot(title, READING.format(base), height, lambda part: _draw(part, report))


def _draw(part: SubFigure, report: Report) -> None:
    labels = labels_of(report)
    looks = style.looks(report.heads, report.baseline)
    by_row = sides(report)
    titles = style.row_titles(report)
    panels = part.subplots(len(by_row), 2, squeeze=False)
    for (left, right), (row, tuned) in zip(panels, by_row.items(), strict=True):
        curves = {column: _open(side) for column, side in tuned.items()}
        base = curves[report.baseline or ()]
        gains: dict[Key, Curve] = {}
        for column, curve in curves.items():
            if curve is not base:
                gains[column] = _gain(curve, base)
        _curves(left, curves, looks, labels.columns)
        _curves(right, gains, looks, labels.columns)
        run = tuned[report.baseline or ()].draws[0]
        left.set(title=style.short(titles[row], 40), ylabel=f"dev {metric_title(run)}, %")
        right.axhline(0, color=style.INK, linewidth=0.8)
        right.set(ylabel="gain, points")
    panels[-1, 0].set_xlabel("draws of each")
    panels[-1, 1].set_xlabel(style.short(f"draws of {labels.base}", 50))


def _open(side: Side) -> Curve:
    """Return a side's curve, with infinite ends where its band has no bound."""
    median, low, high = side.curve
    open_low = np.where(low > side.lowest, low, -np.inf)
    open_high = np.where(high < TOP, high, np.inf)
    return Curve(median, open_low, open_high)


def _gain(ours: Curve, theirs: Curve) -> Curve:
    """Return the gain of the best of all our draws over the best of k of theirs, by k."""
    return Curve(
        ours.median[-1] - theirs.median,
        ours.low[-1] - theirs.high,
        ours.high[-1] - theirs.low,
    )


def _curves(
    axes: Axes, curves: Mapping[Key, Curve], looks: style.Looks, labels: Mapping[Key, str]
) -> None:
    """Draw curves, and their bands where they have bounds, in percent, over budgets."""
    for column, curve in curves.items():
        look = looks[column]
        draws = np.arange(1, len(curve.median) + 1)
        dots = {"markevery": [k - 1 for k in budgets(len(draws))]}
        median, low, high = map(_percent, curve)
        axes.fill_between(draws, low, high, facecolor=look["color"], alpha=0.15, linewidth=0)
        for end in (low, high):
            axes.plot(draws, end, **look | EDGE | dots)
        axes.plot(draws, median, **look | dots, label=labels[column])
    axes.set_xscale("log")
    ticks = budgets(max(len(curve.median) for curve in curves.values()))
    axes.set_xticks(ticks, list(map(str, ticks)))
    axes.xaxis.set_minor_locator(NullLocator())


def _percent(values: np.ndarray) -> np.ndarray:
    """Return fractions of 1 in percent, with NaN, which is not drawn, for infinite ones."""
    return np.where(np.isfinite(values), 100 * values, np.nan)
