"""Build the tables that the settings of `job=report` ask for."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from elmo_bench.files import counted
from elmo_bench.runs import (
    NOTHING,
    Key,
    Run,
    collect,
    failures,
    frozen,
    run_folders,
    text,
    where,
)

from .comparison import Correction, families
from .provenance import Origin
from .published import stands_in
from .selection import select
from .table import Report, comparable, comparisons_of, corrected

log = logging.getLogger(__name__)
# The settings that each of several tables may override.
SETTINGS = ("where", "rows", "columns", "baseline", "split", "metric", "paper", "equal_within")
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
    settings: Mapping[str, Any], command: str = "", *, only_compared: bool = False
) -> Built:
    """Return the reports of all tables in `settings`; p is corrected for all of them together.

    `command` is what the origin of the tables says. With `only_compared`, a row that has runs of a
    single column is left out, and so is a table without runs of its baseline.
    """
    folders = run_folders(as_list(settings["runs"]), settings["cache_dir"])
    runs = collect(folders)
    tables = {
        title: _completed(settings, title, table or {})
        for title, table in (settings["tables"] or {"": {}}).items()
    }
    chosen = {title: _chosen(runs, table, only_compared) for title, table in tables.items()}
    for title, table in tables.items():
        _warn_of_corpora(runs, title, table["where"] or {})
    if not any(chosen.values()):
        conditions = [
            {key: table[key] for key in ("where", "paper") if table[key]}
            for table in tables.values()
        ]
        raise ValueError(
            f"runs={settings['runs']}: no run matches the table's conditions: {conditions}"
            + (", beside one of the baseline" if only_compared else "")
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


def _chosen(runs: list[Run], table: dict[str, Any], only_compared: bool) -> list[Run]:
    chosen = _matching(runs, table)
    if not only_compared:
        return chosen
    return comparable(chosen, *_rows_and_columns(table), _baseline(table))


def _matching(runs: list[Run], table: dict[str, Any]) -> list[Run]:
    """Return the runs that match `where` and, with `paper`, belong to that table of the paper."""
    conditions, name = table["where"] or {}, table["paper"]
    runs = where(runs, conditions, with_baseline="none" in as_list(table["baseline"]))
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


def _warn_of_corpora(runs: list[Run], title: str, conditions: Mapping[str, object]) -> None:
    """Say which corpora a table leaves out because a setting has no value for them."""
    for key, value in conditions.items():
        if not isinstance(value, Mapping):
            continue
        others = {other: conditions[other] for other in conditions if other != key}
        corpora = {str(run.settings.get("data.name", NOTHING)) for run in where(runs, others)}
        if missing := sorted(corpora - value.keys()):
            log.warning(
                "%s: %s has no value for %s, so the table has no runs of it",
                title or "where",
                key,
                ", ".join(missing),
            )


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
