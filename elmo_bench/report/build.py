"""Build the tables that the settings of `job=report` ask for."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from elmo_bench.runs import RUNNING, Run, collect, failures, frozen, run_folders, short, where
from elmo_bench.terminal import counted

from .between_tasks import contrasts
from .cautions import cautions
from .published import stands_in
from .selection import select
from .table import Report
from .tabulate import corrected
from .tuning import with_draws

log = logging.getLogger(__name__)
# The settings that each of several tables may override.
SETTINGS = ("where", "rows", "columns", "baseline", "split", "metric", "contrasts", "paper")
NO_CONTRAST = (
    "contrasts: no pair stands in two rows of one encoder, each with two runs on one split; "
    "rows=[task,data] gives a row for each corpus"
)
MOST = 5  # a note names up to this many failed runs


def build_tables(settings: Mapping[str, Any]) -> list[Report]:
    """Return the reports of all tables, with p corrected for all of them together."""
    runs, failed = read(settings)
    asked = settings["tables"] or {"": {}}
    tables = {title: completed(settings, title, asked[title] or {}) for title in asked}
    reports = list[Report]()
    for title in counted(list(tables), "tables"):
        table = tables[title]
        try:
            chosen = matching(runs, table)
            lacking = matching(failed, table)
            if chosen:
                reports += reports_of(chosen, lacking, title, table)
            elif title:
                log.info("no run matches its conditions: table %s is left out", title)
        except ValueError as error:
            raise ValueError(f"tables.{title}: {error}" if title else f"{error}") from error
    if not reports:
        tried = [f"where={table['where']} paper={table['paper']}" for table in tables.values()]
        raise ValueError(
            f"runs={settings['runs']}: no run matches; change the table's conditions: "
            f"{'; '.join(tried)}"
        )
    return corrected(reports)


def read(settings: Mapping[str, Any]) -> tuple[list[Run], list[Run]]:
    """Return the finished runs below `runs`, and those that failed."""
    folders = run_folders(as_list(settings["runs"]), settings["cache_dir"])
    runs = collect(folders)
    return runs, failures(folders, runs)


def completed(settings: Mapping[str, Any], title: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return a table's settings, completed by those of the report, in the types of `select`."""
    unknown = table.keys() - set(SETTINGS)
    if unknown:
        raise ValueError(
            f"tables.{title}: unknown keys {', '.join(sorted(unknown))}; a table may have "
            f"{', '.join(SETTINGS)}"
        )
    every = {key: table.get(key, settings[key]) for key in SETTINGS}
    columns = as_list(every["columns"])
    baseline = every["baseline"]
    # A single column key has a single value, which may itself be a list: elmo.mix=[0,1].
    values = as_list(baseline) if len(columns) > 1 or baseline is None else [baseline]
    return every | {
        "where": every["where"] or {},
        "rows": as_list(every["rows"]) or None,
        "columns": columns,
        "baseline": tuple(map(frozen, values)) or None,
        "contrasts": list(map(frozen, every["contrasts"] or [])),
    }


def matching(runs: Sequence[Run], table: Mapping[str, Any]) -> list[Run]:
    """Return the runs that match `where` and, with `paper`, belong to that table of the paper."""
    settings = set(zip(table["columns"], table["baseline"] or (), strict=False))
    no_encoder = {("encoder", "none"), ("encoder.name", "none"), ("elmo.mix", "none")}
    has_baseline = not settings.isdisjoint(no_encoder)
    matched = where(runs, table["where"], with_baseline=has_baseline)
    if table["paper"] is None:
        return matched
    return [run for run in matched if stands_in(run, table["paper"])]


def reports_of(
    runs: Sequence[Run], failed: Sequence[Run], title: str, table: Mapping[str, Any]
) -> list[Report]:
    """Return a table's reports, the first with draws of `sweep=tune` and a note on failures."""
    options = {key: value for key, value in table.items() if key not in ("where", "contrasts")}
    chosen = [run for run in runs if run.trial is None]
    if not chosen:
        raise ValueError(
            f"all {len(runs)} runs are draws of sweep=tune, none of a choice: "
            "give its command again with resume=true"
        )
    reports = select(chosen, **options, title=title)
    of_rows = contrasts(reports[0], table["contrasts"])
    if table["contrasts"] and not of_rows:
        reports[0].notes.append(NO_CONTRAST)
    reports[0] = replace(reports[0], contrasts=of_rows)
    for report in reports:
        report.notes.extend(cautions(report))
    draws = []
    for run in (*runs, *failed):
        if run.trial is not None and run.reason != RUNNING:
            draws.append(run)
    if draws:
        reports[0] = with_draws(reports[0], draws, chosen)
    if failed:
        reports[0].notes.insert(0, _note_on_failures(failed, len(runs) + len(failed)))
    return reports


def _note_on_failures(failed: Sequence[Run], num_runs: int) -> str:
    """Return how many of so many runs failed, and the names of the first of them."""
    named = [f"{short(run.folder)} ({run.reason})" for run in failed[:MOST]]
    if len(failed) > MOST:
        named.append(f"{len(failed) - MOST} more")
    return f"{len(failed)} of {num_runs} runs failed or did not finish: {', '.join(named)}"


def as_list(value: Any) -> list[Any]:
    """Return the items of an option that may be null, a single value or several."""
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]
