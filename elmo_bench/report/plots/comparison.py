"""Plot a report's figures, with a dot for every run, and the differences to a baseline."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import scipy
from matplotlib.axes import Axes
from matplotlib.figure import SubFigure

from elmo_bench.files import counted_noun

from ..grids import heads, with_baseline
from ..labels import titled
from ..significance import LEVEL
from ..table import Cell, Key, Report
from .style import (
    FADED,
    FAINT,
    INK,
    LINE,
    PAPER,
    RUN,
    SOFT,
    Look,
    Plot,
    column_looks,
    column_titles,
    legend,
    legend_height,
    metric,
    percents,
    row_title,
    runs_each,
    short,
    value_axis,
)

DIAMOND = 5.5  # points across
MEAN: dict[str, Any] = {"color": INK, "linestyle": "none", "marker": "|"}
MEAN |= {"markersize": 9, "markeredgewidth": 1.6}
CROSS: dict[str, Any] = MEAN | {"marker": "x", "markersize": 5.5, "markeredgewidth": 1.2}
LONG = 3  # an axis shows intervals up to so many times the length of others
COMMON = 1.6  # rows share an axis that is up to so many times as long as they need


def comparison(report: Report) -> Plot | None:
    """Plot every run of every cell and, with a baseline, the differences to it.

    Returns None for a single cell.
    """
    if len(report.cells) < 2:
        return None
    rows = {row: _cells(report, row) for row in with_baseline(report)}
    settings = counted_noun(len(column_titles(report)), "setting")
    shown = f"{metric(report).removesuffix(', %')} of {settings}"
    shown += f" in {counted_noun(len(rows), 'row')}" if len(rows) > 1 else ""
    shown += ", every run a dot" + (", with the differences." if _tested(report) else ".")
    lines = [sum(map(_height, _names(report, cells))) for cells in rows.values()]
    return Plot(
        titled(report.title, shown),
        _reading(report),
        LINE * (sum(lines) + 2.2 * len(rows) + 3) + legend_height(len(_legend(report))),
        lambda part: _draw(part, report, rows),
    )


def _cells(report: Report, row: Key) -> list[Cell]:
    """Return a row's cells, its baseline first."""
    cells = with_baseline(report)[row]
    return [cells[column] for column in heads(report) if column in cells]


def _names(report: Report, cells: Sequence[Cell]) -> list[str]:
    """Return the columns' titles, with the number of runs if it differs between cells."""
    several = len({len(cell.runs) for cell in report.cells}) > 1
    titles = column_titles(report)
    return [short(titles[cell.column] + f" (n = {len(cell.runs)})" * several) for cell in cells]


def _height(name: str) -> int:
    return 1 + name.count("\n")


def _row_title(report: Report, row: Key) -> str:
    """Return a row's title, with its metric if rows have different ones."""
    title, unit = row_title(report, row), metric(report, cells=_cells(report, row))
    return title if unit == metric(report) else f"{title}: {unit.removesuffix(', %')}"


def _tested(report: Report) -> bool:
    return any(cell.comparison for cell in report.cells)


def _reading(report: Report) -> str:
    if not _tested(report):
        return (
            "Dots: runs; bar: their mean; line: 95 % interval of the mean for new seeds, of three "
            "runs or more."
        )
    tests = [cell.comparison.test for cell in report.cells if cell.comparison]
    single = any(test and test.p is None for test in tests)
    only_examples = " (for new examples alone where there is a single run)" if single else ""
    return (
        "Left: runs (dots) and their mean (bar). Right: difference of the means to "
        f"{column_titles(report)[report.baseline or ()]} and its 95 % interval for new examples "
        f"and new seeds{only_examples}; filled where p (Holm) is below {LEVEL:g}. A line that "
        "reaches an edge goes on."
    )


def _draw(part: SubFigure, report: Report, rows: Mapping[Key, Sequence[Cell]]) -> None:
    ranges, looks, tested = _ranges(report, rows), column_looks(report), _tested(report)
    names = {row: _names(report, cells) for row, cells in rows.items()}
    heights = [sum(map(_height, each)) + 0.5 for each in names.values()]
    panels = part.subplots(len(rows), 1 + tested, squeeze=False, height_ratios=heights)
    for (left, *right), (row, cells) in zip(panels, rows.items(), strict=True):
        is_last = row == [*rows][-1]
        left.set_title(short(_row_title(report, row), 100))
        left.set_xlim(ranges[row])
        left.set_yticks(range(len(cells)), names[row])
        left.tick_params(labelbottom=is_last or len({*ranges.values()}) > 1)
        for number, cell in enumerate(cells):
            _runs(left, number, cell, looks[cell.column], with_interval=not tested)
        for axes in right:
            _differences(axes, report, cells, looks)
            axes.tick_params(labelbottom=is_last, labelleft=False)
        for axes in (left, *right):
            axes.set_ylim(len(cells) - 0.5, -0.5)
            axes.spines["left"].set_visible(False)
            value_axis(axes.xaxis, 6)
    panels[-1][0].set_xlabel(metric(report))
    if tested:
        baseline = column_titles(report)[report.baseline or ()]
        panels[-1][1].set_xlabel(short(f"difference to {baseline}, points", 50))
    legend(part, _legend(report))


