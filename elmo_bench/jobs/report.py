"""`job=report`: write tables, pages and figures that compare finished runs."""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo_bench import report as reports
from elmo_bench import wandb_logger
from elmo_bench.files import atomic, begins, check_output, counted
from elmo_bench.runs import Key, Run, failures, frozen, run_folders, text

log = logging.getLogger(__name__)


def _svg(written: Sequence[reports.Report]) -> bytes:
    from elmo_bench.report.plots import document  # imports matplotlib, which is slow

    return document.svg(written)


def _pdf(written: Sequence[reports.Report]) -> bytes:
    from elmo_bench.report.plots import document

    return document.pdf(written)


FORMATS: dict[str, Callable[..., str | bytes]] = {
    ".html": reports.page,
    ".svg": _svg,
    ".pdf": _pdf,
    ".md": reports.markdown,
    ".tex": reports.latex,
    ".csv": reports.as_csv,
    ".json": reports.as_json,
}
TITLE = "[^\\n]*mean ± standard deviation \\(runs"  # in the first line
# The beginning of an earlier report, which may be overwritten.
OWN = {
    # Earlier versions marked pages only by this title.
    ".html": f'<!DOCTYPE html>.*(<meta name="generator" content="{reports.GENERATOR}"/>'
    "|<title>elmo-bench: report</title>)",
    # Earlier versions marked pictures only by this style.
    ".svg": f'<svg [^>]*(data-generator="{reports.GENERATOR}"'
    '|style="font: 14px system-ui, sans-serif"><style>)',
    ".pdf": f"%PDF-.*/Creator \\({reports.GENERATOR}\\)",
    ".md": TITLE,
    ".tex": TITLE,
    ".csv": "[^\\n]*mean,deviation,runs,best",
    ".json": '\\{.*"cells": \\[.*"mean": .*"deviation": .*"best": ',
}
# The settings that each of several tables may override.
SETTINGS = (
    "where",
    "rows",
    "columns",
    "baseline",
    "split",
    "metric",
    "paper",
    "equal_within",
)
MOST = 5  # a note names up to this many failed runs


class Answers(NamedTuple):
    """The reports of each table that has runs, and its number of failed runs, by title."""

    runs: list[Run]
    reports: dict[str, list[reports.Report]]
    failed: dict[str, int]
    origin: reports.Origin


def report(cfg: DictConfig) -> None:
    """Write the tables over all runs below `runs` to the files of `output`, and print them."""
    settings, outputs, answers = check(cfg)
    written = all_reports(answers)
    write(outputs, written, answers.origin, settings["title"])
    if "wandb" in (loggers := settings.get("logger") or {}):
        options = {key: value for key, value in loggers["wandb"].items() if key != "_target_"}
        wandb_logger.keep(outputs, **options | {"job_type": "report", "tags": [], "save_dir": "."})
    # Print last, since a closed pipe (`| head`) ends the process.
    reports.show(written, Console(emoji=False))


def check(cfg: DictConfig) -> tuple[dict[str, Any], list[Path], Answers]:
    """Return the settings, the files to write, and what they will say."""
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    outputs = checked_outputs(settings)
    loggers = settings.get("logger") or {}
    if "wandb" in loggers and not outputs:
        raise ValueError(
            "logger=wandb uploads the files of a report, but output is empty: set "
            "output=report.html"
        )
    if "wandb" in loggers:
        wandb_logger.check_installed()
    return settings, outputs, answered(settings)


def checked_outputs(settings: Mapping[str, Any]) -> list[Path]:
    """Return the files of `output`; raises ValueError for one that must not be written."""
    outputs = [Path(path) for path in as_list(settings["output"])]
    for path in outputs:
        if path.suffix not in FORMATS:
            formats = ", ".join(f"FILE{suffix}" for suffix in FORMATS)
            raise ValueError(f"output={path}: the formats are {formats}")
        check_output("output", path, {}, begins(OWN[path.suffix]))
    return outputs


