"""Arrange runs by config keys in rows and columns, and compare the columns with a baseline."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from elmo_bench.bounds import one_of
from elmo_bench.runs import (
    Key,
    Run,
    check_files,
    distinguishing,
    equal,
    full_keys,
    short,
    text,
    values,
)
from elmo_bench.terminal import counted_noun, listed

from . import contrast
from .comparison import (
    BOTH,
    SPLITS,
    Correction,
    compared,
    families,
    figure_of,
    metric_of,
    size,
    split_title,
    splits_of,
)
from .folds import NO_FOLD, fold_of_run
from .names import name
from .published import published
from .remarks import remarks
from .table import Cell, Order, Report, comparisons_of, first_few, order

NO_BASELINE = "no baseline run in this row; move the keys that differ from `rows` to `columns`"
APART = "the texts of an example are read apart, and by others in one sequence"


def report(
    runs: Sequence[Run],
    rows: Sequence[str] | None,
    columns: Sequence[str],
    *,
    metric: str | None = None,
    split: str = "test",
    baseline: Key | None = None,
    title: str = "",
    paper: str | None = None,
) -> Report:
    """Return all cells, with their differences to the baseline; p is corrected for this report.

    `rows` are config keys: by default all that differ between runs, except columns and seed. The
    metric is by default the one that each run's task monitors, `paper` the paper's first table that
    has the setting.

    Raises ValueError for an unknown split, key, metric or baseline, if no run has the split, for
    runs of a cell that differ in more than their seed, and for a score that its counts do not
    give.
    """
    measured = _measured(runs, split)
    row_keys, column_keys = _keys(measured, rows, columns)
    _check_choices(measured, row_keys + column_keys)
    groups = grouped(measured, row_keys, column_keys)
    base_column = None
    if baseline is not None:
        heads = {column for _, column in groups}
        base_column = _column(baseline, heads, column_keys)

    def position(place: tuple[Key, Key]) -> tuple[Order, bool, Order]:
        row, column = place
        return order(row), column != base_column, order(column)

    untested_cells = []
    for row, column in sorted(groups, key=position):
        untested_cells.append(_cell(row, column, groups[row, column], metric, split, paper))
    untested = Report(row_keys, column_keys, metric, split, base_column, untested_cells, [], title)
    cells, notes = _compared(untested)
    missing = len(runs) - len(measured)
    if missing:
        on = split_title(split)
        notes.insert(0, f"left out: {counted_noun(missing, 'run')} not evaluated on {on}")
    notes += remarks(untested)
    return corrected([replace(untested, cells=cells, notes=notes)])[0]


def _measured(runs: Sequence[Run], split: str) -> list[Run]:
    """Return the runs that have scores on a split; raises ValueError if none has."""
    one_of("split", split, [*SPLITS, BOTH])
    measured = measured_on(runs, split)
    if split == BOTH and any(fold_of_run(run) != NO_FOLD for run in measured):
        raise ValueError(
            "split=both: runs with data.folds have an example in dev of one fold and in test of "
            "another, so it would count twice; use split=test"
        )
    if measured:
        return measured
    if split == "test":
        raise ValueError(
            f"split=test: none of {len(runs)} runs was evaluated on it; split=dev reports dev"
        )
    raise ValueError(
        f"split={split}: none of {len(runs)} runs was evaluated on {split_title(split)}; "
        "job=evaluate does so"
    )


def measured_on(runs: Iterable[Run], split: str) -> list[Run]:
    """Return the runs that have scores on a split, of `both` on each."""
    measured = list(runs)
    for each in splits_of(split):
        measured = [run for run in measured if _has_scores(run, each)]
    return measured


def _has_scores(run: Run, split: str) -> bool:
    return any(key.startswith(f"{split}/") for key in run.metrics)


def _keys(
    runs: Sequence[Run], rows: Sequence[str] | None, columns: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the whole keys; raises ValueError if runs of a cell differ in more than their seed."""
    column_keys = full_keys(runs, columns, "columns")
    wanted = rows
    if wanted is None:
        task = [] if "task.name" in column_keys else ["task.name"]
        wanted = task + distinguishing(runs, task + column_keys)
    row_keys = full_keys(runs, wanted, "rows")
    hidden = distinguishing(runs, row_keys + column_keys)
    if hidden:
        raise ValueError(
            f"rows=[{','.join(row_keys)}] columns=[{','.join(column_keys)}]: "
            f"runs of one cell differ in {listed(hidden)}; add it to rows or columns"
        )
    check_files(runs, row_keys + column_keys)
    return row_keys, column_keys


