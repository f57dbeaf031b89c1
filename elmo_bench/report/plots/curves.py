"""Plot figures over a quantity that differs between runs, the layers' shares in mixes, and figures
over the epochs of a run.
"""

import statistics
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from elmo_bench.runs import MIX, NOTHING, Key

from .. import names
from ..aggregate import after_epochs
from ..grids import heads, with_baseline
from ..labels import titled
from ..table import Cell, Report, order
from .style import (
    BASELINE,
    DOTS,
    Look,
    Plot,
    column_titles,
    looks,
    metric,
    panels,
    panels_height,
    percent_axis,
    percents,
    row_title,
)

QUANTITIES = {  # config keys that give a curve -> title
    MIX: "by the layer that is read",
    "fraction": "by share of the training set",
    "elmo.l2": "by λ",
    "elmo.dropout": "by dropout of ELMo's vectors",
}
MIXES = {"uniform": "mean", "all": "mix"}  # of all layers: places beside the layers
Curve = dict[Hashable, Cell]  # cells by the values of a quantity; NOTHING: it has no effect there


def curve(report: Report, quantity: str) -> Plot | None:
    """Plot the figures over a config key, a panel for each row; None if the key does not vary."""
    drawn = _panels(report, quantity)
    if not drawn:
        return None
    number = len({column for curves in drawn.values() for column in curves})
    shown = f"{metric(report).removesuffix(', %')} {QUANTITIES[quantity]}, every run a dot."
    reading = "Dots: runs; line: through their means."
    if quantity == MIX:
        reading += " Layer 0 is the lowest; mean, mix: the plain and the learned mean of all."
    return Plot(
        titled(report.title, shown),
        reading,
        panels_height(len(drawn), number),
        lambda part: _draw(part, report, quantity, drawn),
    )


def _panels(report: Report, quantity: str) -> dict[Key, dict[Key, Curve]]:
    """Return the curves of each panel: both by their settings except the quantity."""
    if quantity not in report.keys:
        return {}
    grouped: dict[Key, dict[Key, Curve]] = defaultdict(lambda: defaultdict(dict))
    for row, cells in with_baseline(report).items():
        for column, cell in cells.items():
            panel, line = (
                _without(quantity, report.rows, row),
                _without(quantity, report.columns, column),
            )
            value = dict(zip(report.keys, cell.key, strict=True))[quantity]
            if (place := _place(cell, value, quantity)) is not None:
                grouped[panel][line][place] = cell
    return {
        panel: curves
        for panel, curves in sorted(grouped.items(), key=lambda item: order(item[0]))
        if any(len({*curve} - {NOTHING, *MIXES}) > 1 for curve in curves.values())
    }


def _without(quantity: str, keys: Iterable[str], values: Key) -> Key:
    return tuple(value for key, value in zip(keys, values, strict=True) if key != quantity)


def _place(cell: Cell, value: Hashable, quantity: str) -> Hashable:
    """Return the value of a quantity, of a mix of layers the layer's number; None for others."""
    if value in (NOTHING, "none"):
        return NOTHING
    if names.is_number(value) or (quantity == MIX and value in MIXES):
        return value
    layers = {layer for run in cell.runs for mix in run.mix.values() for layer in mix["layers"]}
    return min(layers) if quantity == MIX and len(layers) == 1 else None


def _draw(
    part: SubFigure, report: Report, quantity: str, drawn: Mapping[Key, Mapping[Key, Curve]]
) -> None:
    columns = sorted({column for curves in drawn.values() for column in curves}, key=order)
    keys = [key for key in report.columns if key != quantity]
    baseline = _without(quantity, report.columns, report.baseline) if report.baseline else None
    styles = looks(columns, baseline if keys else None)
    tasks = names.task_titles(report.runs)
    titles: dict[Key, str] = names.names(keys, columns, tasks) if keys else {(): ""}
    values = {value for curves in drawn.values() for curve in curves.values() for value in curve}
    ordered = sorted(values - {NOTHING}, key=lambda value: order((value,)))
    places = {value: place for place, value in enumerate(ordered)}
    rows = [key for key in report.rows if key != quantity]
    row_titles = [names.name(rows, row, tasks) if rows else "" for row in drawn]
    for axes, curves in zip(panels(part, row_titles), drawn.values(), strict=True):
        for column, curve in curves.items():
            _curve(axes, curve, places, styles[column] | {"label": titles[column]})
        axes.set_xticks([*places.values()], [_tick(quantity, value) for value in places])
        axes.tick_params(axis="x", labelrotation=90 if len(places) > 8 else 0)
        axes.set_xlabel("layer" if quantity == MIX else names.axis(quantity))
        axes.set_ylabel(
            metric(report, cells=[c for curve in curves.values() for c in curve.values()])
        )
        percent_axis(axes.yaxis)


