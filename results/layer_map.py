"""Plot which layers help which task: a map of rows by layers, ruled out layers crossed."""

from collections.abc import Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.patches import Rectangle

from elmo_bench.report import Report
from elmo_bench.report.comparison import compared
from elmo_bench.report.depth import depths, layers_of
from elmo_bench.report.labels import labels_of
from elmo_bench.report.names import points
from elmo_bench.report.plots import style
from elmo_bench.report.table import Cell
from elmo_bench.runs import Key

MIX = "mix"
TITLE = "{}: the score with each layer alone, and with the mix of all, on {}."
READING = (
    "Each cell: the mean score, percent; below it the difference to the best single layer of the "
    "row and its 95 % interval. The darker, the nearer to the best; framed: the best layer. "
    "Crossed: ruled out as the best (all rows together 95 %). The mix is not among the layers of "
    "which one is the best."
)
SHADE = (0.0, 0.447, 0.698)  # the first of style.COLORS


class Square(NamedTuple):
    """A cell of the map."""

    head: str  # the layer, or the mix
    mean: float
    difference: float  # to the row's best layer
    interval: tuple[float, float] | None
    is_best: bool
    is_ruled_out: bool


def layer_map(report: Report, kind: str) -> bytes:
    """Return the plot as a file, SVG or (.pdf) PDF; raises ValueError without rows of layers."""
    rows = squares(report)
    if not rows:
        raise ValueError(f"{report.title}: no row has several layers with five runs or more")
    plot = style.Plot(
        TITLE.format(report.title, report.split_title),
        READING,
        style.LINE * (3.2 * len(rows) + 3),
        lambda part: _draw(part, report, rows),
    )
    if kind == ".pdf":
        return style.pdf([plot])
    file = style.svg([plot]).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return file.encode()


def squares(report: Report) -> dict[Key, list[Square]]:
    """Return the squares of each row that has several single layers, the mix last."""
    by_row = {}
    for row, depth in depths(report).items():
        layers: dict[int, Cell] = {}
        mixes: list[Cell] = []
        for cell in report.by_row[row].values():
            numbers = layers_of(cell)
            if len(numbers) == 1:
                layers[numbers.pop()] = cell
            elif numbers:
                mixes.append(cell)
        best = layers[depth.highest]
        of_row = []
        for layer in sorted(layers):
            is_ruled_out = layer not in depth.candidates
            of_row.append(_square(report, str(layer), layers[layer], best, is_ruled_out))
        for cell in mixes:
            of_row.append(_square(report, MIX, cell, best, False))
        by_row[row] = of_row
    return by_row


def _square(report: Report, head: str, cell: Cell, best: Cell, is_ruled_out: bool) -> Square:
    if cell is best:
        return Square(head, cell.mean, 0.0, None, True, False)
    comparison = compared(cell.runs, best.runs, report.metric, report.split)
    interval = comparison.test.interval if comparison.test else None
    return Square(head, cell.mean, comparison.difference, interval, False, is_ruled_out)


def _draw(part: SubFigure, report: Report, rows: dict[Key, list[Square]]) -> None:
    axes = part.subplots()
    labels = labels_of(report)
    numbers: set[int] = set()
    for row in rows.values():
        numbers.update(int(square.head) for square in row if square.head != MIX)
    heads = [*map(str, sorted(numbers)), MIX]
    for y, row in enumerate(rows.values()):
        lowest = min(square.difference for square in row)
        for square in row:
            _draw_square(axes, heads.index(square.head), y, square, lowest)
    axes.set_xticks(range(len(heads)), [f"layer {head}" if head != MIX else MIX for head in heads])
    names = [style.short(", ".join(labels.rows[row]), 18) for row in rows]
    axes.set_yticks(range(len(rows)), names)
    axes.set_xlim(-0.5, len(heads) - 0.5)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(visible=False)


def _draw_square(axes: Axes, x: int, y: int, square: Square, lowest: float) -> None:
    nearness = 1.0 if not lowest else 1 - min(square.difference, 0.0) / lowest
    edge = style.INK if square.is_best else style.PAPER
    corner = x - 0.46, y - 0.44
    shade = Rectangle(corner, 0.92, 0.88, facecolor=(*SHADE, 0.05 + 0.4 * nearness), edgecolor=edge)
    axes.add_patch(shade)
    lines = [f"{100 * square.mean:.1f}"]
    if square.interval is not None:
        low, high = square.interval
        lines.append(points(square.difference, signed=True))
        lines.append(f"{points(low, signed=True)} to {points(high, signed=True)}")
    axes.text(x, y, "\n".join(lines), ha="center", va="center", fontsize=6.5, zorder=3)
    if square.is_ruled_out:
        ends: Sequence[float] = (y - 0.44, y + 0.44)
        for sides in ((x - 0.46, x + 0.46), (x + 0.46, x - 0.46)):
            axes.plot(sides, ends, color=style.COLORS[1], linewidth=1, alpha=0.6)
