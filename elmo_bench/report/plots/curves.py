"""Plot figures over a quantity that differs between runs, and over the epochs of a run."""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes

from elmo_bench.runs import NOTHING, Key

from .. import names
from ..aggregate import after_epochs, best_epoch
from ..grids import with_baseline
from ..table import Cell, Report, order
from .drawing import (
    FADED,
    INK,
    PLAIN,
    SOFT,
    Look,
    Plot,
    Sheet,
    beside,
    category_axis,
    key,
    look,
    per_inch,
    percent_axis,
)
from .looks import (
    all_runs,
    column_looks,
    column_titles,
    metric,
    percents,
    row_title,
    runs_each,
    sentence,
)

# Config keys that give a curve -> scale of the axis; None means equally spaced values.
SCALES: dict[str, Callable[[float], float] | None] = {
    "fraction": math.log10,
    "elmo.l2": None,
    "elmo.dropout": float,
}
DOT = 3.4  # points across
APART = 0.035  # inches between the curves of a panel, so that their dots do not overlap


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
    words = (
        f"{panel + ', ' if panel else ''}{each.title or 'mean'}: "
        + ", ".join(
            f"{100 * cell.mean:.2f} at {names.value(quantity, value)}"
            for value, cell in each.cells.items()
        )
        for panel, curves in panels.items()
        for each in curves
    )
    return Plot(
        sentence(report.title, shown),
        f"{'; '.join(words)}.",
        "Dots: runs; line: through their means.",
        lambda sheet: _draw_curves(sheet, report, quantity, panels),
    )


def _panels(report: Report, quantity: str) -> dict[str, list[Curve]]:
    """Return the curves of each panel, by its title.

    A panel has the cells that agree in all row keys except the quantity, and a curve for each
    column. Cells without the quantity are added to panels with a curve.
    """
    if quantity not in (keys := [*report.rows, *report.columns]):
        return {}
    titles = names.task_titles(all_runs(report))
    across = [key for key in report.columns if key not in (quantity, "task.name")]
    down = [key for key in keys if key not in (quantity, *across)]
    grouped: dict[Key, dict[Key, dict[Hashable, Cell]]] = defaultdict(lambda: defaultdict(dict))
    for cell in report.cells:
        values = dict(zip(keys, [*cell.row, *cell.column], strict=True))
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


def _draw_curves(
    sheet: Sheet, report: Report, quantity: str, panels: Mapping[str, Sequence[Curve]]
) -> None:
    scale = SCALES.get(quantity)
    values = {value for curves in panels.values() for each in curves for value in each.cells}
    numbers = sorted(value for value in values if names.is_number(value))
    if scale is math.log10 and numbers[0] <= 0:
        scale = None
    xs = {value: scale(value) if scale else float(place) for place, value in enumerate(numbers)}
    marks = {x: names.value(quantity, value) for value, x in xs.items()}
    across = min(len(panels), max(1, round(sheet.width / 3.2)))
    height = 2.2 if across == 1 else 1.7
    titled = [
        (title, metric(report, cells=[cell for each in curves for cell in each.cells.values()]))
        for title, curves in panels.items()
    ]
    axes_of = sheet.panels(titled, across=across, height=height)
    reach = max(xs.values()) - min(xs.values()) or 1.0
    for axes, curves in zip(axes_of, panels.values(), strict=True):
        axes.set_xlim(min(xs.values()) - 0.08 * reach, max(xs.values()) + 0.08 * reach)
        for place, each in enumerate(curves):
            shift = (place - (len(curves) - 1) / 2) * APART * per_inch(axes)
            _curve(axes, each, {value: x + shift for value, x in xs.items()})
        percent_axis(axes.yaxis, 5)
        category_axis(axes, marks, names.axis(quantity))
    legend = {each.title: each for curves in panels.values() for each in curves}
    per_mean = runs_each(
        {len(cell.runs) for each_curve in legend.values() for cell in each_curve.cells.values()}
    )
    sheet.legend(
        [
            (key(each.look.line(), each.look.marks(DOT)), each.title)
            for each in legend.values()
            if each.title
        ]
        + [(key(Look(INK, "o", ()).marks(DOT, alpha=FADED)), f"run ({per_mean})")]
        + [(key({"color": INK}), "mean")]
    )


