"""Plot figures over a quantity that differs between runs, and over the epochs: every run is a dot,
the line goes through the means.
"""

import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from elmo_bench.runs import MIX, NOTHING, Key

from .. import names
from ..aggregate import after_epochs
from ..labels import titled
from ..table import Cell, Report, order
from .style import (
    BASELINE,
    DOTS,
    LINE,
    Look,
    Plot,
    column_titles,
    looks,
    metric,
    panel_axes,
    percent_axis,
    percents,
    row_title,
)

ACROSS, HEIGHT = 3, 2.3  # panels side by side, and the height of one in inches, with its titles
READING = "Dots: runs; line: through their means."
QUANTITIES = {  # config keys that give a curve -> title
    MIX: "by the layer that is read",
    "fraction": "by share of the training set",
    "elmo.l2": "by λ",
    "elmo.dropout": "by dropout of ELMo's vectors",
}
MIXES: dict[Hashable, str] = {
    "uniform": "mean",
    "all": "mix",
}  # of all layers: places beside the layers
Points = dict[int, list[float]]  # each run's value, by its place on the axis


class Line(NamedTuple):
    """A line through the means of `points`, runs `apart` from it, or a line `across` the panel."""

    label: str
    look: Look
    points: Points
    apart: Points | None = None
    across: Sequence[float] = ()


class Panel(NamedTuple):
    """Lines on the same axes."""

    title: str
    unit: str
    lines: list[Line]


def curve(report: Report, quantity: str) -> Plot | None:
    """Plot the figures over a config key, a panel for each row; None if the key does not vary."""
    curves = _by_value(report, quantity)
    if not curves:
        return None
    tasks = names.task_titles(report.runs)
    rows, columns = (
        [key for key in keys if key != quantity] for keys in (report.rows, report.columns)
    )
    lines = sorted({line for by_line in curves.values() for line in by_line}, key=order)
    baseline = _without(quantity, report.columns, report.baseline) if report.baseline else None
    styles = looks(lines, baseline if columns else None)
    labels = names.names(columns, lines, tasks) if columns else {}
    cells = [cells for by_line in curves.values() for cells in by_line.values()]
    values = sorted({v for each in cells for v in each} - {NOTHING}, key=lambda v: order((v,)))
    places = {value: place for place, value in enumerate(values)}
    panels = [
        Panel(
            names.name(rows, row, tasks) if rows else "",
            metric(report, cells=[cell for each in by_line.values() for cell in each.values()]),
            [
                line
                for key, each in by_line.items()
                for line in _lines(labels.get(key, ""), styles[key], each, places)
            ],
        )
        for row, by_line in curves.items()
    ]
    shown = f"{metric(report).removesuffix(', %')} {QUANTITIES[quantity]}, every run a dot."
    is_mix, axis = quantity == MIX, "layer" if quantity == MIX else names.axis(quantity)
    ticks = [MIXES.get(v, str(v)) if is_mix else names.value(quantity, v) for v in values]
    mixes = " Layer 0 is the lowest; mean, mix: the plain and the learned mean of all layers."
    return _plot(titled(report.title, shown), READING + mixes * is_mix, panels, axis, ticks)


def _by_value(report: Report, quantity: str) -> dict[Key, dict[Key, dict[Hashable, Cell]]]:
    """Return cells by the other keys of rows, by those of columns, and by their value."""
    if quantity not in report.keys:
        return {}
    grouped: dict[Key, dict[Key, dict[Hashable, Cell]]] = defaultdict(lambda: defaultdict(dict))
    for row, cells in report.by_row.items():
        for column, cell in cells.items():
            value = _value(cell, quantity, cell.key[report.keys.index(quantity)])
            if value is not None:
                by_line = grouped[_without(quantity, report.rows, row)]
                by_line[_without(quantity, report.columns, column)][value] = cell
    return {
        row: by_line
        for row, by_line in sorted(grouped.items(), key=lambda item: order(item[0]))
        if any(len({*cells} - {NOTHING, *MIXES}) > 1 for cells in by_line.values())
    }


def _without(quantity: str, keys: Iterable[str], values: Key) -> Key:
    return tuple(value for key, value in zip(keys, values, strict=True) if key != quantity)


def _value(cell: Cell, quantity: str, value: Hashable) -> Hashable:
    """Return a number, of a mix also its name in MIXES, else None; NOTHING without an encoder."""
    if value in (NOTHING, "none"):
        return NOTHING
    if names.is_number(value) or value in MIXES:
        return value
    layers = {layer for run in cell.runs for mix in run.mix.values() for layer in mix["layers"]}
    return min(layers) if quantity == MIX and len(layers) == 1 else None


def _lines(
    label: str, look: Look, cells: Mapping[Hashable, Cell], places: Mapping[Hashable, int]
) -> Iterator[Line]:
    """Yield the line of these cells and, where the quantity has no effect, one across."""
    figures = {value: percents(cells[value]) for value in places if value in cells}
    points = {places[value]: each for value, each in figures.items() if value not in MIXES}
    apart = {places[value]: each for value, each in figures.items() if value in MIXES}
    if figures:
        yield Line(label, look, points, apart)
    if NOTHING in cells:
        yield Line(names.BASELINE, BASELINE, {}, across=percents(cells[NOTHING]))


def learning(report: Report) -> Plot | None:
    """Plot the figures on dev after each epoch, a panel for each row; None if no run has any."""
    panels, styles = [], looks(report.heads, report.baseline)
    for row, cells in report.by_row.items():
        lines = []
        for column in (column for column in report.heads if column in cells):
            points: Points = defaultdict(list)
            for run in cells[column].runs:
                for epoch, figure in after_epochs(run, report.metric).items():
                    points[epoch].append(100 * figure)
            if points:
                lines.append(Line(column_titles(report)[column], styles[column], points))
        if lines:
            unit = metric(report, "dev", cells.values())
            panels.append(Panel(row_title(report, row), unit, lines))
    shown = f"{metric(report, 'dev').removesuffix(', %')} after each epoch, every run a dot."
    return _plot(titled(report.title, shown), READING, panels, "epoch") if panels else None


def _plot(
    title: str, reading: str, panels: Sequence[Panel], axis: str, ticks: Sequence[str] = ()
) -> Plot:
    """Return the plot of the panels; without `ticks`, places on the axis are numbers."""
    height = HEIGHT * -(-len(panels) // ACROSS)
    labels = {line.label for panel in panels for line in panel.lines}
    return Plot(
        title,
        reading,
        height + LINE * (2 + len(labels) / 2),
        lambda part: _draw(part, panels, axis, ticks),
    )


def _draw(part: SubFigure, panels: Sequence[Panel], axis: str, ticks: Sequence[str]) -> None:
    drawn = panel_axes(part, [panel.title for panel in panels], ACROSS)
    for axes, panel in zip(drawn, panels, strict=True):
        for line in panel.lines:
            points = dict(sorted(line.points.items()))
            means = [statistics.fmean(values) for values in points.values()]
            if line.across:
                mean = statistics.fmean(line.across)
                axes.axhline(mean, color=line.look["color"], linestyle=":", label=line.label)
                points = {len(ticks) - 1: [*line.across]}
            else:
                axes.plot([*points], means, **line.look | {"marker": ""}, label=line.label)
            for x, values in (points | (line.apart or {})).items():
                axes.plot([x] * len(values), values, **line.look | DOTS)
        if ticks:
            axes.set_xticks(range(len(ticks)), ticks, rotation=90 if len(ticks) > 8 else 0)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axes.set_xlabel(axis)
        axes.set_ylabel(panel.unit)
        percent_axis(axes.yaxis)
