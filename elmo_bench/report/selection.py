"""Model selection: ELMo settings are compared on dev, as in Tables 2 and 3 of Peters et al. (2018),
and only the setting chosen on dev is reported on test.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from elmo_bench.runs import Key, Run, distinguishing, is_baseline, values

from .labels import titled
from .names import name, task_titles
from .table import Cell, Report, is_measured, mixed, report

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
    """Return the report of a split, or a report on dev and one on test.

    Two reports are returned if `split` is None and the runs differ in settings of ELMo: one of all
    settings on dev, and one of the baseline and the setting chosen on dev, on test. Runs without
    dev figures are compared on test. `options` holds further arguments of `report`.
    """
    if split or not searched(runs) or not any(is_measured(run, "dev") for run in runs):
        return [report(runs, rows, columns, split=split or "test", title=title, **options)]
    on_dev = report(runs, rows, columns, split="dev", title=title, **options)
    chosen = _chosen(on_dev)
    measured = [run for run in chosen if is_measured(run, "test")]
    reports = [replace(on_dev, title=titled(title, "compared on dev"))]
    if measured:
        has_baseline = on_dev.baseline in {values(run, on_dev.columns) for run in measured}
        options["baseline"] = on_dev.baseline if has_baseline else None
        on_test = report(
            measured, on_dev.rows, on_dev.columns, split="test", title=title, **options
        )
        # The report on dev includes these runs and already has the note on mixed code.
        notes = [note for note in on_test.notes if note not in mixed(on_test.runs)]
        missing = len(chosen) - len(measured)
        left_out = [f"not evaluated on test: {missing} of {len(chosen)} runs"] if missing else []
        on_test = replace(
            on_test,
            title=titled(title, "on test, the baseline and the best other setting on dev"),
            chosen_among=max(map(len, _alternatives(on_dev))),
            notes=[*left_out, *_choices(on_dev), *notes],
        )
        reports.append(on_test)
    return reports


def searched(runs: Sequence[Run]) -> list[str]:
    """Return the settings of ELMo that differ between otherwise equal runs.

    Baseline runs are ignored, since they have no settings of ELMo.
    """
    keys = distinguishing(runs, ())
    elmo_keys = [key for key in keys if key.startswith(ELMO)]
    other_keys = [key for key in keys if not key.startswith(ELMO)]
    settings_by_group: dict[Key, set[Key]] = defaultdict(set)
    for run in runs:
        if not _has_no_layers(run):
            settings_by_group[values(run, other_keys)].add(values(run, elmo_keys))
    return elmo_keys if any(len(settings) > 1 for settings in settings_by_group.values()) else []


def _chosen(report: Report) -> list[Run]:
    """Return the runs of the baseline and of the best cell of each group of alternatives."""
    alternatives = _alternatives(report)
    candidates = [cell for cells in alternatives for cell in cells]
    baselines = [cell for cell in report.cells if cell not in candidates]
    best = [max(cells, key=lambda cell: cell.mean) for cells in alternatives]
    return [run for cell in (*baselines, *best) for run in cell.runs]


def _alternatives(report: Report) -> list[list[Cell]]:
    """Group the cells of a row that differ only in settings of ELMo; dev chooses one of each
    group.
    """
    groups: dict[Key, list[Cell]] = defaultdict(list)
    for cell in report.cells:
        if cell.column != report.baseline and not _has_no_layers(cell.runs[0]):
            columns = zip(report.columns, cell.column, strict=True)
            others = (value for key, value in columns if not key.startswith(ELMO))
            groups[*cell.row, *others].append(cell)
    return [*groups.values()]


def _choices(report: Report) -> list[str]:
    """Return notes on groups that have a single setting, on ties, and on baselines that are better
    on dev than all settings.
    """
    titles = task_titles(report.runs)

    def label(cell: Cell) -> str:
        return name(report.keys, cell.key, titles)

    alternatives, notes = _alternatives(report), []
    if single := [label(cells[0]) for cells in alternatives if len(cells) == 1]:
        notes.append(
            "not chosen on dev, since the runs have no other setting beside the baseline's: "
            f"{'; '.join(single)}"
        )
    for cells in alternatives:
        highest = max(cell.mean for cell in cells)
        first, *ties = [cell for cell in cells if cell.mean == highest]
        base = report.base(first.row)
        if base and base.mean > highest:
            notes.append(
                f"{label(first)} is not what dev would choose: the baseline is better on it "
                f"({100 * base.mean:.2f} against {100 * highest:.2f})"
            )
        if ties:
            notes.append(
                f"{label(first)} stands for others that are as good on dev "
                f"({100 * highest:.2f}), since it comes first: {'; '.join(map(label, ties))}"
            )
    return notes


def _has_no_layers(run: Run) -> bool:
    return "elmo" in run.config and "encoder" in run.config and is_baseline(run.config)