def answered(settings: Mapping[str, Any], *, only_compared: bool = False) -> Answers:
    """Return the reports of all tables in `settings`; p is corrected for all of them together.

    With `only_compared`, a row that has runs of a single column is left out, and so is a table
    without runs of its baseline.
    """
    folders = run_folders(as_list(settings["runs"]), settings["cache_dir"])
    runs = reports.collect(folders)
    tables = {
        title: _settings(settings, title, table or {})
        for title, table in (settings["tables"] or {"": {}}).items()
    }
    chosen = {title: _chosen(runs, table) for title, table in tables.items()}
    if only_compared:
        chosen = {
            title: reports.comparable(chosen[title], *_rows_and_columns(table), _baseline(table))
            for title, table in tables.items()
        }
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
    failed = {title: _chosen(unfinished, table) for title, table in tables.items()}
    by_title = {}
    for title in counted([title for title in tables if chosen[title]], "tables"):
        by_title[title] = _answers(chosen[title], title, tables[title])
        by_title[title][0].notes[:0] = _failed(failed[title], chosen[title])
    overrides = HydraConfig.get().overrides.task if HydraConfig.initialized() else None
    count = len({run.folder for each in failed.values() for run in each})
    command = "" if overrides is None else reports.typed(overrides)
    origin = reports.Origin(command, count)
    failed_runs = {title: len(failed[title]) for title in by_title}
    return corrected(Answers(runs, by_title, failed_runs, origin))


def corrected(answers: Answers, correct: reports.Correction | None = None) -> Answers:
    """Return the answers with p corrected, by default for the comparisons of all tables."""
    correct = correct or reports.families(reports.comparisons_of(all_reports(answers)))
    by_title = {
        title: reports.corrected(several, correct) for title, several in answers.reports.items()
    }
    return answers._replace(reports=by_title)


def all_reports(answers: Answers) -> list[reports.Report]:
    return [each for several in answers.reports.values() for each in several]


def write(
    outputs: Sequence[Path],
    written: Sequence[reports.Report],
    origin: reports.Origin,
    title: str | None,
) -> None:
    """Write each file atomically, in the format of its suffix."""
    writers = FORMATS | {
        ".html": partial(reports.page, title=title, origin=origin),
        **{suffix: partial(FORMATS[suffix], origin=origin) for suffix in (".md", ".tex", ".json")},
    }
    # Format everything before the first write, so that an error leaves no partial set of files.
    contents = {path: writers[path.suffix](written) for path in outputs}
    for path, content in contents.items():
        if isinstance(content, str):
            content = content.encode(errors="backslashreplace")
        with atomic(path) as part:
            part.write_bytes(content)
        log.info("written: %s", path)


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


def _settings(settings: Mapping[str, Any], title: str, table: dict[str, Any]) -> dict[str, Any]:
    """Return a table's settings, completed by those of the report."""
    if unknown := table.keys() - {*SETTINGS}:
        raise ValueError(
            f"tables.{title}: unknown keys {sorted(unknown)}; a table may have "
            f"{', '.join(SETTINGS)}"
        )
    return {key: table.get(key, settings[key]) for key in SETTINGS}


def _chosen(runs: list[Run], table: dict[str, Any]) -> list[Run]:
    """Return the runs that match `where` and, with `paper`, belong to that table of the paper."""
    conditions, name = table["where"] or {}, table["paper"]
    runs = reports.where(runs, conditions, with_baseline="none" in as_list(table["baseline"]))
    return [run for run in runs if name is None or reports.stands_in(run, name)]


def _rows_and_columns(table: Mapping[str, Any]) -> tuple[list[str] | None, list[str]]:
    return as_list(table["rows"]) or None, as_list(table["columns"])


def _baseline(table: Mapping[str, Any]) -> Key | None:
    """Return the column of the baseline, if there is one.

    A single column key has a single value, which may itself be a list: elmo.mix=[0,1].
    """
    value = table["baseline"]
    values = as_list(value) if len(as_list(table["columns"])) > 1 or value is None else [value]
    return tuple(map(frozen, values)) or None


def _warn_of_corpora(runs: list[Run], title: str, conditions: Mapping[str, object]) -> None:
    """Say which corpora a table leaves out because a setting has no value for them."""
    for key, value in conditions.items():
        if not isinstance(value, Mapping):
            continue
        others = {other: conditions[other] for other in conditions if other != key}
        corpora = {str(run.settings.get("data.name", "-")) for run in reports.where(runs, others)}
        if missing := sorted(corpora - value.keys()):
            log.warning(
                "%s: %s has no value for %s, so the table has no runs of it",
                title or "where",
                key,
                ", ".join(missing),
            )


def _answers(runs: list[Run], title: str, table: dict[str, Any]) -> list[reports.Report]:
    rows, columns = _rows_and_columns(table)
    region = table["equal_within"]
    return reports.answers(
        runs,
        rows,
        columns,
        metric=table["metric"],
        split=table["split"],
        baseline=_baseline(table),
        title=title,
        paper=table["paper"],
        equal_within=None if region is None else region / 100,
    )


def as_list(value: Any) -> list[Any]:
    """Return the items of an option that may be null, a single value or a list."""
    return [] if value is None else value if isinstance(value, list) else [value]
