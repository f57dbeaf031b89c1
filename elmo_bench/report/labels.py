"""Display names of a report's settings and figures."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from elmo_bench.runs import Key, Run, text

from .names import NONE, axis, is_number, metric_title, name, names, task_titles, value
from .table import Report

SHOWN = 2  # up to this many row keys have a column each; more share one column


class Labels(NamedTuple):
    """Display names of a report's settings and figures."""

    titles: Mapping[str, str]  # of tasks
    constant: str  # the settings that all rows share
    keys: list[str]  # the row keys that vary
    heads: list[str]  # the heads of the columns of row names
    rows: Mapping[Key, list[str]]
    columns: Mapping[Key, str]
    figure: str
    each: str  # a sentence with each task's figure, if they differ

    def row(self, key: Key) -> str:
        """Return a row's name for use in a sentence."""
        return ", ".join(text for text in self.rows[key] if text != NONE)


@lru_cache(maxsize=32)
def labels_of(report: Report) -> Labels:
    """Return the display names of a report, which are made once."""
    runs = report.runs
    titles = task_titles(runs)
    rows = list(dict.fromkeys(cell.row for cell in report.cells))
    varying = [k for k in range(len(report.rows)) if len({row[k] for row in rows}) > 1]
    constant = {
        key: rows[0][k] for k, key in enumerate(report.rows) if k not in varying and rows
    } | _common_fraction(runs, report.keys)
    keys = [report.rows[k] for k in varying]
    row_names = _rows(keys, [tuple(row[k] for k in varying) for row in rows], titles)
    figure, each = _figures(report, runs, titles)
    return Labels(
        titles=titles,
        constant=name([*constant], [*constant.values()], titles),
        keys=keys,
        heads=[axis(key) for key in keys] if len(keys) <= SHOWN else ["setting"],
        rows=dict(zip(rows, row_names, strict=True)),
        columns=names(report.columns, {cell.column for cell in report.cells}, titles),
        figure=figure,
        each=each,
    )


def title(report: Report, what: str) -> str:
    """Return the title of a table of a report's figures."""
    shown = labels_of(report)
    about = f"{report.split} {shown.figure}, {what}"
    if not (report.title or shown.constant):
        return capital(about)
    about = ", ".join(filter(None, (shown.constant, about)))
    return f"{report.title}: {about}" if report.title else about


def titled(title: str, about: str) -> str:
    """Return what a table or plot is about, after the title of its report, if it has one.

    >>> titled("", "test F1 by layer"), titled("Books", "test F1 by layer")
    ('Test F1 by layer', 'Books: test F1 by layer')
    """
    return f"{title}: {about}" if title else capital(about)


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _common_fraction(runs: Sequence[Run], keys: Sequence[str]) -> dict[str, Hashable]:
    """Return the runs' common share of the training set, if it is below 1 and not a report key."""
    shares = {run.settings.get("fraction", 1) for run in runs}
    (share,) = shares if len(shares) == 1 else (1,)
    is_part = "fraction" not in keys and is_number(share) and share < 1
    return {"fraction": share} if is_part else {}


def _figures(report: Report, runs: Sequence[Run], titles: Mapping[str, str]) -> tuple[str, str]:
    """Return the name of the figure and, if tasks have different figures, a sentence with them."""
    by_task = {titles[run.task]: metric_title(run, report.metric) for run in runs}
    figures = {*by_task.values()}
    if len(figures) == 1:
        return figures.pop(), ""
    shown = "; ".join(f"{task} {figure}" for task, figure in by_task.items())
    return "figures", f"Figures: {shown}."


def _rows(keys: Sequence[str], rows: Sequence[Key], titles: Mapping[str, str]) -> list[list[str]]:
    """Return the rows' names: one for each key, or a single one if there are more than `SHOWN`."""
    if len(keys) > SHOWN:
        merged = names(keys, rows, titles)
        return [[merged[row]] for row in rows]
    columns = [_values(key, [row[k] for row in rows], titles) for k, key in enumerate(keys)]
    return [[column[one] for column, one in zip(columns, row, strict=True)] for row in rows]


def _values(
    key: str, settings: Iterable[Hashable], titles: Mapping[str, str]
) -> dict[Hashable, str]:
    """Return unique display names for the values of a key."""
    of_tasks = titles if key == "task.name" else {}
    words = {one: of_tasks.get(text(one)) or value(key, one) for one in settings}
    return words if len({*words.values()}) == len(words) else {one: text(one) for one in words}
