"""Plot a report's figures, with a dot for every run, and the differences to a baseline."""

import statistics
from collections.abc import Sequence
from typing import Any, NamedTuple

import scipy
from matplotlib.axes import Axes

from ..grids import heads, with_baseline
from ..significance import LEVEL
from ..table import Cell, Key, Report
from .drawing import (
    FADED,
    FAINT,
    INK,
    LINE,
    PAPER,
    SOFT,
    UNLIMITED,
    Look,
    Plot,
    Sheet,
    key,
    per_inch,
    percent_limits,
    text_width,
    value_axis,
    within,
    wrapped,
)
from .looks import (
    column_looks,
    column_titles,
    counted,
    metric,
    percents,
    row_title,
    runs_each,
    sentence,
)

MOST = 6  # maximum number of rows in an alternative text
DOT, DIAMOND, ARROW = 4.2, 5.5, 4.0  # points across
MEAN: dict[str, Any] = {"color": INK, "linestyle": "none", "marker": "|"}
MEAN |= {"markersize": 9, "markeredgewidth": 1.6}
CROSS: dict[str, Any] = MEAN | {"marker": "x", "markersize": 5.5, "markeredgewidth": 1.2}
GAP = 0.22  # inches between the panels
LONG = 3  # intervals are cut if they are so many times as long as others


class Line(NamedTuple):
    """A cell with its style and its name, wrapped into lines."""

    name: list[str]
    look: Look
    cell: Cell

    @property
    def height(self) -> float:
        return LINE * len(self.name) + 0.06


class Layout(NamedTuple):
    """Widths of the panels in inches, and ranges of their axes in percent and points."""

    label: float  # the width of the names
    figures: float
    differences: float  # 0 without a baseline
    ranges: dict[Key, tuple[float, float]]  # row -> range of its figures
    span: tuple[float, float]  # range of the differences


def comparison(report: Report) -> Plot | None:
    """Plot every run of every cell and, with a baseline, the differences to it.

    Returns None for a single cell.
    """
    if len(report.cells) < 2:
        return None
    rows = with_baseline(report)
    settings = counted(len(column_titles(report)), "setting")
    shown = f"{metric(report).removesuffix(', %')} of {settings}"
    shown += f" in {counted(len(rows), 'row')}" if len(rows) > 1 else ""
    shown += ", every run a dot" + (", with the differences." if _tested(report) else ".")
    return Plot(
        sentence(report.title, shown),
        " ".join(_in_words(report, row) for row in [*rows][:MOST]),
        _reading(report),
        lambda sheet: _draw(sheet, report),
    )


def _cells(report: Report, row: Key) -> list[Cell]:
    """Return a row's cells, its baseline first."""
    cells = with_baseline(report)[row]
    return [cells[column] for column in heads(report) if column in cells]


def _row_title(report: Report, row: Key) -> str:
    """Return a row's title, with its metric if rows have different ones."""
    title, unit = row_title(report, row), metric(report, cells=_cells(report, row))
    return title if unit == metric(report) else f"{title}: {unit.removesuffix(', %')}"


def _tested(report: Report) -> bool:
    return any(cell.comparison for cell in report.cells)


def _in_words(report: Report, row: Key) -> str:
    columns, parts = column_titles(report), []
    for cell in _cells(report, row):
        part = f"{columns[cell.column]} {100 * cell.mean:.2f}"
        if cell.comparison and cell.comparison.test:
            numbers = cell.comparison.difference, *cell.comparison.test.interval
            by, low, high = (f"{100 * number:+.2f}".replace("-", "−") for number in numbers)
            part += f" (difference {by}, {low} to {high})"
        parts.append(part)
    return f"{_row_title(report, row) or 'Means'}: {'; '.join(parts)}."


def _reading(report: Report) -> str:
    if not _tested(report):
        return (
            "Dots: runs; bar: their mean; line: 95 % interval of the mean for new seeds, of three "
            f"runs or more.{_scale(report)}"
        )
    tests = [cell.comparison.test for cell in report.cells if cell.comparison]
    single = any(test and test.p is None for test in tests)
    only_examples = " (for new examples alone where there is a single run)" if single else ""
    return (
        "Left: runs (dots) and their mean (bar). Right: difference of the means to "
        f"{column_titles(report)[report.baseline or ()]} and its 95 % interval for new examples "
        f"and new seeds{only_examples}; "
        f"filled where p (Holm) is below {LEVEL:g}.{_scale(report)}"
    )


def _scale(report: Report) -> str:
    several = len({*_ranges(report).values()}) > 1
    return " The axes of all rows are as many points long." if several else ""


