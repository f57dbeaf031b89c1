"""Build the tables that the settings of `job=report` ask for."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from elmo_bench.files import counted
from elmo_bench.runs import Key, Run, collect, failures, frozen, run_folders, text, where

from .comparison import Correction, families
from .provenance import Origin
from .published import stands_in
from .selection import select
from .table import Report, comparisons_of, corrected

log = logging.getLogger(__name__)
# The settings that each of several tables may override.
SETTINGS = ("where", "rows", "columns", "baseline", "split", "metric", "paper")
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
    chosen = {title: _chosen(runs, title, tables[title], choice) for title in tables}
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
        options = {key: value for key, value in tables[title].items() if key != "where"}
        with _named(title):
            by_title[title] = select(chosen[title], **options, title=title)
        by_title[title][0].notes[:0] = _failed(failed[title], chosen[title])
    count = len({run.folder for each in failed.values() for run in each})
    numbers = {title: len(failed[title]) for title in by_title}
    return Built(runs, by_title, numbers, Origin(command, count)).corrected()


def _completed(settings: Mapping[str, Any], title: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return a table's settings, completed by those of the report, in the types of `select`."""
    if unknown := table.keys() - {*SETTINGS}:
        raise ValueError(
            f"tables.{title}: unknown keys {sorted(unknown)}; a table may have "
            f"{', '.join(SETTINGS)}"
        )
    table = {key: table.get(key, settings[key]) for key in SETTINGS}
    columns, baseline = as_list(table["columns"]), table["baseline"]
    # A single column key has a single value, which may itself be a list: elmo.mix=[0,1].
    values = as_list(baseline) if len(columns) > 1 or baseline is None else [baseline]
    return table | {
        "where": table["where"] or {},
        "rows": as_list(table["rows"]) or None,
        "columns": columns,
        "baseline": tuple(map(frozen, values)) or None,
    }


@contextmanager
def _named(title: str) -> Iterator[None]:
    """Name the table in a ValueError."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"tables.{title}: {error}" if title else f"{error}") from error


def _chosen(runs: list[Run], title: str, table: dict[str, Any], choice: Choice | None) -> list[Run]:
    """Return the runs of a table: those that match or, with `choice`, its choice among them."""
    with _named(title):
        matching = _matching(runs, table)
        if choice is None:
            return matching
        return choice(matching, table["rows"], table["columns"], table["baseline"])


def _matching(runs: list[Run], table: dict[str, Any]) -> list[Run]:
    """Return the runs that match `where` and, with `paper`, belong to that table of the paper."""
    settings = zip(table["columns"], table["baseline"] or (), strict=False)
    no_encoder = (("encoder", "none"), ("encoder.name", "none"), ("elmo.mix", "none"))
    has_baseline = any(each in no_encoder for each in settings)
    runs = where(runs, table["where"], with_baseline=has_baseline)
    return [run for run in runs if table["paper"] is None or stands_in(run, table["paper"])]


def as_list(value: Any) -> list[Any]:
    """Return the items of an option that may be null, a single value or several."""
    return [] if value is None else [*value] if isinstance(value, list | tuple) else [value]


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
