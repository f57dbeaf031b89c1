"""Build the tables that the settings of `job=report` ask for, and write them to files, each in the
format of its suffix.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from elmo_bench.files import atomic, begins, check_output, counted
from elmo_bench.runs import Key, Run, collect, failures, frozen, run_folders, text, where

from .comparison import Correction, families
from .page import GENERATOR, as_page
from .provenance import Origin
from .published import stands_in
from .selection import select
from .table import Report, comparisons_of, corrected
from .write import as_csv, as_json, latex, markdown

log = logging.getLogger(__name__)
# The settings that each of several tables may override.
SETTINGS = ("where", "rows", "columns", "baseline", "split", "metric", "paper", "equal_within")
# Chooses among the runs of a table, by its rows, its columns and its baseline.
Choice = Callable[[list[Run], list[str] | None, list[str], Key | None], list[Run]]
MOST = 5  # a note names up to this many failed runs


class Built(NamedTuple):
    """The reports of each table that has runs, and its number of failed runs, by title."""

    runs: list[Run]
    by_title: dict[str, list[Report]]
    failed: dict[str, int]
    origin: Origin

    @property
    def reports(self) -> list[Report]:
        """The reports of all tables."""
        return [each for several in self.by_title.values() for each in several]

    def corrected(self, correct: Correction | None = None) -> "Built":
        """Return the same with p corrected, by default for the comparisons of all tables."""
        correct = correct or families(comparisons_of(self.reports))
        by_title = {title: corrected(each, correct) for title, each in self.by_title.items()}
        return self._replace(by_title=by_title)


def build_tables(
    settings: Mapping[str, Any], command: str = "", choice: Choice | None = None
) -> Built:
    """Return the reports of all tables in `settings`; p is corrected for all of them together.

    `command` is what the origin of the tables says. A table has the runs that match its conditions
    or, with `choice`, those that it chooses among them.
    """
    folders = run_folders(as_list(settings["runs"]), settings["cache_dir"])
    runs = collect(folders)
    tables = {
        title: _completed(settings, title, table or {})
        for title, table in (settings["tables"] or {"": {}}).items()
    }
    chosen = {title: _matching(runs, table) for title, table in tables.items()}
    if choice is not None:
        for title, table in tables.items():
            options = *_rows_and_columns(table), _baseline(table)
            chosen[title] = choice(chosen[title], *options)
    if not any(chosen.values()):
        conditions = [
            {key: table[key] for key in ("where", "paper") if table[key]}
            for table in tables.values()
        ]
        raise ValueError(
            f"runs={settings['runs']}: no run matches the table's conditions: {conditions}"
        )
    for title in (title for title in tables if not chosen[title]):
        log.info("no run matches its conditions: table %s is left out", title)
    unfinished = failures(folders, runs)
    failed = {title: _matching(unfinished, table) for title, table in tables.items()}
    by_title = {}
    for title in counted([title for title in tables if chosen[title]], "tables"):
        by_title[title] = _reports(chosen[title], title, tables[title])
        by_title[title][0].notes[:0] = _failed(failed[title], chosen[title])
    count = len({run.folder for each in failed.values() for run in each})
    numbers = {title: len(failed[title]) for title in by_title}
    return Built(runs, by_title, numbers, Origin(command, count)).corrected()


def _completed(settings: Mapping[str, Any], title: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return a table's settings, completed by those of the report."""
    if unknown := table.keys() - {*SETTINGS}:
        raise ValueError(
            f"tables.{title}: unknown keys {sorted(unknown)}; a table may have "
            f"{', '.join(SETTINGS)}"
        )
    return {key: table.get(key, settings[key]) for key in SETTINGS}


def _matching(runs: list[Run], table: dict[str, Any]) -> list[Run]:
    """Return the runs that match `where` and, with `paper`, belong to that table of the paper."""
    conditions, name = table["where"] or {}, table["paper"]
    settings = zip(as_list(table["columns"]), as_list(table["baseline"]), strict=False)
    no_encoder = (("encoder", "none"), ("encoder.name", "none"), ("elmo.mix", "none"))
    runs = where(runs, conditions, with_baseline=any(each in no_encoder for each in settings))
    return [run for run in runs if name is None or stands_in(run, name)]