def _draw(sheet: Sheet, report: Report) -> None:
    layout = _layout(sheet.width, report)
    cut, last = False, [*layout.ranges][-1]
    for row, shown in layout.ranges.items():
        lines = _lines(report, row, layout.label)
        if title := _row_title(report, row):
            sheet.lines(0.0, title, sheet.width, weight="bold")
        cut |= _row(sheet, report, lines, layout, shown, last=row == last)
    _axis_titles(sheet, report, layout)
    sheet.legend(_legend(report, cut))


def _layout(width: float, report: Report) -> Layout:
    texts = [_name(report, cell) for cell in report.cells]
    label = min(max(map(text_width, texts)) + 0.1, 0.32 * width)
    room = width - label - 0.1
    figures = 0.5 * (room - GAP) if _tested(report) else room
    return Layout(label, figures, room - GAP - figures, _ranges(report), _span(report))


def _name(report: Report, cell: Cell) -> str:
    """Return a column's title, with the number of runs if it differs between cells."""
    several = len({len(cell.runs) for cell in report.cells}) > 1
    title = column_titles(report)[cell.column]
    return f"{title} (n\u00a0=\u00a0{len(cell.runs)})" if several else title


def _lines(report: Report, row: Key, width: float) -> list[Line]:
    looks = column_looks(report)
    return [
        Line(wrapped(_name(report, cell), width - 0.1), looks[cell.column], cell)
        for cell in _cells(report, row)
    ]


def _ranges(report: Report) -> dict[Key, tuple[float, float]]:
    """Return the range of each row's axis, in percent.

    All ranges are equally long, so that equal lengths are equal differences. If a common range is
    not much longer, all rows share it.
    """
    intervals = not _tested(report)
    values: dict[Key, list[float]] = {}
    for row in with_baseline(report):
        cells = _cells(report, row)
        ends = [_interval_of_mean(cell) or () for cell in cells] if intervals else []
        values[row] = [value for each in (*map(percents, cells), *ends) for value in each]
    limits = _limits(report)
    span = 1.1 * max(max(each) - min(each) for each in values.values()) or 1.0
    everything = [value for each in values.values() for value in each]
    low, high = min(everything), max(everything)
    if high - low < 1.6 * span:
        margin = 0.05 * (high - low) or 0.5
        return dict.fromkeys(values, within((low - margin, high + margin), limits))
    middles = {row: (min(each) + max(each)) / 2 for row, each in values.items()}
    return {
        row: within((middle - span / 2, middle + span / 2), limits)
        for row, middle in middles.items()
    }


def _limits(report: Report) -> tuple[float, float]:
    """Return the limits of the axes of figures, in percent."""
    return percent_limits(value for cell in report.cells for value in percents(cell))


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


def _interval_of_mean(cell: Cell) -> tuple[float, float] | None:
    """Return the 95 % interval of the mean in percent, by Student's t, within the limits.

    Returns None for fewer than three runs.
    """
    if len(cell.figures) < 3:
        return None
    error = statistics.stdev(percents(cell)) / len(cell.figures) ** 0.5
    reach = error * float(scipy.stats.t.ppf(1 - LEVEL / 2, len(cell.figures) - 1))
    least, most = percent_limits(percents(cell))
    return max(100 * cell.mean - reach, least), min(100 * cell.mean + reach, most)


def _row(
    sheet: Sheet,
    report: Report,
    lines: Sequence[Line],
    layout: Layout,
    shown: tuple[float, float],
    *,
    last: bool,
) -> bool:
    """Draw a row's panels and names; return whether an interval is cut at its panel's edge."""
    height = sum(line.height for line in lines)
    left = sheet.axes(layout.label, sheet.top, layout.figures, height)
    left.set_xlim(shown)
    numbered = last or len({*layout.ranges.values()}) > 1
    panels, cut = [(left, numbered, layout.figures, _limits(report))], False
    if layout.differences > 0:
        start = layout.label + layout.figures + GAP
        right = sheet.axes(start, sheet.top, layout.differences, height)
        right.set_xlim(layout.span)
        right.axvline(0, color=SOFT, linewidth=0.8)
        if report.equal_within:
            region = 100 * report.equal_within
            low, high = layout.span
            right.axvspan(max(-region, low), min(region, high), color=FAINT, linewidth=0)
        panels.append((right, last, layout.differences, UNLIMITED))
    below = 0.0
    for line in lines:
        middle = below + line.height / 2
        _runs(left, line, middle, interval=layout.differences <= 0)
        if layout.differences > 0 and line.cell.comparison:
            cut |= _difference(right, line, middle, layout.span)
            if (theirs := _published(report, line.cell)) is not None:
                right.plot(theirs, middle, **CROSS)
        sheet.name(layout.label - 0.08, sheet.top + middle, line.name)
        below += line.height
    for axes, numbered, width, limits in panels:
        axes.set(ylim=(height, 0), yticks=[])
        axes.spines["left"].set_visible(False)
        value_axis(axes.xaxis, max(2, round(width / 0.5)), limits)
        axes.tick_params(labelbottom=numbered)
    sheet.top += height + (0.19 if any(numbered for _, numbered, *_ in panels) else 0.06)
    return cut


