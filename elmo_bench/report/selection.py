"""Model selection: dev selects an ELMo setting, as in the paper's Tables 2 and 3; it is tested.

Dev chooses only among settings with as many runs as the one with most: a mean of few runs has more
noise, so a lucky run would often beat the mean of five.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from elmo_bench.runs import Key, Run, distinguishing, values
from elmo_bench.terminal import counted_noun

from .labels import titled
from .remarks import MIXED
from .table import Cell, Report
from .tabulate import measured_on, report

ELMO = ("elmo.", "finetune.")  # prefixes of the settings that are selected on dev


def select(
    runs: Sequence[Run],
    rows: Sequence[str] | None,
    columns: Sequence[str],
    *,
    split: str | None = None,
    title: str = "",
    **options: Any,
) -> list[Report]:
    """Return the report of a split or, if `split` is None and the runs differ in settings of ELMo,
    one of all settings on dev, and one of the baseline and the setting selected on dev, on test.

    Runs without dev scores are compared on test. `options` holds further arguments of `report`. A
    setting with fewer runs than another of its side is not chosen, and a note names it.
    """
    if split or not _is_search(runs) or not measured_on(runs, "dev"):
        return [report(runs, rows, columns, split=split or "test", title=title, **options)]
    on_dev = report(runs, rows, columns, split="dev", title=title, **options)
    reports = [replace(on_dev, title=titled(title, "compared on dev"))]
    alternatives = _alternatives(on_dev)
    best: list[Cell] = []
    among = 0
    for cells in alternatives:
        choices = _with_most_runs(cells)
        best.append(max(choices, key=lambda cell: cell.mean))
        among = max(among, len(choices))
    selected = _selected(runs, on_dev, best)
    measured = measured_on(selected, "test")
    if not measured or not alternatives:
        return reports
    columns_on_test = {values(run, on_dev.columns) for run in measured}
    options["baseline"] = on_dev.baseline if on_dev.baseline in columns_on_test else None
    on_test = report(selected, on_dev.rows, on_dev.columns, split="test", title=title, **options)
    notes = _with_fewer_runs(on_dev, alternatives) + _not_chosen(on_dev, best)
    # The report on dev includes these runs and already has the note on different code.
    notes += [note for note in on_test.notes if not note.startswith(MIXED)]
    title_on_test = titled(title, "on test, the baseline and the best other setting on dev")
    reports.append(replace(on_test, title=title_on_test, chosen_among=among, notes=notes))
    return reports


def _selected(runs: Sequence[Run], on_dev: Report, best: Sequence[Cell]) -> list[Run]:
    """Return the runs with the settings of the best cells and of all cells that are no alternative,
    such as the baseline.
    """
    keys = [*on_dev.keys, "data.name"]  # job=evaluate may score on another corpus
    settings: set[Key] = set()
    for cell in on_dev.cells:
        if cell in best or not _is_alternative(on_dev, cell):
            settings.add(values(cell.runs[0], keys))
    return [run for run in runs if values(run, keys) in settings]


def _is_search(runs: Sequence[Run]) -> bool:
    """Whether settings of ELMo differ between runs, without the baseline's, that are else equal.

    >>> from pathlib import Path
    >>> task, mini = {"name": "ner"}, {"name": "mini"}
    >>> def a_run(corpus, mix):
    ...     config = {"task": task, "encoder": mini, "data": {"name": corpus}, "elmo": {"mix": mix}}
    ...     return Run(Path(), config)
    >>> _is_search([a_run("conll", "all"), a_run("conll", "top")])
    True
    >>> _is_search([a_run("conll", "all"), a_run("wnut", "top")])
    False
    """
    keys = distinguishing(runs, ())
    other_keys = [key for key in keys if not key.startswith(ELMO)]
    settings: set[Key] = set()
    other_settings: set[Key] = set()
    for run in runs:
        if not run.is_baseline:
            settings.add(values(run, keys))
            other_settings.add(values(run, other_keys))
    return len(settings) > len(other_settings)


def _alternatives(report: Report) -> list[list[Cell]]:
    """Group the cells that differ only in settings of ELMo: dev selects one of each."""
    other_keys = [key for key in report.keys if not key.startswith(ELMO)]
    groups: dict[Key, list[Cell]] = defaultdict(list)
    for cell in report.cells:
        if _is_alternative(report, cell):
            groups[values(cell.runs[0], other_keys)].append(cell)
    return list(groups.values())


def _is_alternative(report: Report, cell: Cell) -> bool:
    """Whether dev may select a cell: it is no baseline."""
    return cell.column != report.baseline and not cell.runs[0].is_baseline


def _with_most_runs(cells: Sequence[Cell]) -> list[Cell]:
    most = _most_runs(cells)
    return [cell for cell in cells if len(cell.runs) == most]


def _most_runs(cells: Sequence[Cell]) -> int:
    return max(len(cell.runs) for cell in cells)


def _with_fewer_runs(report: Report, alternatives: Sequence[Sequence[Cell]]) -> list[str]:
    """Return notes on settings that dev could not choose, since others have more runs."""
    notes = []
    for cells in alternatives:
        most = _most_runs(cells)
        for cell in cells:
            if len(cell.runs) < most:
                setting = report.name_of(cell.key)
                count = counted_noun(len(cell.runs), "run")
                notes.append(f"{setting}: {count}, but others have {most}, so dev cannot choose it")
    return notes


def _not_chosen(report: Report, chosen: Sequence[Cell]) -> list[str]:
    """Return notes on baselines that are better on dev than what was chosen."""
    notes = []
    for cell in chosen:
        base = report.base(cell.row)
        if base and base.mean > cell.mean:
            notes.append(
                f"{report.name_of(cell.key)} is not what dev would choose: the baseline is better "
                f"on it ({100 * base.mean:.2f} against {100 * cell.mean:.2f})"
            )
    return notes
