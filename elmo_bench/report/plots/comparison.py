"""Plot a report's figures, with a dot for every run, and the differences to a baseline."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from ..comparison import Comparison
from ..labels import headed, labels_of
from ..significance import LEVEL
from ..table import Cell, Key, Report, comparisons_of
from . import style

MEAN: style.Look = {"color": style.INK, "linestyle": "none", "mew": 1.4, "ms": 9}
TIMES = 3  # an interval is shown up to so many times the largest difference
RUNS = "Dots: runs; bar: their mean."  # where there is no baseline
READING = (
    "Left: runs (dots) and their mean (bar). Right: difference of the means to {} and its 95 % "
    "interval for new examples and new seeds (for new examples only where there is a single "
    "run); filled where p (Holm) is below {:g}. A line that reaches an edge goes on."
)


def comparison(report: Report) -> style.Plot | None:
    """Plot every run of every cell and, with a baseline, the differences; None for one cell."""
    if len(report.cells) < 2:
        return None
    titles = labels_of(report).columns
    rows: dict[Key, list[Cell]] = {}
    for row, by_column in report.by_row.items():
        rows[row] = [by_column[column] for column in report.heads if column in by_column]
    num_cells = sum(map(len, rows.values()))
    lines = max(style.short(title).count("\n") + 1 for title in titles.values())
    height = style.LINE * (lines * num_cells + 3 * len(rows) + 5)
    figure = style.figure_title(report, report.cells)
    if comparisons_of([report]):
        columns = 2
        shown = f"{figure}, every run a dot, and the differences."
        reading = READING.format(titles[report.baseline or ()], LEVEL)
    else:
        columns = 1
        shown = f"{figure}, every run a dot."
        reading = RUNS
    title = headed(report, shown)
    return style.Plot(title, reading, height, lambda part: _draw(part, report, rows, columns))


def _draw(part: SubFigure, report: Report, rows: dict[Key, list[Cell]], columns: int) -> None:
    """Draw a panel for each row, and beside it the differences if there are two columns."""
    titles = labels_of(report).columns
    whole = style.figure_title(report, report.cells)
    row_titles = style.row_titles(report)
    styles = style.looks(titles, report.baseline)
    heights: list[int] = []
    middles: list[float] = []
    longest = 1.0
    for cells in rows.values():
        low, high = _range(cells)
        heights.append(len(cells) + 1)
        middles.append((high + low) / 2)
        longest = max(longest, high - low)
    panels = part.subplots(len(rows), columns, squeeze=False, sharey="row", height_ratios=heights)
    # All rows are equally long, so that equal lengths are equal differences.
    half = 1.1 * longest / 2
    for axes, (row, cells), middle in zip(panels, rows.items(), middles, strict=True):
        own = style.figure_title(report, cells)
        title = row_titles[row] if own == whole else f"{row_titles[row]}: {own}"
        _runs(axes[0], cells, titles, styles)
        axes[0].set_title(style.short(title, 100))
        axes[0].set_xlim(middle - half, middle + half)
        style.percent_axis(axes[0].xaxis)
        for right in axes[1:]:
            _differences(right, report, cells, styles)
    panels[-1, 0].set_xlabel(f"{whole}, %")
    if columns > 1:
        label = f"difference to {titles[report.baseline or ()]}, points"
        panels[-1, 1].set_xlabel(style.short(label, 50))


def _range(cells: Sequence[Cell]) -> tuple[float, float]:
    """Return the lowest and the highest figure of the cells' runs, in percent."""
    figures: list[float] = []
    for cell in cells:
        figures += style.percents(cell)
    return min(figures), max(figures)


def _runs(
    axes: Axes, cells: Sequence[Cell], titles: Mapping[Key, str], styles: style.Looks
) -> None:
    """Draw a line for each cell: its runs, and their mean if there are several."""
    ticks = [style.short(titles[cell.column]) for cell in cells]
    axes.set_yticks(range(len(cells)), ticks)
    axes.set_ylim(len(cells) - 0.5, -0.5)
    for y, cell in enumerate(cells):
        figures = style.percents(cell)
        look = styles[cell.column] | style.DOTS
        axes.plot(figures, [y] * len(figures), **look, label="run")
        if len(figures) > 1:
            axes.plot(100 * cell.mean, y, **MEAN, marker="|", label="mean")


def _differences(axes: Axes, report: Report, cells: list[Cell], styles: style.Looks) -> None:
    """Draw the differences to the baseline with their intervals."""
    axes.set_xlim(_span(report))
    axes.axvline(0, color=style.SOFT, linewidth=0.8)
    for y, cell in enumerate(cells):
        compared = cell.comparison
        if compared:
            label = "difference, 95 % interval"
            if compared.is_significant:
                label = f"p (Holm) < {LEVEL:g}"
            difference(axes, compared, y, styles[cell.column], label)


def difference(
    axes: Axes, compared: Comparison, y: int | float, look: style.Look, label: str
) -> None:
    """Draw a difference and its interval, filled if it is significant."""
    mark = look | {"linestyle": "none", "markersize": 5.5}
    if compared.test:
        axes.plot(np.multiply(100, compared.test.interval), (y, y), color=mark["color"])
    if not compared.is_significant:
        mark["markerfacecolor"] = style.PAPER
    axes.plot(100 * compared.difference, y, **mark, label=label)


def _span(report: Report) -> tuple[float, float]:
    """Return the range of the axis of differences, in points.

    It includes 0, the differences and their intervals, but no end that is far longer than any
    difference.
    """
    shown: list[float] = []
    ends: list[float] = []
    for compared in comparisons_of([report]):
        shown.append(100 * compared.difference)
        if compared.test:
            low, high = compared.test.interval
            ends += [100 * low, 100 * high]
    most = TIMES * max(1, *map(abs, shown))
    shown.append(0)
    shown += list(np.clip(ends, -most, most))
    margin = 0.06 * (max(shown) - min(shown)) or 1.0
    return min(shown) - margin, max(shown) + margin