def _runs(axes: Axes, line: Line, middle: float, *, interval: bool) -> None:
    """Draw a dot for each run, shifted if they overlap, and their mean."""
    inch = per_inch(axes)
    ends = _interval_of_mean(line.cell) if interval else None
    if ends:
        axes.plot(ends, (middle, middle), color=line.look.color, linewidth=0.9)
    placed: list[tuple[float, float]] = []
    for value in sorted(percents(line.cell)):
        x = value / inch
        near = {shift for other, shift in placed if abs(other - x) < 0.8 * DOT / 72}
        shift = next(s for s in SHIFTS if s not in near or s == SHIFTS[-1])
        placed.append((x, shift))
        style = line.look.marks(DOT, alpha=FADED, markeredgewidth=0, clip_on=False)
        axes.plot(value, middle + shift, **style)
    if len(placed) > 1:
        axes.plot(100 * line.cell.mean, middle, **MEAN)


SHIFTS = (0.0, 0.04, -0.04, 0.07, -0.07)  # inches


def _difference(axes: Axes, line: Line, middle: float, span: tuple[float, float]) -> bool:
    """Draw the difference to the baseline with its interval, and arrows where it is cut.

    Returns whether the interval is cut.
    """
    compared, cut = line.cell.comparison, False
    assert compared is not None
    if compared.test:
        ends = [100 * end for end in compared.test.interval]
        shown = [min(max(end, span[0]), span[1]) for end in ends]
        axes.plot(shown, (middle, middle), color=line.look.color, linewidth=1.4)
        for end, place, arrow in zip(ends, shown, "<>", strict=True):
            if end != place:
                cut = True
                axes.plot(
                    place, middle, arrow, color=line.look.color, markersize=ARROW, markeredgewidth=0
                )
    is_significant = compared.p_holm is not None and compared.p_holm < LEVEL
    face = line.look.color if is_significant else PAPER
    axes.plot(100 * compared.difference, middle, **line.look.marks(DIAMOND, markerfacecolor=face))
    return cut


def _published(report: Report, cell: Cell) -> float | None:
    """Return the paper's difference between the same two settings, in points, or None."""
    base = report.base(cell.row)
    if base is None or base.published is None or cell.published is None:
        return None
    return 100 * (cell.published - base.published)


def _axis_titles(sheet: Sheet, report: Report, layout: Layout) -> None:
    titles = [(layout.label, layout.figures, metric(report))]
    if layout.differences > 0:
        baseline = column_titles(report)[report.baseline or ()]
        start = layout.label + layout.figures + GAP
        titles.append((start, layout.differences, f"difference to {baseline}, points"))
    broken = [(left, width, wrapped(text, width)) for left, width, text in titles]
    for left, width, texts in broken:
        for number, text in enumerate(texts):
            sheet.text(left + width / 2, sheet.top + LINE * number, text, ha="center")
    sheet.top += LINE * max(len(texts) for _, _, texts in broken) + 0.08


def _legend(report: Report, cut: bool) -> list[tuple[list, str]]:
    dot = Look(INK, "o", ()).marks(DOT, alpha=FADED, markeredgewidth=0)
    counts = {len(cell.runs) for cell in report.cells}
    entries = [(key(dot), f"run ({runs_each(counts)})")]
    entries += [(key(MEAN), "mean")] if max(counts) > 1 else []
    line, diamond = {"color": INK, "linewidth": 1.4}, Look(INK, "D", ())
    if not _tested(report):
        intervals = any(_interval_of_mean(cell) for cell in report.cells)
        return entries + ([(key(line), "95 % interval of the mean")] if intervals else [])
    hollow = diamond.marks(DIAMOND, markerfacecolor=PAPER)
    entries.append((key(line, hollow), "difference, 95 % interval"))
    entries.append((key(diamond.marks(DIAMOND)), f"p (Holm) < {LEVEL:g}"))
    if any(_published(report, cell) is not None for cell in report.cells if cell.comparison):
        entries.append((key(CROSS), "difference in the paper"))
    if cut:
        arrow = Look(INK, ">", ()).marks(ARROW, markeredgewidth=0)
        entries.append((key(arrow), "the interval goes on"))
    if report.equal_within:
        region = {"color": FAINT, "linewidth": 7, "solid_capstyle": "butt"}
        points = f"{100 * report.equal_within:g} points"
        entries.append((key(region), f"practically equal: within {points}"))
    return entries
