"""Plot a report's figures, with a dot for every run, and the differences to a baseline."""

from collections.abc import Mapping, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from ..labels import titled
from ..significance import LEVEL
from ..table import Cell, Key, Report
from .style import (
    DOTS,
    INK,
    LINE,
    PAPER,
    SOFT,
    Look,
    Plot,
    column_titles,
    looks,
    metric,
    percent_axis,
    percents,
    row_title,
    short,
)

MEAN: Look = {"color": INK, "linestyle": "none", "markeredgewidth": 1.4, "markersize": 9}
LONG = 3  # an interval is shown up to so many times the largest difference
READING = (
    "Left: runs (dots) and their mean (bar). Right: difference of the means to {} and its 95 % "
    "interval for new examples and new seeds (for new examples alone where there is a single "
    "run); filled where p (Holm) is below {:g}. A line that reaches an edge goes on."
)


def comparison(report: Report) -> Plot | None:
    """Plot every run of every cell and, with a baseline, the differences to it.

    Returns None for a single cell.
    """
    if len(report.cells) < 2:
        return None
    columns = report.heads
    rows = {
        row: [cells[column] for column in columns if column in cells]
        for row, cells in report.by_row.items()
    }
    tested, titles = _tested(report), column_titles(report)
    lines = max(short(title).count("\n") + 1 for title in titles.values()) * sum(
        map(len, rows.values())
    )
    shown = f"{metric(report).removesuffix(', %')}, every run a dot"
    return Plot(
        titled(report.title, shown + (", and the differences." if tested else ".")),
        READING.format(titles[report.baseline or ()], LEVEL)
        if tested
        else "Dots: runs; bar: their mean.",
        LINE * (lines + 3 * len(rows) + 5),
        lambda part: _draw(part, report, rows),
    )


def _tested(report: Report) -> bool:
    return any(cell.comparison for cell in report.cells)


def _draw(part: SubFigure, report: Report, rows: Mapping[Key, Sequence[Cell]]) -> None:
    tested, titles = _tested(report), column_titles(report)
    styles = looks(titles, report.baseline)
    axes_of = part.subplots(
        len(rows),
        1 + tested,
        squeeze=False,
        height_ratios=[len(each) + 1 for each in rows.values()],
    )
    figures = {row: [f for cell in cells for f in percents(cell)] for row, cells in rows.items()}
    length = 1.1 * max(1, *(max(each) - min(each) for each in figures.values()))
    for (left, *right), (row, cells) in zip(axes_of, rows.items(), strict=True):
        unit = metric(report, cells=cells)
        about = "" if unit == metric(report) else f": {unit.removesuffix(', %')}"
        left.set_title(short(row_title(report, row) + about, 100))
        left.set_yticks(range(len(cells)), [short(titles[cell.column]) for cell in cells])
        for y, cell in enumerate(cells):
            _runs(left, y, cell, styles[cell.column])
        # All rows are equally long, so that equal lengths are equal differences.
        middle = (max(figures[row]) + min(figures[row])) / 2
        left.set_xlim(middle - length / 2, middle + length / 2)
        percent_axis(left.xaxis)
        for axes in right:
            _differences(axes, report, cells, styles)
            axes.tick_params(labelbottom=row == [*rows][-1], labelleft=False)
        for axes in (left, *right):
            axes.set_ylim(len(cells) - 0.5, -0.5)
            axes.spines["left"].set_visible(False)
            axes.grid(visible=True, axis="x")
            axes.grid(visible=False, axis="y")
    axes_of[-1][0].set_xlabel(metric(report))
    if tested:
        baseline = titles[report.baseline or ()]
        axes_of[-1][1].set_xlabel(short(f"difference to {baseline}, points", 50))


def _runs(axes: Axes, y: int, cell: Cell, look: Look) -> None:
    """Draw a dot for each run, and their mean."""
    values = percents(cell)
    axes.plot(values, [y] * len(values), **look | DOTS, label="run")
    if len(values) > 1:
        axes.plot(100 * cell.mean, y, **MEAN, marker="|", label="mean")


def _differences(
    axes: Axes, report: Report, cells: Sequence[Cell], styles: Mapping[Key, Look]
) -> None:
    """Draw the differences to the baseline with their intervals, and the paper's."""
    axes.set_xlim(_span(report))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    axes.axvline(0, color=SOFT, linewidth=0.8)
    for y, cell in enumerate(cells):
        if (compared := cell.comparison) is None:
            continue
        look = styles[cell.column]
        if compared.test:
            axes.plot([100 * end for end in compared.test.interval], (y, y), color=look["color"])
        face, label = (
            (look["color"], f"p (Holm) < {LEVEL:g}")
            if compared.is_significant
            else (PAPER, "difference, 95 % interval")
        )
        style = look | {"linestyle": "none", "markersize": 5.5, "markerfacecolor": face}
        axes.plot(100 * compared.difference, y, **style, label=label)
        if (theirs := _published(report, cell)) is not None:
            axes.plot(theirs, y, **MEAN | {"markersize": 5.5}, marker="x", label="in the paper")


def _span(report: Report) -> tuple[float, float]:
    """Return the range of the axis of differences, in points.

    It includes 0, the differences and their intervals, but no end that is far longer than any
    difference.
    """
    compared = [(cell.comparison, _published(report, cell)) for cell in report.cells]
    shown = [100 * ours.difference for ours, _ in compared if ours]
    shown += [theirs for ours, theirs in compared if ours and theirs is not None]
    most = LONG * max(1, *map(abs, shown))
    ends = [100 * end for ours, _ in compared if ours and ours.test for end in ours.test.interval]
    shown += [0, *(min(max(end, -most), most) for end in ends)]
    margin = 0.06 * (max(shown) - min(shown)) or 1.0
    return min(shown) - margin, max(shown) + margin


def _published(report: Report, cell: Cell) -> float | None:
    """Return the paper's difference between the same two settings, in points, or None."""
    base = report.base(cell.row)
    if base is None or base.published is None or cell.published is None:
        return None
    return 100 * (cell.published - base.published)
