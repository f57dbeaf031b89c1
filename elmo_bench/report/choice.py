"""Model selection: ELMo settings are compared on dev, as in Tables 2 and 3 of Peters et al. (2018),
and only the setting chosen on dev is reported on test.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from elmo_bench.runs import Run, choice, distinguishing, is_baseline

from .names import name, task_titles
from .table import Cell, Key, Report, mixed, report

ELMO = "elmo."  # prefix of the settings that are selected on dev


def answers(
    runs: Sequence[Run],
    rows: Sequence[str] | None,
    columns: Sequence[str],
    *,
    split: str | None = None,
    title: str = "",
    **asked: Any,
) -> list[Report]:
    """Return the report of a split, or a report on dev and one on test.

    Two reports are returned if `split` is None and the runs differ in settings of ELMo: one of all
    settings on dev, and one of the baseline and the setting chosen on dev, on test. Runs without
    dev figures are compared on test. `asked` holds further arguments of `report`.
    """
    if split or not searched(runs) or not any(_measured(run, "val/") for run in runs):
        return [report(runs, rows, columns, split=split or "test", title=title, **asked)]
    on_dev = report(runs, rows, columns, split="dev", title=title, **asked)
    reports = [replace(on_dev, title=_title(title, "compared on dev"))]
    if kept := [run for run in chosen(on_dev) if _measured(run, "test/")]:
        kept_columns = {choice(run, on_dev.columns) for run in kept}
        asked["baseline"] = on_dev.baseline if on_dev.baseline in kept_columns else None
        on_test = report(kept, on_dev.rows, on_dev.columns, split="test", title=title, **asked)
        about = _title(title, "on test, what dev chose")
        # The report on dev includes these runs and already has the note on mixed code.
        code = mixed([run for cell in on_test.cells for run in cell.runs])
        notes = [*_choices(on_dev), *(note for note in on_test.notes if note not in code)]
        among = max(map(len, _alternatives(on_dev)))
        reports.append(replace(on_test, title=about, chosen_among=among, notes=notes))
    return reports


def _title(title: str, about: str) -> str:
    return f"{title}: {about}" if title else about.capitalize()


def searched(runs: Sequence[Run]) -> list[str]:
    """Return the settings of ELMo that differ between otherwise equal runs.

    Baseline runs are ignored, since they have no settings of ELMo.
    """
    keys = distinguishing(runs, ())
    own = [key for key in keys if key.startswith(ELMO)]
    others = [key for key in keys if not key.startswith(ELMO)]
    alike: dict[Key, set[Key]] = defaultdict(set)
    for run in runs:
        if not _has_no_layers(run):
            alike[choice(run, others)].add(choice(run, own))
    return own if any(len(settings) > 1 for settings in alike.values()) else []


def chosen(report: Report) -> list[Run]:
    """Return the runs of the baseline and of the best cell of each group of alternatives."""
    alternatives = _alternatives(report)
    among = [cell for cells in alternatives for cell in cells]
    bases = [cell for cell in report.cells if cell not in among]
    best = [max(cells, key=lambda cell: cell.mean) for cells in alternatives]
    return [run for cell in (*bases, *best) for run in cell.runs]


def _alternatives(report: Report) -> list[list[Cell]]:
    """Group the cells that differ only in settings of ELMo; dev chooses one of each group."""
    alike: dict[Key, list[Cell]] = defaultdict(list)
    for cell in report.cells:
        if cell.column != report.baseline and not _has_no_layers(cell.runs[0]):
            alike[_without_elmo(report, cell)].append(cell)
    return [*alike.values()]


def _choices(report: Report) -> list[str]:
    """Return notes on groups that have a single setting, and on ties."""
    notes, keys = [], [*report.rows, *report.columns]
    titles = task_titles(run for cell in report.cells for run in cell.runs)

    def called(cell: Cell) -> str:
        return name(keys, [*cell.row, *cell.column], titles)

    alternatives = _alternatives(report)
    if single := [called(cells[0]) for cells in alternatives if len(cells) == 1]:
        notes.append(
            f"not chosen on dev, since the runs have no other setting: {'; '.join(single)}"
        )
    for cells in alternatives:
        highest = max(cell.mean for cell in cells)
        best = [cell for cell in cells if cell.mean == highest]
        if len(best) > 1:
            others = "; ".join(map(called, best[1:]))
            notes.append(
                f"{called(best[0])} stands for others that are as good on dev "
                f"({100 * highest:.2f}), since it comes first: {others}"
            )
    return notes


def _without_elmo(report: Report, cell: Cell) -> Key:
    values = zip([*report.rows, *report.columns], [*cell.row, *cell.column], strict=True)
    return tuple(value for key, value in values if not key.startswith(ELMO))


def _measured(run: Run, split: str) -> bool:
    return any(name.startswith(split) for name in run["metrics"])


def _has_no_layers(run: Run) -> bool:
    return "elmo" in run["config"] and "encoder" in run["config"] and is_baseline(run["config"])
