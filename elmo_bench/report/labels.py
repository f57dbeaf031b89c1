"""Display names of a report's settings and figures."""

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from elmo_bench.runs import Key, text

from .names import axis, metric_title, name, names, task_titles, value
from .table import Report


class Labels(NamedTuple):
    """Display names of a report's settings and figures."""

    constant: str  # the settings that all rows share
    keys: list[str]  # the row keys that vary
    heads: list[str]  # the heads of the columns of row names
    rows: Mapping[Key, list[str]]
    columns: Mapping[Key, str]
    figure: str
    each: str  # a sentence with each task's figure, if they differ


@lru_cache(maxsize=32)
def labels_of(report: Report) -> Labels:
    """Return the display names of a report, which are made once."""
    titles = task_titles(report.runs)
    rows = [*dict.fromkeys(cell.row for cell in report.cells)]
    values = {key: [row[k] for row in rows] for k, key in enumerate(report.rows)}
    varying = {key: column for key, column in values.items() if len({*column}) > 1}
    constant = {key: column[0] for key, column in values.items() if key not in varying}
    shares = {run.settings.get("fraction", 1) for run in report.runs}
    if len(shares) == 1 and shares != {1} and "fraction" not in report.keys:
        constant["fraction"] = shares.pop()
    columns = []
    for key, column in varying.items():
        of_tasks = titles if key == "task.name" else {}
        words = [of_tasks.get(text(one)) or value(key, one) for one in column]
        # As they are written where two have one name.
        columns.append(words if len({*words}) == len({*column}) else [*map(text, column)])
    by_task = {titles[run.task]: metric_title(run, report.metric) for run in report.runs}
    figures = {*by_task.values()}
    shown = "; ".join(f"{task} {figure}" for task, figure in by_task.items())
    return Labels(
        constant=name([*constant], [*constant.values()], titles),
        keys=[*varying],
        heads=[*map(axis, varying)],
        rows={row: [column[k] for column in columns] for k, row in enumerate(rows)},
        columns=names(report.columns, report.heads, titles),
        figure=min(figures) if len(figures) == 1 else "figures",
        each=f"Figures: {shown}." if len(figures) > 1 else "",
    )


def title(report: Report, what: str) -> str:
    """Return the title of a table of a report's figures."""
    shown = labels_of(report)
    about = ", ".join(filter(None, (shown.constant, f"{report.split} {shown.figure}", what)))
    return about if shown.constant and not report.title else titled(report.title, about)


def titled(title: str, about: str) -> str:
    """Return what a table or plot is about, after the title of its report, if it has one.

    >>> titled("", "test F1 by layer"), titled("Books", "test F1 by layer")
    ('Test F1 by layer', 'Books: test F1 by layer')
    """
    return f"{title}: {about}" if title else about[:1].upper() + about[1:]