def _reports(runs: list[Run], title: str, table: dict[str, Any]) -> list[Report]:
    region = table["equal_within"]
    return select(
        runs,
        *_rows_and_columns(table),
        metric=table["metric"],
        split=table["split"],
        baseline=_baseline(table),
        title=title,
        paper=table["paper"],
        equal_within=None if region is None else region / 100,
    )


def _rows_and_columns(table: Mapping[str, Any]) -> tuple[list[str] | None, list[str]]:
    return as_list(table["rows"]) or None, as_list(table["columns"])


def _baseline(table: Mapping[str, Any]) -> Key | None:
    """Return the column of the baseline, if there is one.

    A single column key has a single value, which may itself be a list: elmo.mix=[0,1].
    """
    value = table["baseline"]
    values = as_list(value) if len(as_list(table["columns"])) > 1 or value is None else [value]
    return tuple(map(frozen, values)) or None


def as_list(value: Any) -> list[Any]:
    """Return the items of an option that may be null, a single value or a list."""
    return [] if value is None else value if isinstance(value, list) else [value]


def _failed(failed: Sequence[Run], finished: Sequence[Run]) -> list[str]:
    """Return a note on the table's runs without a result, if there are any."""
    if not failed:
        return []
    count = len({run.identity or run.folder for run in finished}) + len(failed)
    which = [f"{_which(run)} ({run.reason})" for run in failed[:MOST]]
    which += [f"{len(failed) - MOST} more"] if len(failed) > MOST else []
    return [f"{len(failed)} of {count} runs failed or did not finish: {', '.join(which)}"]


def _which(run: Run) -> str:
    """Name a run by its main settings."""
    keys = [key for key in ("task.name", "encoder.name", "elmo.mix") if key in run.settings]
    return " ".join([*(text(run.settings[key]) for key in keys), f"seed {run.config.get('seed')}"])


def _svg(written: Sequence[Report]) -> bytes:
    from .plots import document  # imports matplotlib, which is slow

    return document.svg(written)


def _pdf(written: Sequence[Report]) -> bytes:
    from .plots import document

    return document.pdf(written)


FORMATS: dict[str, Callable[..., str | bytes]] = {
    ".html": as_page,
    ".svg": _svg,
    ".pdf": _pdf,
    ".md": markdown,
    ".tex": latex,
    ".csv": as_csv,
    ".json": as_json,
}
TITLE = "[^\\n]*mean ± standard deviation \\(runs"  # in the first line
OWN = {  # the beginning of a report of ours, which may be overwritten
    ".html": f'<!DOCTYPE html>.*<meta name="generator" content="{GENERATOR}"/>',
    ".svg": f'<svg [^>]*data-generator="{GENERATOR}"',
    ".pdf": f"%PDF-.*/Creator \\({GENERATOR}\\)",
    ".md": TITLE,
    ".tex": TITLE,
    ".csv": "[^\\n]*mean,deviation,runs,best",
    ".json": '\\{.*"cells": \\[.*"mean": .*"deviation": .*"best": ',
}


def checked_outputs(settings: Mapping[str, Any]) -> list[Path]:
    """Return the files of `output`; raises ValueError for one that must not be written."""
    outputs = [Path(path) for path in as_list(settings["output"])]
    for path in outputs:
        check_format(path, OWN)
    return outputs


def check_format(path: Path, own: Mapping[str, str]) -> None:
    """Raise ValueError for a file of no format, or a file of others.

    `own` has the beginning of each format's files of ours, by suffix.
    """
    if path.suffix not in own:
        formats = ", ".join(f"FILE{suffix}" for suffix in own)
        raise ValueError(f"output={path}: the formats are {formats}")
    check_output("output", path, {}, begins(own[path.suffix]))


def write_files(
    outputs: Sequence[Path], reports: Sequence[Report], origin: Origin, title: str | None
) -> None:
    """Write each file atomically, in the format of its suffix."""
    writers = FORMATS | {
        ".html": partial(as_page, title=title, origin=origin),
        **{suffix: partial(FORMATS[suffix], origin=origin) for suffix in (".md", ".json")},
    }
    # Format everything before the first write, so that an error leaves no partial set of files.
    contents = {path: writers[path.suffix](reports) for path in outputs}
    for path, content in contents.items():
        if isinstance(content, str):
            content = content.encode(errors="backslashreplace")
        with atomic(path) as part:
            part.write_bytes(content)
        log.info("written: %s", path)
