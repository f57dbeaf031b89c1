"""Plot scores over a setting or over epochs: a dot for each run, a line through the means."""

import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from elmo_bench.runs import MIX, NOTHING, Key

from .. import names
from ..aggregate import after_epochs
from ..depth import larger
from ..grids import headed, labels_of
from ..table import Cell, Report, order
from . import style

ACROSS, HEIGHT = 3, 2.3  # panels side by side, and the height of one in inches, with its titles
READING = "Dots: runs; line: through their means."
QUANTITIES = {  # config keys that give a curve -> title of the section, and of the curve
    MIX: ("Layers (the paper's Figure 2)", "by the layer that is read"),
    "fraction": ("Sample efficiency (the paper's Figure 1)", "by share of the training set"),
    "elmo.l2": ("The penalty on the mix", "by λ"),
    "elmo.dropout": ("Dropout on ELMo's vectors", "by dropout of ELMo's vectors"),
}
# What reads all layers stands beside the single ones: its name there, and what it is.
MIXES: dict[Hashable, tuple[str, str]] = {
    "uniform": ("mean", "; mean: the plain mean of all layers"),
    "all": ("mix", "; mix: the learned mean of all layers"),
}
Points = Mapping[int, list[float]]  # each run's value, by its place on the axis
Cells = dict[Hashable, Cell]  # by the value of the quantity


class Line(NamedTuple):
    """Runs as dots, with a line through their means unless its look has none."""

    label: str
    look: style.Look
    points: Points


Panels = dict[tuple[str, str], list[Line]]  # by their titles, and what their figures are


def curve(report: Report, quantity: str) -> style.Plot | None:
    """Plot the figures over a config key, a panel for each row; None if the key does not vary."""
    if not (curves := _by_value(report, quantity)):
        return None
    tasks, both = names.task_titles(report.runs), (report.rows, report.columns)
    rows, columns = ([key for key in keys if key != quantity] for keys in both)
    keys = dict.fromkeys(key for by_line in curves.values() for key in by_line)
    titles, labels = names.names(rows, curves, tasks), names.names(columns, keys, tasks)
    baseline = _without(quantity, report.columns, report.baseline) if report.baseline else ()
    looks = style.looks(keys, baseline or None)
    values = {v for by_line in curves.values() for cells in by_line.values() for v in cells}
    places = sorted(values - {NOTHING}, key=lambda value: order((value,)))
    panels: Panels = {}
    for row, by_line in curves.items():
        cells = [cell for each in by_line.values() for cell in each.values()]
        lines = [_lines(labels[key], looks[key], each, places) for key, each in by_line.items()]
        figure = style.figure_title(report, cells)
        panels[titles[row], figure] = [*chain.from_iterable(lines)]
    axis, ticks, reading = _axis(quantity, places)
    shown = f"{style.figure_title(report, report.cells)} {QUANTITIES[quantity][1]}"
    return _plot(headed(report, shown), reading, panels, axis, ticks)


def _by_value(report: Report, quantity: str) -> dict[Key, dict[Key, Cells]]:
    """Return cells by the other keys of rows, by those of columns, and by their value."""
    if quantity not in report.keys:
        return {}
    grouped: dict[Key, dict[Key, Cells]] = defaultdict(lambda: defaultdict(dict))
    for row, cells in report.by_row.items():
        for column, cell in cells.items():
            value = _value(cell, quantity, cell.key[report.keys.index(quantity)])
            if value is not None:
                by_line = grouped[_without(quantity, report.rows, row)]
                line = by_line[_without(quantity, report.columns, column)]
                line[value] = larger(cell, line.get(value))
    return {
        row: by_line
        for row, by_line in grouped.items()
        if any(len({*cells} - {NOTHING, *MIXES}) > 1 for cells in by_line.values())
    }


def _without(quantity: str, keys: Iterable[str], values: Iterable[Hashable]) -> Key:
    return tuple(value for key, value in zip(keys, values, strict=True) if key != quantity)


