"""Plot the sources of each comparison's variance: seeds, examples, or both together."""

from matplotlib.figure import SubFigure

from ..significance import Shares
from ..table import Cell, Key, Report
from .style import (
    COLORS,
    INK,
    LINE,
    PAPER,
    Plot,
    column_titles,
    legend,
    row_title,
    sentence,
    short,
    value_axis,
)

PARTS = ("seeds", "examples", "both together")
TINTS = (1.0, 0.45, 0.15)  # dark to light, also distinct in black and white
ROOM = 8  # percent; narrower parts have no figure


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
    return Plot(
        sentence(report.title, "where the noise of each difference comes from."),
        f"Shares of the variance of each difference to {columns[report.baseline or ()]}: what "
        "other seeds would change, what other test examples would, and what a run does by chance "
        "on an example, which more of either averages out.",
        LINE * (sum(len(cells) + 1.5 for cells in rows.values()) + 4),
        lambda part: _draw(part, report, rows),
    )


def _draw(part: SubFigure, report: Report, rows: dict[Key, list[tuple[Cell, Shares]]]) -> None:
    columns = column_titles(report)
    heights = [len(cells) + 0.5 for cells in rows.values()]
    panels = part.subplots(len(rows), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    for axes, (row, cells) in zip(panels, rows.items(), strict=True):
        axes.set_title(short(row_title(report, row), 100))
        axes.set_yticks(range(len(cells)), [short(columns[cell.column]) for cell, _ in cells])
        starts = [0.0] * len(cells)
        for number, tint in enumerate(TINTS):
            widths = [100 * shares[number] for _, shares in cells]
            bars = axes.barh(range(len(cells)), widths, 0.6, starts, color=COLORS[0], alpha=tint)
            texts = [f"{width:.0f}" if width > ROOM else "" for width in widths]
            color = PAPER if tint == 1 else INK
            axes.bar_label(bars, texts, label_type="center", size=7, color=color)
            starts = [start + width for start, width in zip(starts, widths, strict=True)]
        axes.set(xlim=(0, 100), ylim=(len(cells) - 0.4, -0.6))
        axes.spines["left"].set_visible(False)
        value_axis(axes.xaxis, 4)
    panels[-1].set_xlabel("share of the variance, %")
    bar = {"color": COLORS[0], "linewidth": 7, "solid_capstyle": "butt"}
    legend(part, [(bar | {"alpha": tint}, name) for tint, name in zip(TINTS, PARTS, strict=True)])
