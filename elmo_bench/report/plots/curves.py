"""Plot figures over a quantity that differs between runs, and over the epochs of a run."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import SubFigure
from matplotlib.ticker import MaxNLocator

from elmo_bench.runs import NOTHING, Key

from .. import names
from ..aggregate import after_epochs, best_epoch
from ..grids import with_baseline
from ..labels import titled
from ..table import Cell, Report, order
from .style import (
    FADED,
    INK,
    LINE,
    PLAIN,
    RUN,
    Look,
    Plot,
    column_looks,
    column_titles,
    grid_axes,
    legend,
    legend_height,
    look,
    metric,
    percents,
    row_title,
    runs_each,
    short,
    value_axis,
)

# Config keys that give a curve -> scale of the axis; None means equally spaced values.
SCALES: dict[str, Callable[[float], float] | None] = {
    "fraction": math.log10,
    "elmo.l2": None,
    "elmo.dropout": float,
}
ACROSS = 3  # panels side by side
HEIGHT = 1.9  # inches; of a panel


class Curve(NamedTuple):
    """Cells by the values of a quantity, in order; a baseline without the quantity has "-"."""

    title: str
    look: Look
    cells: dict[Hashable, Cell]


def curve(report: Report, quantity: str) -> Plot | None:
    """Plot the figures over a config key, a panel for each row; None if the key does not vary."""
    panels = _panels(report, quantity)
    if not panels:
        return None
    axis = names.axis(quantity)
    shown = f"{metric(report).removesuffix(', %')} by {axis}, every run a dot."
    return Plot(
        titled(report.title, shown),
        "Dots: runs; line: through their means.",
        _height(len(panels), len(report.cells)),
        lambda part: _draw_curves(part, report, quantity, panels),
    )


def _panels(report: Report, quantity: str) -> dict[str, list[Curve]]:
    """Return the curves of each panel, by its title.

    A panel has the cells that agree in all row keys except the quantity, and a curve for each
    column. Cells without the quantity are added to panels with a curve.
    """
    if quantity not in (keys := report.keys):
        return {}
    titles = names.task_titles(report.runs)
    across = [key for key in report.columns if key not in (quantity, "task.name")]
    down = [key for key in keys if key not in (quantity, *across)]
    grouped: dict[Key, dict[Key, dict[Hashable, Cell]]] = defaultdict(lambda: defaultdict(dict))
    for cell in report.cells:
        values = dict(zip(keys, cell.key, strict=True))
        value = values[quantity]
        if value == NOTHING or names.is_number(value):
            row, column = (tuple(values[key] for key in part) for part in (down, across))
            grouped[row][column][value] = cell
    columns = sorted({column for group in grouped.values() for column in group}, key=order)
    looks = _looks(report, across, columns)
    panels = {}
    for row, group in sorted(grouped.items(), key=lambda item: order(item[0])):
        if any(len(cells) > 1 for cells in group.values()):
            panels[names.name(down, row, titles) if down else ""] = [
                Curve(
                    names.name(across, column, titles) if across else "",
                    looks[column],
                    dict(sorted(group[column].items(), key=lambda item: order((item[0],)))),
                )
                for column in columns
                if len(group.get(column, ())) > 1 or NOTHING in group.get(column, ())
            ]
    return panels


def _looks(report: Report, across: Sequence[str], columns: Sequence[Key]) -> dict[Key, Look]:
    """Return the styles of the columns, with the baseline in grey, as in the other figures."""
    base = dict(zip(report.columns, report.baseline or (), strict=False))
    baseline = tuple(base.get(key, "") for key in across)
    other_columns = [column for column in columns if not across or column != baseline]
    return {baseline: PLAIN} | {column: look(place) for place, column in enumerate(other_columns)}


def _height(panels: int, entries: int) -> float:
    return (HEIGHT + 2 * LINE) * -(-panels // ACROSS) + legend_height(min(entries, 8) + 2)


def _draw_curves(
    part: SubFigure, report: Report, quantity: str, panels: Mapping[str, Sequence[Curve]]
) -> None:
    values = {value for curves in panels.values() for each in curves for value in each.cells}
    numbers = sorted(value for value in values if names.is_number(value))
    scale = SCALES.get(quantity)
    if scale is math.log10 and numbers[0] <= 0:
        scale = None
    xs: dict[Hashable, float] = {
        value: scale(value) if scale else float(place) for place, value in enumerate(numbers)
    }
    axes_of = grid_axes(part, len(panels), min(len(panels), ACROSS))
    for axes, (title, curves) in zip(axes_of, panels.items(), strict=True):
        axes.set_title(short(title, 40))
        cells = [cell for each in curves for cell in each.cells.values()]
        axes.set_ylabel(metric(report, cells=cells))
        for each in curves:
            _curve(axes, each, xs)
        axes.set_xticks([*xs.values()], [names.value(quantity, value) for value in xs])
        axes.set_xlabel(names.axis(quantity))
        value_axis(axes.yaxis, 5)
    by_title = {each.title: each for curves in panels.values() for each in curves}
    counts = {len(cell.runs) for each in by_title.values() for cell in each.cells.values()}
    entries = [
        (each.look.line(marker=each.look.marker), title)
        for title, each in by_title.items()
        if title
    ]
    entries.append((RUN.marks(alpha=FADED), f"run ({runs_each(counts)})"))
    legend(part, [*entries, ({"color": INK}, "mean")])


def _curve(axes: Axes, each: Curve, places: Mapping[Hashable, float]) -> None:
    cells = {places[value]: cell for value, cell in each.cells.items() if value in places}
    if cells:
        axes.plot([*cells], [100 * cell.mean for cell in cells.values()], **each.look.line())
    if NOTHING in each.cells:  # the quantity has no effect there, so the line is horizontal
        cell = each.cells[NOTHING]
        axes.axhline(100 * cell.mean, **each.look.line(linewidth=1.0))
        cells[max(places.values())] = cell
    for x, cell in cells.items():
        axes.plot([x] * len(cell.runs), percents(cell), **each.look.marks(alpha=FADED))


def learning(report: Report) -> Plot | None:
    """Plot the figures on dev after each epoch, a panel for each row; None if no run has any."""
    panels: dict[Key, list[Course]] = defaultdict(list)
    titles = column_titles(report)
    for row, cells in with_baseline(report).items():
        for column in (column for column in titles if column in cells):
            runs = {str(run.seed): run for run in cells[column].runs}
            epochs = {seed: after_epochs(run, report.metric) for seed, run in runs.items()}
            if lines := {seed: values for seed, values in epochs.items() if values}:
                kept = {seed: best_epoch(runs[seed], lines[seed]) for seed in lines}
                panels[row].append(Course(column, lines, kept))
    if not panels:
        return None
    shown = f"{metric(report, 'dev').removesuffix(', %')} after each epoch, a line for each run."
    return Plot(
        titled(report.title, shown),
        "Thin: runs; thick: their mean, as far as all of them go; dot: a run's best epoch.",
        _height(len(panels), len(titles)),
        lambda part: _draw_learning(part, report, panels),
    )


class Course(NamedTuple):
    """A cell's runs, by seed: the figure after each epoch, a fraction of 1, and the best epoch."""

    column: Key
    runs: dict[str, dict[int, float]]
    best: dict[str, int]


