"""Plot the sources of each comparison's variance: seeds, examples, or both together."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from ..significance import Shares
from ..table import Cell, Key, Report
from .drawing import (
    COLORS,
    INK,
    LINE,
    PAPER,
    Plot,
    Sheet,
    key,
    text_width,
    value_axis,
    wrapped,
)
from .looks import column_titles, row_title, sentence

PARTS = ("seeds", "examples", "both together")
TINTS = (1.0, 0.45, 0.15)  # dark to light, also distinct in black and white
MOST = 6  # maximum number of comparisons in an alternative text


def noise(report: Report) -> Plot | None:
    """Plot the shares of the variance of each difference to the baseline; None without shares."""
    rows: dict[Key, list[tuple[Cell, Shares]]] = {}
    for cell in report.cells:
        test = cell.comparison and cell.comparison.test
        if test and test.shares:
            rows.setdefault(cell.row, []).append((cell, test.shares))
    if not rows:
        return None
    columns = column_titles(report)
    words = [
        f"{row_title(report, row) + ', ' if row else ''}{columns[cell.column]}: "
        + ", ".join(f"{100 * s:.0f} % {part}" for s, part in zip(shares, PARTS, strict=True))
        for row, cells in rows.items()
        for cell, shares in cells
    ]
    shown = "where the noise of each difference comes from."
    return Plot(
        sentence(report.title, shown),
        f"{'; '.join(words[:MOST])}.",
        f"Shares of the variance of each difference to {columns[report.baseline or ()]}: what "
        "other seeds would change, what other test examples would, and what a run does by chance "
        "on an example, which more of either averages out.",
        lambda sheet: _draw(sheet, report, rows),
    )


def _draw(sheet: Sheet, report: Report, rows: dict[Key, list[tuple[Cell, Shares]]]) -> None:
    columns = column_titles(report)
    used = {cell.column for cells in rows.values() for cell, _ in cells}
    label = min(max(text_width(columns[column]) for column in used) + 0.1, 0.4 * sheet.width)
    width = sheet.width - label - 0.15
    for row, cells in rows.items():
        if title := row_title(report, row):
            sheet.lines(0.0, title, sheet.width, weight="bold")
        names = [wrapped(columns[cell.column], label - 0.1) for cell, _ in cells]
        heights = [LINE * len(name) + 0.07 for name in names]
        axes = sheet.axes(label, sheet.top, width, sum(heights))
        axes.set(xlim=(0, 100), ylim=(sum(heights), 0), yticks=[])
        axes.spines["left"].set_visible(False)
        top = 0.0
        for name, height, (_, shares) in zip(names, heights, cells, strict=True):
            _bar(axes, shares, top + height / 2, width)
            sheet.name(label - 0.08, sheet.top + top + height / 2, name)
            top += height
        value_axis(axes.xaxis, 4)
        last = row == [*rows][-1]
        axes.tick_params(labelbottom=last)
        sheet.top += sum(heights) + (0.19 if last else 0.06)
    sheet.text(label + width / 2, sheet.top, "share of the variance, %", ha="center")
    sheet.top += LINE + 0.08
    sheet.legend(_legend())


def _bar(axes: Axes, shares: Shares, middle: float, width: float) -> None:
    """Draw three parts from left to right, with their figures if there is room."""
    start = 0.0
    for share, tint in zip(shares, TINTS, strict=True):
        part = Rectangle(
            (100 * start, middle - 0.06),
            100 * share,
            0.12,
            facecolor=COLORS[0],
            alpha=tint,
            linewidth=0,
        )
        axes.add_patch(part)
        text = f"{100 * share:.0f}"
        if share * width > text_width(text) + 0.06:
            color = PAPER if tint == 1 else INK
            at = 100 * (start + share / 2), middle
            axes.text(*at, text, ha="center", va="center_baseline", size=7, color=color)
        start += share
    frame = Rectangle((0, middle - 0.06), 100, 0.12, fill=False, edgecolor=COLORS[0], linewidth=0.6)
    axes.add_patch(frame)


def _legend() -> Sequence[tuple[list[Line2D], str]]:
    return [
        (key({"color": COLORS[0], "alpha": tint, "linewidth": 7, "solid_capstyle": "butt"}), part)
        for part, tint in zip(PARTS, TINTS, strict=True)
    ]
