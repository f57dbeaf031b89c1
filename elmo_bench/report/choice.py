"""Settings of ELMo are compared on dev, as in the paper's Tables 2 and 3; test is asked once, for
what dev chose.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from elmo_bench.runs import Run, choice, distinguishing, is_baseline

from .names import name, task_titles
from .table import Cell, Key, Report, mixed, report

ELMO = "elmo."  # where the settings begin that dev chooses among


def answers(
    runs: Sequence[Run],
    rows: Sequence[str] | None,
    columns: Sequence[str],
    *,
    split: str | None = None,
    title: str = "",
    **asked: Any,
) -> list[Report]:
    """The report of a split; or, where it is None and the runs have settings of ELMo to choose
    among, two: all of them on dev, and on test the baseline and what dev chose.

    `asked` is what `report` takes. Runs without dev figures are compared on test.
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
        # The report on dev has these runs, too, and says it of all.
        code = mixed([run for cell in on_test.cells for run in cell.runs])
        notes = [*_choices(on_dev), *(note for note in on_test.notes if note not in code)]
        among = max(map(len, _alternatives(on_dev)))
        reports.append(replace(on_test, title=about, chosen_among=among, notes=notes))
    return reports


def _title(title: str, about: str) -> str:
    return f"{title}: {about}" if title else about.capitalize()


def searched(runs: Sequence[Run]) -> list[str]:
    """The settings of ELMo in which runs differ that are otherwise alike; a baseline has none."""
    keys = distinguishing(runs, ())
    own = [key for key in keys if key.startswith(ELMO)]
    others = [key for key in keys if not key.startswith(ELMO)]
    alike: dict[Key, set[Key]] = defaultdict(set)
    for run in runs:
        if not _has_no_layers(run):
            alike[choice(run, others)].add(choice(run, own))
    return own if any(len(settings) > 1 for settings in alike.values()) else []


def chosen(report: Report) -> list[Run]:
    """The runs of the baseline, and of those cells that differ in settings of ELMo alone the ones
    that are best.
    """
    alternatives = _alternatives(report)
    among = [cell for cells in alternatives for cell in cells]
    bases = [cell for cell in report.cells if cell not in among]
    best = [max(cells, key=lambda cell: cell.mean) for cells in alternatives]
    return [run for cell in (*bases, *best) for run in cell.runs]


def _alternatives(report: Report) -> list[list[Cell]]:
    """The cells that differ in settings of ELMo alone, together; of each dev chooses one."""
    alike: dict[Key, list[Cell]] = defaultdict(list)
    for cell in report.cells:
        if cell.column != report.baseline and not _has_no_layers(cell.runs[0]):
            alike[_without_elmo(report, cell)].append(cell)
    return [*alike.values()]


def _choices(report: Report) -> list[str]:
    """Notes on where dev had nothing to choose among, and where it could not tell."""
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