def _draw_learning(part: SubFigure, report: Report, panels: Mapping[Key, Sequence[Course]]) -> None:
    looks, titles, cells = column_looks(report), column_titles(report), with_baseline(report)
    axes_of = grid_axes(part, len(panels), min(len(panels), ACROSS))
    for axes, (row, courses) in zip(axes_of, panels.items(), strict=True):
        axes.set_title(short(row_title(report, row), 40))
        axes.set_ylabel(metric(report, "dev", [*cells[row].values()]))
        for course in courses:
            _course(axes, course, looks[course.column])
        axes.set_xlabel("epoch")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        value_axis(axes.yaxis, 5)
    drawn = {course.column for courses in panels.values() for course in courses}
    entries = [(looks[column].line(), title) for column, title in titles.items() if column in drawn]
    entries.append(({"color": INK, "linewidth": 0.6, "alpha": FADED}, "run"))
    entries.append((RUN.marks(), "its best epoch"))
    if any(len(course.runs) > 1 for courses in panels.values() for course in courses):
        entries.append(({"color": INK, "linewidth": 1.8}, "mean"))
    legend(part, entries)


def _course(axes: Axes, course: Course, look: Look) -> None:
    for seed, run in course.runs.items():
        figures = [100 * value for value in run.values()]
        axes.plot([*run], figures, color=look.color, linewidth=0.6, alpha=FADED)
        axes.plot(course.best[seed], 100 * run[course.best[seed]], **look.marks())
    if len(course.runs) > 1:
        shared = sorted(set.intersection(*map(set, course.runs.values())))
        means = [
            100 * statistics.fmean(run[epoch] for run in course.runs.values()) for epoch in shared
        ]
        axes.plot(shared, means, **look.line(linewidth=1.8))
