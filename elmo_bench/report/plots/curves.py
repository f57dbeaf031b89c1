"""Plot scores over a setting or over epochs: a dot for each run, a line through the means."""

import math
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from elmo_bench.runs import MIX, NOTHING, Key

from .. import names
from ..depth import larger, layers_of
from ..labels import headed, labels_of
from ..learning import after_epochs
from ..table import Cell, Report, order
from . import style

ACROSS = 3  # panels side by side
HEIGHT = 2.3  # inches, of a panel with its titles
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
    curves = _by_value(report, quantity)
    if not curves:
        return None
    line_keys: dict[Key, None] = {}
    values = set[Hashable]()
    for by_line in curves.values():
        line_keys |= dict.fromkeys(by_line)
        for cell_of in by_line.values():
            values.update(cell_of)
    titles = names.names(_others(quantity, report.rows), curves, report.task_titles)
    labels = names.names(_others(quantity, report.columns), line_keys, report.task_titles)
    baseline = _without(quantity, report.columns, report.baseline) if report.baseline else ()
    looks = style.looks(line_keys, baseline or None)
    places = sorted(values - {NOTHING}, key=lambda value: order((value,)))
    panels: Panels = {}
    for row, by_line in curves.items():
        cells: list[Cell] = []
        lines: list[Line] = []
        for key, cell_of in by_line.items():
            cells += cell_of.values()
            lines += _lines(labels[key], looks[key], cell_of, places)
        panels[titles[row], style.figure_title(report, cells)] = lines
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
    return {row: by_line for row, by_line in grouped.items() if _has_curve(by_line)}


def _has_curve(by_line: Mapping[Key, Cells]) -> bool:
    """Whether a line has several values of the quantity, besides those that stand apart."""
    for cell_of in by_line.values():
        numbers = set(cell_of) - {NOTHING} - set(MIXES)
        if len(numbers) > 1:
            return True
    return False


def _others(quantity: str, keys: Iterable[str]) -> list[str]:
    return [key for key in keys if key != quantity]


def _without(quantity: str, keys: Iterable[str], values: Iterable[Hashable]) -> Key:
    return tuple(value for key, value in zip(keys, values, strict=True) if key != quantity)


def _value(cell: Cell, quantity: str, value: Hashable) -> Hashable:
    """Return a number, of a mix also its name in MIXES, else None; NOTHING without an encoder."""
    if value in (NOTHING, "none"):
        return NOTHING
    if names.is_number(value) or value in MIXES:
        return value
    layers = layers_of(cell)
    return min(layers) if quantity == MIX and len(layers) == 1 else None


def _axis(quantity: str, places: Sequence[Hashable]) -> tuple[str, list[str], str]:
    """Return the title and the ticks of the axis, and the caption."""
    ticks: list[str] = []
    if quantity != MIX:
        ticks += [names.value(quantity, place) for place in places]
        return names.axis(quantity), ticks, READING
    explained = ""
    for place in places:
        if place in MIXES:
            tick, explanation = MIXES[place]
            ticks.append(tick)
            explained += explanation
        else:
            ticks.append(str(place))
    return "layer", ticks, f"{READING} Layer 0 is the lowest{explained}."


def _lines(label: str, look: style.Look, cells: Cells, places: list[Hashable]) -> Iterator[Line]:
    """Yield the line of these cells, dots where all layers are read and, where the quantity has no
    effect, a dotted line across.
    """
    points: dict[int, list[float]] = {}
    apart: dict[int, list[float]] = {}
    for x, place in enumerate(places):
        if place in cells:
            on = apart if place in MIXES else points
            on[x] = style.percents(cells[place])
    if points or apart:
        yield Line(label, look, points)
        yield Line("", look | {"linestyle": "none"}, apart)
    if NOTHING in cells:
        ends = dict.fromkeys((0, len(places) - 1), style.percents(cells[NOTHING]))
        if cells[NOTHING].runs[0].is_baseline:
            yield Line(names.BASELINE, style.BASELINE | {"linestyle": ":"}, ends)
        else:
            yield Line(label, look | {"linestyle": ":"}, ends)


def learning(report: Report) -> style.Plot | None:
    """Plot the figures on dev after each epoch, a panel for each row; None if no run has any."""
    panels: Panels = defaultdict(list)
    looks = style.looks(report.heads, report.baseline)
    labels = labels_of(report).columns
    titles = style.row_titles(report)
    for row, cells in report.by_row.items():
        key = titles[row], style.figure_title(report, cells.values(), "dev")
        for column in report.heads:
            points = _after_epochs(report, cells[column]) if column in cells else {}
            if points:
                panels[key].append(Line(labels[column], looks[column], points))
    shown = f"{style.figure_title(report, report.cells, 'dev')} after each epoch"
    return _plot(headed(report, shown), READING, panels, "epoch", []) if panels else None


def _after_epochs(report: Report, cell: Cell) -> Points:
    """Return each run's figure on dev in percent, by the epoch."""
    points: dict[int, list[float]] = defaultdict(list)
    for run in cell.runs:
        for epoch, figure in after_epochs(run, report.metric).items():
            points[epoch].append(100 * figure)
    return points


def _plot(title: str, reading: str, panels: Panels, axis: str, ticks: list[str]) -> style.Plot:
    """Return the plot of the panels; without `ticks`, places on the axis are numbers."""
    labels = set[str]()
    for lines in panels.values():
        labels.update(line.label for line in lines)
    height = HEIGHT * math.ceil(len(panels) / ACROSS) + style.LINE * (2 + len(labels) / 2)
    what = f"{title}, every run a dot."
    return style.Plot(what, reading, height, lambda part: _draw(part, panels, axis, ticks))


def _draw(part: SubFigure, panels: Panels, axis: str, ticks: Sequence[str]) -> None:
    across = min(len(panels), ACROSS)
    drawn = part.subplots(math.ceil(len(panels) / across), across, squeeze=False).flat
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