def _value(cell: Cell, quantity: str, value: Hashable) -> Hashable:
    """Return a number, of a mix also its name in MIXES, else None; NOTHING without an encoder."""
    if value in (NOTHING, "none"):
        return NOTHING
    if names.is_number(value) or value in MIXES:
        return value
    layers = {layer for run in cell.runs for mix in run.mix.values() for layer in mix["layers"]}
    return min(layers) if quantity == MIX and len(layers) == 1 else None


def _axis(quantity: str, places: Sequence[Hashable]) -> tuple[str, list[str], str]:
    """Return the title and the ticks of the axis, and the caption."""
    if quantity != MIX:
        return names.axis(quantity), [names.value(quantity, each) for each in places], READING
    ticks = [MIXES[each][0] if each in MIXES else str(each) for each in places]
    mixes = "".join(MIXES[each][1] for each in places if each in MIXES)
    return "layer", ticks, f"{READING} Layer 0 is the lowest{mixes}."


def _lines(label: str, look: style.Look, cells: Cells, places: list[Hashable]) -> Iterator[Line]:
    """Yield the line of these cells, dots where all layers are read and, where the quantity has no
    effect, a dotted line across.
    """
    points = {x: style.percents(cells[each]) for x, each in enumerate(places) if each in cells}
    if points:
        apart = {x: points.pop(x) for x in [*points] if places[x] in MIXES}
        yield Line(label, look, points)
        yield Line("", look | {"linestyle": "none"}, apart)
    if NOTHING in cells:
        ends = dict.fromkeys((0, len(places) - 1), style.percents(cells[NOTHING]))
        if cells[NOTHING].runs[0].is_baseline:
            label, look = names.BASELINE, style.BASELINE
        yield Line(label, look | {"linestyle": ":"}, ends)


def learning(report: Report) -> style.Plot | None:
    """Plot the figures on dev after each epoch, a panel for each row; None if no run has any."""
    panels: Panels = defaultdict(list)
    looks, labels = style.looks(report.heads, report.baseline), labels_of(report).columns
    titles = style.row_titles(report)
    for row, cells in report.by_row.items():
        key = titles[row], style.figure_title(report, cells.values(), "dev")
        for column in (column for column in report.heads if column in cells):
            points: dict[int, list[float]] = defaultdict(list)
            for run in cells[column].runs:
                for epoch, figure in after_epochs(run, report.metric).items():
                    points[epoch].append(100 * figure)
            if points:
                panels[key].append(Line(labels[column], looks[column], points))
    shown = f"{style.figure_title(report, report.cells, 'dev')} after each epoch"
    return _plot(headed(report, shown), READING, panels, "epoch", []) if panels else None


def _plot(title: str, reading: str, panels: Panels, axis: str, ticks: list[str]) -> style.Plot:
    """Return the plot of the panels; without `ticks`, places on the axis are numbers."""
    labels = {line.label for lines in panels.values() for line in lines}
    height = HEIGHT * -(-len(panels) // ACROSS) + style.LINE * (2 + len(labels) / 2)
    what = f"{title}, every run a dot."
    return style.Plot(what, reading, height, lambda part: _draw(part, panels, axis, ticks))


def _draw(part: SubFigure, panels: Panels, axis: str, ticks: Sequence[str]) -> None:
    across = min(len(panels), ACROSS)
    drawn = part.subplots(-(-len(panels) // across), across, squeeze=False).flat
    for spare in drawn[len(panels) :]:
        spare.set_axis_off()
    for axes, ((title, figure), lines) in zip(drawn, panels.items(), strict=False):
        for label, look, points in lines:
            places = sorted(points)
            means = [statistics.fmean(points[x]) for x in places]
            axes.plot(places, means, **look | {"marker": ""}, label=label)
            for x, values in points.items():
                axes.plot([x] * len(values), values, **look | style.DOTS)
        if ticks:
            axes.set_xticks(range(len(ticks)), ticks, rotation=90 if len(ticks) > 8 else 0)
        else:
            axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axes.set(title=style.short(title, 40), xlabel=axis, ylabel=f"{figure}, %")
        style.percent_axis(axes.yaxis)