def _check_choices(runs: Sequence[Run], keys: Sequence[str]) -> None:
    """Raise ValueError if runs of a cell have the settings of two choices of `sweep=tune`."""
    choices: dict[Key, dict[Key, Run]] = defaultdict(dict)  # of each cell, a run of each choice
    for run in runs:
        if run.tune:
            choice = values(run, list(run.tune))
            choices[values(run, keys)].setdefault(choice, run)
    for setting, several in choices.items():
        if len(several) > 1:
            folders = listed(short(run.folder) for run in several.values())
            raise ValueError(
                f"{name(keys, setting)}: {folders} have the settings of different draws of "
                "sweep=tune: move those of the earlier choice away"
            )


def _column(asked: Key, columns: Iterable[Key], keys: Sequence[str]) -> Key:
    """Return the column of the baseline that was asked for; raises ValueError if there is none."""
    heads = sorted(columns, key=order)
    for head in heads:
        if len(asked) == len(head) and all(map(equal, head, asked)):
            return head
    shown = ", ".join(" ".join(map(text, head)) for head in heads)
    raise ValueError(
        f"baseline={','.join(map(text, asked))}: no such column; the values of {listed(keys)} in "
        f"the runs are {shown}"
    )


def grouped(
    runs: Iterable[Run], rows: Sequence[str], columns: Sequence[str] = ()
) -> dict[tuple[Key, Key], list[Run]]:
    """Group runs by row and column; of runs of a seed (and draw, and fold) the first that finished
    counts, a training before its own evaluations, which have neither epochs nor costs.
    """

    def precedence(run: Run) -> tuple[bool, str]:
        return run.epochs == 0, run.finished

    groups: dict[tuple[Key, Key], dict[Key, Run]] = defaultdict(dict)
    for run in runs:
        by_seed = groups[values(run, rows), values(run, columns)]
        folds = values(run, ["data.fold", "trained_on.fold"])
        number = (run.seed, run.trial, *folds)
        if number not in by_seed or precedence(run) < precedence(by_seed[number]):
            by_seed[number] = run
    return {place: list(by_seed.values()) for place, by_seed in groups.items()}


def _cell(
    row: Key, column: Key, runs: list[Run], metric: str | None, split: str, paper: str | None
) -> Cell:
    """Return a cell without its comparison."""
    figures = tuple(figure_of(run, metric, split) for run in runs)
    theirs = published(runs[0], metric_of(runs[0], metric), split, paper)
    return Cell(row, column, runs, figures, size(runs, metric, split), theirs)


def _compared(report: Report) -> tuple[list[Cell], list[str]]:
    """Return the cells with their comparisons, and notes on those without a test."""
    flaws: dict[str, dict[str, None]] = defaultdict(dict)  # what is wrong -> cells, in order
    is_joint = any(run.settings.get("task.joint") for run in report.runs)
    cells = []
    for cell in report.cells:
        setting = report.name_of(cell.key)
        run = cell.runs[0]
        if is_joint and run.settings.get("task.joint") is False and not run.is_baseline:
            flaws[APART][setting] = None
        base = report.base(cell.row)
        if report.baseline is not None and base is None:
            flaws[NO_BASELINE][name(report.rows, cell.row, report.task_titles)] = None
        if base is None or cell.column == report.baseline:
            cells.append(cell)
            continue
        comparison = compared(cell.runs, base.runs, report.metric, report.split)
        cells.append(replace(cell, comparison=comparison))
        if comparison.flaw:
            why, folder = comparison.flaw
            concerned = f"{setting} ({folder})" if folder else setting
            flaws[f"no test, since {why}"][concerned] = None
    notes = [f"{first_few(list(settings))}: {why}" for why, settings in flaws.items()]
    return cells, sorted(notes)


def corrected(reports: Sequence[Report], correct: Correction | None = None) -> list[Report]:
    """Return the reports with p corrected, by default for all comparisons in them; contrasts are a
    family of their own.
    """
    correction = correct or families(comparisons_of(reports))
    of_all_reports = []
    for report in reports:
        of_all_reports += report.contrasts
    remaining = contrast.corrected(of_all_reports)
    corrected_reports = []
    for report in reports:
        cells = []
        for cell in report.cells:
            comparison = cell.comparison and correction(cell.comparison)
            cells.append(replace(cell, comparison=comparison))
        number = len(report.contrasts)
        corrected_reports.append(replace(report, cells=cells, contrasts=remaining[:number]))
        remaining = remaining[number:]
    return corrected_reports
