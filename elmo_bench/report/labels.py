"""Display names of a report's settings and figures, and the titles of its tables and plots."""

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from elmo_bench.runs import Key, text
from elmo_bench.terminal import listed

from .names import axis, corpus_title, metric_title, name, names, value
from .table import Report


class Labels(NamedTuple):
    """Display names of a report's settings and figures."""

    subject: str  # task and corpus, "NER (wikigold)", if there is one and no row or column names it
    constant: str  # the settings that all rows share
    heads: list[str]  # of the columns of row names: the row keys that vary
    rows: Mapping[Key, list[str]]
    columns: Mapping[Key, str]
    axes: str  # of the columns
    base: str  # the baseline
    figure: str
    figures: str  # a sentence with the figure of each task, or corpus, if they differ


@lru_cache(maxsize=32)
def labels_of(report: Report) -> Labels:
    """Return the display names of a report, which are made once."""
    titles = report.task_titles
    subject = _subject(report)
    varying, constant = _row_settings(report)
    of_constant = dict.fromkeys(titles, subject) if subject else titles
    columns = names(report.columns, report.heads, titles)
    figure, figures = _figures(report)
    return Labels(
        subject=subject,
        constant=name(list(constant), list(constant.values()), of_constant),
        heads=list(map(axis, varying)),
        rows=_row_names(report, varying),
        columns=columns,
        axes=listed(map(axis, report.columns)),
        base=columns.get(report.baseline or (), ""),
        figure=figure,
        figures=figures,
    )


def _subject(report: Report) -> str:
    """Return the task and corpus of all runs, "NER (wikigold)"; "" if they have several or if a row
    or column names the corpus.
    """
    tested_on = {corpus_title(run, report.task_titles) for run in report.runs}
    if len(tested_on) == 1 and "data.name" not in report.keys:
        return tested_on.pop()
    return ""


def _row_settings(report: Report) -> tuple[dict[str, list[Hashable]], dict[str, Hashable]]:
    """Return the keys that differ between rows, each with its values by row in the order of
    `report.all_rows`, and the keys that have one value, with it.

    The share of the training data is among these if all runs have a part of it, and the number of
    folds if all have the same.
    """
    varying: dict[str, list[Hashable]] = {}
    constant: dict[str, Hashable] = {}
    for position, key in enumerate(report.rows):
        settings = [row[position] for row in report.all_rows]
        if len(set(settings)) > 1:
            varying[key] = settings
        else:
            constant[key] = settings[0]
    shares = {run.settings.get("fraction", 1) for run in report.runs}
    if len(shares) == 1 and shares != {1} and "fraction" not in report.keys:
        constant["fraction"] = shares.pop()
    folds = {run.settings.get("data.folds") for run in report.runs}
    if len(folds) == 1 and folds != {None} and "data.folds" not in report.keys:
        constant["data.folds"] = folds.pop()
    return varying, constant


def _row_names(report: Report, varying: Mapping[str, Sequence[Hashable]]) -> dict[Key, list[str]]:
    """Return a row's display names, one for each key that varies."""
    by_row: dict[Key, list[str]] = {row: [] for row in report.all_rows}
    for key, settings in varying.items():
        written = list(map(text, settings))
        titles = report.task_titles if key == "task.name" else {}
        words: list[str] = []
        for setting, as_written in zip(settings, written, strict=True):
            words.append(titles.get(as_written) or value(key, setting))
        if len(set(words)) != len(set(settings)):  # two have one name
            words = written
        for row_names, word in zip(by_row.values(), words, strict=True):
            row_names.append(word)
    return by_row


def _figures(report: Report) -> tuple[str, str]:
    """Return the display name of the runs' figure and ""; if they have several figures, "scores"
    and a sentence with that of each task, or of each corpus where those of a task differ.
    """
    titles = report.task_titles
    measured: dict[tuple[str, str], str] = {}
    for run in report.runs:
        corpus = str(run.settings.get("data.name"))
        measured[run.task, corpus] = metric_title(run, report.metric)
    figures = set(measured.values())
    if len(figures) == 1:
        return figures.pop(), ""
    of_tasks = {(task, figure) for (task, _), figure in measured.items()}
    one_a_task = len(of_tasks) == len(titles)
    shown: dict[str, None] = {}  # an ordered set
    for (task, corpus), figure in measured.items():
        tested_on = titles[task] if one_a_task else f"{titles[task]} ({corpus})"
        shown[f"{tested_on} {figure}"] = None
    return "scores", f"Scores: {'; '.join(shown)}."


def title(report: Report, what: str) -> str:
    """Return the title of a table of a report's figures."""
    shown = labels_of(report)
    subject = "" if report.title or shown.subject in shown.constant else shown.subject
    parts = subject, shown.constant, f"{report.split_title} {shown.figure}", what
    about = ", ".join(filter(None, parts))
    return about if shown.constant and not report.title else titled(report.title, about)


def headed(report: Report, about: str) -> str:
    """Return the title of a table or plot that is not of a report's figures alone: what it is
    about, after the title of the report or, without one, its task and corpus.
    """
    return titled(report.title or labels_of(report).subject, about)


def titled(title: str, about: str) -> str:
    """Return what a table or plot is about, after the title of its report, if it has one.

    >>> titled("", "test F1 by layer"), titled("Books", "test F1 by layer")
    ('Test F1 by layer', 'Books: test F1 by layer')
    """
    return f"{title}: {about}" if title else about[:1].upper() + about[1:]