def _curve(axes: Axes, each: Curve, places: Mapping[Hashable, float]) -> None:
    cells = {places[value]: cell for value, cell in each.cells.items() if value in places}
    if cells:
        axes.plot([*cells], [100 * cell.mean for cell in cells.values()], **each.look.line())
    if NOTHING in each.cells:  # the quantity has no effect there, so the line is horizontal
        cell = each.cells[NOTHING]
        axes.axhline(100 * cell.mean, **each.look.line(linewidth=1.0))
        cells[axes.get_xlim()[1]] = cell
    for x, cell in cells.items():
        figures = percents(cell)
        xs = [x + shift for shift in beside(figures, DOT / 72 * per_inch(axes))]
        axes.plot(xs, figures, **each.look.marks(DOT, alpha=FADED, clip_on=False))


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
    best = (
        f"{row_title(report, row) or 'best epochs'}: "
        + ", ".join(
            f"{titles[course.column]} {100 * course.at_best:.2f} at its best epoch"
            for course in courses
        )
        for row, courses in panels.items()
    )
    return Plot(
        sentence(report.title, shown),
        f"{'; '.join(best)}.",
        "Thin: runs; thick: their mean, as far as all of them go; dot: a run's best epoch.",
        lambda sheet: _draw_learning(sheet, report, panels),
    )


class Course(NamedTuple):
    """A cell's runs, by seed: the figure after each epoch, a fraction of 1, and the best epoch."""

    column: Key
    runs: dict[str, dict[int, float]]
    best: dict[str, int]

    @property
    def at_best(self) -> float:
        """The mean of the figures after the runs' best epochs."""
        return statistics.fmean(run[self.best[seed]] for seed, run in self.runs.items())


def _draw_learning(sheet: Sheet, report: Report, panels: Mapping[Key, Sequence[Course]]) -> None:
    looks, titles = column_looks(report), column_titles(report)
    across = min(len(panels), max(1, round(sheet.width / 2.4)))
    named = [row_title(report, row) for row in panels]
    cells = with_baseline(report)
    units = [metric(report, "dev", [*cells[row].values()]) for row in panels]
    titled = list(zip(named, units, strict=True))
    axes_of = sheet.panels(titled, across=across, height=1.5)
    for axes, courses in zip(axes_of, panels.values(), strict=True):
        last = max(max(run) for course in courses for run in course.runs.values())
        axes.set_xlim(0.6, last + 0.4)
        for course in courses:
            _course(axes, course, looks[course.column])
        percent_axis(axes.yaxis, 5)
        marks = {float(epoch): str(epoch) for epoch in range(1, last + 1)}
        category_axis(axes, marks, "epoch")
    for name, courses in zip(named, panels.values(), strict=True):
        for note in _identical(courses, titles):
            sheet.lines(0.0, f"{name}: {note}" if name else note, sheet.width, color=SOFT)
    drawn = {course.column for courses in panels.values() for course in courses}
    entries = [(key(looks[column].line()), titles[column]) for column in titles if column in drawn]
    entries.append((key({"color": INK, "linewidth": 0.6, "alpha": FADED}), "run"))
    entries.append((key(Look(INK, "o", ()).marks(DOT)), "its best epoch"))
    if any(len(course.runs) > 1 for courses in panels.values() for course in courses):
        entries.append((key({"color": INK, "linewidth": 1.8}), "mean"))
    sheet.top += 0.04
    sheet.legend(entries)


def _course(axes: Axes, course: Course, look: Look) -> None:
    for seed, run in course.runs.items():
        axes.plot(
            [*run],
            [100 * value for value in run.values()],
            color=look.color,
            linewidth=0.6,
            alpha=0.7,
        )
        best = course.best[seed]
        axes.plot(best, 100 * run[best], **look.marks(DOT, clip_on=False))
    if len(course.runs) > 1:
        shared = sorted(set.intersection(*map(set, course.runs.values())))
        means = [
            100 * statistics.fmean(run[epoch] for run in course.runs.values()) for epoch in shared
        ]
        axes.plot(shared, means, **look.line(linewidth=1.8))


def _identical(courses: Sequence[Course], titles: Mapping[Key, str]) -> list[str]:
    """Return notes on runs with identical lines, which hide each other."""
    runs: dict[tuple[tuple[int, float], ...], list[str]] = defaultdict(list)
    for course in courses:
        for seed, run in course.runs.items():
            runs[tuple(run.items())].append(f"{titles[course.column]}, seed {seed}")
    return [f"identical lines: {'; '.join(same)}" for same in runs.values() if len(same) > 1]