def _ranges(report: Report, rows: Mapping[Key, Sequence[Cell]]) -> dict[Key, tuple[float, float]]:
    """Return the range of each row's axis, in percent.

    All ranges are equally long, so that equal lengths are equal differences. If a common range is
    not much longer, all rows share it.
    """
    values: dict[Key, list[float]] = {}
    for row, cells in rows.items():
        ends = [] if _tested(report) else [_interval_of_mean(cell) or () for cell in cells]
        values[row] = [value for each in (*map(percents, cells), *ends) for value in each]
    span = max(1.1 * max(max(each) - min(each) for each in values.values()), 1.0)
    low, high = min(map(min, values.values())), max(map(max, values.values()))
    if high - low < COMMON * span:
        margin = max(0.05 * (high - low), 0.5)
        return dict.fromkeys(values, (low - margin, high + margin))
    middles = {row: (min(each) + max(each)) / 2 for row, each in values.items()}
    return {row: (middle - span / 2, middle + span / 2) for row, middle in middles.items()}


def _interval_of_mean(cell: Cell) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean in percent, by Student's t, within 0 and 100.

    Returns None for fewer than three runs.
    """
    if len(cell.figures) < 3:
        return None
    error = statistics.stdev(percents(cell)) / len(cell.figures) ** 0.5
    reach = error * float(scipy.stats.t.ppf(1 - LEVEL / 2, len(cell.figures) - 1))
    return max(100 * cell.mean - reach, 0.0), min(100 * cell.mean + reach, 100.0)


def _runs(axes: Axes, y: int, cell: Cell, look: Look, *, with_interval: bool) -> None:
    """Draw a dot for each run, and their mean."""
    if with_interval and (ends := _interval_of_mean(cell)):
        axes.plot(ends, (y, y), color=look.color, linewidth=0.9)
    values = percents(cell)
    axes.plot(values, [y] * len(values), **look.marks(alpha=FADED, markeredgewidth=0))
    if len(values) > 1:
        axes.plot(100 * cell.mean, y, **MEAN)


def _differences(
    axes: Axes, report: Report, cells: Sequence[Cell], looks: Mapping[Key, Look]
) -> None:
    """Draw the differences to the baseline with their intervals, and the paper's."""
    axes.set_xlim(_span(report))
    axes.axvline(0, color=SOFT, linewidth=0.8)
    if region := 100 * (report.equal_within or 0):
        axes.axvspan(-region, region, color=FAINT, linewidth=0)
    for y, cell in enumerate(cells):
        if (compared := cell.comparison) is None:
            continue
        look = looks[cell.column]
        if compared.test:
            ends = [100 * end for end in compared.test.interval]
            axes.plot(ends, (y, y), color=look.color)
        is_significant = compared.p_holm is not None and compared.p_holm < LEVEL
        face = look.color if is_significant else PAPER
        style = look.marks(markersize=DIAMOND, markerfacecolor=face)
        axes.plot(100 * compared.difference, y, **style)
        if (theirs := _published(report, cell)) is not None:
            axes.plot(theirs, y, **CROSS)


def _span(report: Report) -> tuple[float, float]:
    """Return the range of the axis of differences, in points.

    It includes 0, the differences and their intervals, except ends of intervals that are far longer
    than the others and than any difference.
    """
    compared = [cell.comparison for cell in report.cells if cell.comparison]
    differences = [100 * each.difference for each in compared]
    theirs = [_published(report, cell) for cell in report.cells if cell.comparison]
    differences += [each for each in theirs if each is not None]
    ends = [100 * end for each in compared if each.test for end in each.test.interval]
    usual = statistics.median_low(map(abs, ends)) if ends else 0.0
    most = LONG * max([usual, *map(abs, differences)])
    shown = [0.0, *differences, *(min(max(end, -most), most) for end in ends)]
    margin = 0.06 * (max(shown) - min(shown)) or 1.0
    return min(shown) - margin, max(shown) + margin


def _published(report: Report, cell: Cell) -> float | None:
    """Return the paper's difference between the same two settings, in points, or None."""
    base = report.base(cell.row)
    if base is None or base.published is None or cell.published is None:
        return None
    return 100 * (cell.published - base.published)


def _legend(report: Report) -> list[tuple[Mapping[str, Any], str]]:
    counts = {len(cell.runs) for cell in report.cells}
    dot = RUN.marks(alpha=FADED, markeredgewidth=0)
    entries: list[tuple[Mapping[str, Any], str]] = [(dot, f"run ({runs_each(counts)})")]
    entries += [(MEAN, "mean")] if max(counts) > 1 else []
    if not _tested(report):
        intervals = any(_interval_of_mean(cell) for cell in report.cells)
        return entries + [({"color": INK}, "95 % interval of the mean")] * intervals
    diamond = {"color": INK, "marker": "D", "markersize": DIAMOND}
    entries.append((diamond | {"markerfacecolor": PAPER}, "difference, 95 % interval"))
    entries.append((diamond | {"linestyle": "none"}, f"p (Holm) < {LEVEL:g}"))
    if any(_published(report, cell) is not None for cell in report.cells if cell.comparison):
        entries.append((CROSS, "difference in the paper"))
    if report.equal_within:
        region = {"color": FAINT, "linewidth": 7}
        points = f"{100 * report.equal_within:g} points"
        entries.append((region, f"practically equal: within {points}"))
    return entries
