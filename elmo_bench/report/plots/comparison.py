"""Plot a report's figures, with a dot for every run, and the differences to a baseline."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from ..comparison import Comparison
from ..grids import headed, labels_of
from ..significance import LEVEL
from ..table import Cell, Key, Report, comparisons_of
from . import style

MEAN: style.Look = {"color": style.INK, "linestyle": "none", "mew": 1.4, "ms": 9}
LONG = 3  # an interval is shown up to so many times the largest difference
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
    titles, tested = labels_of(report).columns, bool(comparisons_of([report]))
    heads, by_row = report.heads, report.by_row
    rows = {row: [cells[at] for at in heads if at in cells] for row, cells in by_row.items()}
    lines = max(style.short(title).count("\n") + 1 for title in titles.values())
    height = style.LINE * (lines * sum(map(len, rows.values())) + 3 * len(rows) + 5)
    shown = f"{style.figure_title(report, report.cells)}, every run a dot"
    what = headed(report, shown + ", and the differences" * tested + ".")
    reading = READING.format(titles[report.baseline or ()], LEVEL) if tested else RUNS
    return style.Plot(what, reading, height, lambda part: _draw(part, report, rows, 1 + tested))


def _draw(part: SubFigure, report: Report, rows: dict[Key, list[Cell]], columns: int) -> None:
    """Draw a panel for each row, and beside it the differences if there are two columns."""
    titles, whole = labels_of(report).columns, style.figure_title(report, report.cells)
    row_titles = style.row_titles(report)
    styles = style.looks(titles, report.baseline)
    heights = [len(cells) + 1 for cells in rows.values()]
    panels = part.subplots(len(rows), columns, squeeze=False, sharey="row", height_ratios=heights)
    # All rows are equally long, so that equal lengths are equal differences.
    figures = [[f for cell in cells for f in style.percents(cell)] for cells in rows.values()]
    length = 1.1 * max(1, *map(np.ptp, figures))
    for axes, (row, cells), values in zip(panels, rows.items(), figures, strict=True):
        own = style.figure_title(report, cells)
        about = "" if own == whole else f": {own}"
        axes[0].set_title(style.short(row_titles[row] + about, 100))
        axes[0].set_yticks(range(len(cells)), [style.short(titles[cell.column]) for cell in cells])
        axes[0].set_ylim(len(cells) - 0.5, -0.5)
        for y, cell in enumerate(cells):
            runs = style.percents(cell)
            axes[0].plot(runs, [y] * len(runs), **styles[cell.column] | style.DOTS, label="run")
            if len(runs) > 1:
                axes[0].plot(100 * cell.mean, y, **MEAN, marker="|", label="mean")
        middle = (max(values) + min(values)) / 2
        axes[0].set_xlim(middle - length / 2, middle + length / 2)
        style.percent_axis(axes[0].xaxis)
        for right in axes[1:]:
            _differences(right, report, cells, styles)
    panels[-1, 0].set_xlabel(f"{whole}, %")
    if columns > 1:
        label = f"difference to {titles[report.baseline or ()]}, points"
        panels[-1, 1].set_xlabel(style.short(label, 50))


def _differences(axes: Axes, report: Report, cells: list[Cell], styles: style.Looks) -> None:
    """Draw the differences to the baseline with their intervals."""
    axes.set_xlim(_span(report))
    axes.axvline(0, color=style.SOFT, linewidth=0.8)
    labels = "difference, 95 % interval", f"p (Holm) < {LEVEL:g}"
    for y, cell in enumerate(cells):
        if compared := cell.comparison:
            difference(axes, compared, y, styles[cell.column], labels[compared.is_significant])


def difference(
    axes: Axes, compared: Comparison, y: int | float, look: style.Look, label: str
) -> None:
    """Draw a difference and its interval, filled if it is significant."""
    look = look | {"linestyle": "none", "markersize": 5.5}
    if compared.test:
        axes.plot(np.multiply(100, compared.test.interval), (y, y), color=look["color"])
    if not compared.is_significant:
        look["markerfacecolor"] = style.PAPER
    axes.plot(100 * compared.difference, y, **look, label=label)


def _span(report: Report) -> tuple[float, float]:
    """Return the range of the axis of differences, in points.

    It includes 0, the differences and their intervals, but no end that is far longer than any
    difference.
    """
    compared = comparisons_of([report])
    shown = [100 * each.difference for each in compared]
    most = LONG * max(1, *map(abs, shown))
    ends = [100 * end for each in compared if each.test for end in each.test.interval]
    shown += [0, *np.clip(ends, -most, most)]
    margin = 0.06 * (max(shown) - min(shown)) or 1.0
    return min(shown) - margin, max(shown) + margin