def _tick(quantity: str, value: Any) -> str:
    return MIXES.get(value, str(value)) if quantity == MIX else names.value(quantity, value)


def _curve(axes: Axes, curve: Curve, places: Mapping[Hashable, int], look: Look) -> None:
    """Draw the runs, a line through their means and, where the quantity has no effect, across."""
    lines = {value: cell for value, cell in curve.items() if value not in (NOTHING, *MIXES)}
    ordered = sorted(lines, key=lambda value: order((value,)))
    line = look | {"marker": ""}
    axes.plot([places[v] for v in ordered], [100 * lines[v].mean for v in ordered], **line)
    for value, cell in curve.items():
        x, style = places.get(value, max(places.values())), look
        if value == NOTHING:
            style = BASELINE | {"label": names.BASELINE}
            axes.axhline(100 * cell.mean, color=BASELINE["color"], linestyle=":")
        axes.plot([x] * len(cell.runs), percents(cell), **style | DOTS)


def shares(report: Report) -> Plot | None:
    """Plot each layer's share in the learned mixes, a panel for each row; None without a mix."""
    drawn: dict[Key, dict[tuple[Key, str], dict[int, list[float]]]] = {}
    for row, cells in with_baseline(report).items():
        lines = {
            (column, place): layers
            for column, cell in cells.items()
            if cell.runs[0].settings.get(MIX) == "all"
            for place, layers in _shares(cell).items()
        }
        drawn |= {row: lines} if lines else {}
    if not drawn:
        return None
    return Plot(
        titled(report.title, "share of each layer in the learned mix, every run a dot."),
        "Dots: runs; line: through their means.",
        panels_height(len(drawn), len(column_titles(report))),
        lambda part: _draw_shares(part, report, drawn),
    )


def _shares(cell: Cell) -> dict[str, dict[int, list[float]]]:
    """Return each run's shares in percent, by the place of the mix and by layer."""
    by_place: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in cell.runs:
        for place, mix in run.mix.items():
            for layer, share in zip(mix["layers"], mix["shares"], strict=True):
                by_place[place][layer].append(100 * share)
    return by_place


def _draw_shares(
    part: SubFigure,
    report: Report,
    drawn: Mapping[Key, Mapping[tuple[Key, str], Mapping[int, Collection[float]]]],
) -> None:
    titles, ordered = (
        column_titles(report),
        sorted({line for lines in drawn.values() for line in lines}, key=str),
    )
    styles = looks(ordered, None)
    for axes, lines in zip(
        panels(part, [row_title(report, row) for row in drawn]), drawn.values(), strict=True
    ):
        for line, layers in lines.items():
            (column, place), look = line, styles[line]
            means = [statistics.fmean(values) for values in layers.values()]
            axes.plot([*layers], means, **look | {"marker": ""}, label=f"{titles[column]}, {place}")
            for layer, values in layers.items():
                axes.plot([layer] * len(values), [*values], **look | DOTS)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axes.set_xlabel("layer")
        axes.set_ylabel("share, %")
        axes.set_ylim(bottom=0)


def learning(report: Report) -> Plot | None:
    """Plot the figures on dev after each epoch, a panel for each row; None if no run has any."""
    drawn: dict[Key, dict[Key, list[dict[int, float]]]] = defaultdict(dict)
    for row, cells in with_baseline(report).items():
        for column in (column for column in heads(report) if column in cells):
            epochs = [after_epochs(run, report.metric) for run in cells[column].runs]
            if runs := [figures for figures in epochs if figures]:
                drawn[row][column] = runs
    if not drawn:
        return None
    shown = f"{metric(report, 'dev').removesuffix(', %')} after each epoch, a line for each run."
    return Plot(
        titled(report.title, shown),
        "",
        panels_height(len(drawn), len(column_titles(report))),
        lambda part: _draw_learning(part, report, drawn),
    )


def _draw_learning(
    part: SubFigure, report: Report, drawn: Mapping[Key, Mapping[Key, list[dict[int, float]]]]
) -> None:
    titles, cells = column_titles(report), with_baseline(report)
    styles = looks(titles, report.baseline)
    for axes, (row, courses) in zip(
        panels(part, [row_title(report, row) for row in drawn]), drawn.items(), strict=True
    ):
        for column, runs in courses.items():
            style = {"color": styles[column]["color"], "linewidth": 0.8, "label": titles[column]}
            for run in runs:
                axes.plot([*run], [100 * value for value in run.values()], **style)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        axes.set_xlabel("epoch")
        axes.set_ylabel(metric(report, "dev", cells[row].values()))
        percent_axis(axes.yaxis)
