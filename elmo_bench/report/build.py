"""Build the tables that the settings of `job=report` ask for."""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from elmo_bench.runs import RUNNING, Run, collect, failures, frozen, run_folders, short, where
from elmo_bench.terminal import counted

from .cautions import cautions
from .published import stands_in
from .selection import select
from .table import Report, corrected
from .tuning import with_draws

log = logging.getLogger(__name__)
# The settings that each of several tables may override.
SETTINGS = ("where", "rows", "columns", "baseline", "split", "metric", "paper")
MOST = 5  # a note names up to this many failed runs


def build_tables(settings: Mapping[str, Any]) -> list[Report]:
    """Return the reports of all tables, with p corrected for all of them together."""
    runs, failed = read(settings)
    asked = settings["tables"] or {"": {}}
    tables = {title: completed(settings, title, asked[title] or {}) for title in asked}
    reports = list[Report]()
    for title in counted([*tables], "tables"):
        table = tables[title]
        try:
            chosen, lacking = (matching(each, table) for each in (runs, failed))
            if not chosen:
                if title:
                    log.info("no run matches its conditions: table %s is left out", title)
                continue
            reports += reports_of(chosen, lacking, title, table)
        except ValueError as error:
            raise ValueError(f"tables.{title}: {error}" if title else f"{error}") from error
    if not reports:
        conditions = [f"where={each['where']} paper={each['paper']}" for each in tables.values()]
        said = f"change the table's conditions: {'; '.join(conditions)}"
        raise ValueError(f"runs={settings['runs']}: no run matches; {said}")
    return corrected(reports)


def read(settings: Mapping[str, Any]) -> tuple[list[Run], list[Run]]:
    """Return the finished runs below `runs`, and those that failed."""
    folders = run_folders(as_list(settings["runs"]), settings["cache_dir"])
    runs = collect(folders)
    return runs, failures(folders, runs)


def completed(settings: Mapping[str, Any], title: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return a table's settings, completed by those of the report, in the types of `select`."""
    if unknown := table.keys() - {*SETTINGS}:
        raise ValueError(
            f"tables.{title}: unknown keys {', '.join(sorted(unknown))}; a table may have "
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


def matching(runs: Sequence[Run], table: Mapping[str, Any]) -> list[Run]:
    """Return the runs that match `where` and, with `paper`, belong to that table of the paper."""
    settings = zip(table["columns"], table["baseline"] or (), strict=False)
    no_encoder = (("encoder", "none"), ("encoder.name", "none"), ("elmo.mix", "none"))
    has_baseline = any(each in no_encoder for each in settings)
    runs = where(runs, table["where"], with_baseline=has_baseline)
    return [run for run in runs if table["paper"] is None or stands_in(run, table["paper"])]


def reports_of(
    runs: Sequence[Run], failed: Sequence[Run], title: str, table: Mapping[str, Any]
) -> list[Report]:
    """Return a table's reports, the first with draws of `sweep=tune` and a note on failures."""
    options = {key: value for key, value in table.items() if key != "where"}
    chosen = [run for run in runs if run.trial is None]
    if not chosen:
        said = f"all {len(runs)} runs are draws of sweep=tune, none of a choice"
        raise ValueError(f"{said}: give its command again with resume=true")
    reports = select(chosen, **options, title=title)
    for each in reports:
        each.notes.extend(cautions(each))
    ended = [run for run in (*runs, *failed) if run.reason != RUNNING]
    if draws := [run for run in ended if run.trial is not None]:
        reports[0] = with_draws(reports[0], draws, chosen)
    if failed:
        which = [f"{short(run.folder)} ({run.reason})" for run in failed[:MOST]]
        which += [f"{len(failed) - MOST} more"] if len(failed) > MOST else []
        count = len(runs) + len(failed)
        note = f"{len(failed)} of {count} runs failed or did not finish: {', '.join(which)}"
        reports[0].notes.insert(0, note)
    return reports


def as_list(value: Any) -> list[Any]:
    """Return the items of an option that may be null, a single value or several."""
    return [] if value is None else [*value] if isinstance(value, list | tuple) else [value]
