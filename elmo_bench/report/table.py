"""Aggregate runs into rows and columns by config keys: mean and standard deviation over seeds, and
differences to a baseline.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from elmo_bench.files import one_of
from elmo_bench.runs import (
    ENCODER,
    MIX,
    NOTHING,
    Key,
    Run,
    distinguishing,
    equal,
    full_keys,
    other_files,
    text,
    values,
    varies,
)

from .comparison import (
    SPLITS,
    CompareOptions,
    Comparison,
    Correction,
    compared,
    families,
    figure_of,
    limits,
    metric_of,
)
from .names import is_number, name, task_titles
from .published import published

# `_rank` gives 2, 4 and 6 to others.
RANKS: dict[Hashable, int] = {NOTHING: 0, "none": 1, "top": 3, "uniform": 5, "all": 7}
NO_BASELINE = (
    "no comparison: this row has no baseline run; move the keys that differ from "
    "`rows` to `columns`"
)
NAMED = 3  # a note names up to this many cells, and counts the others


@dataclass(frozen=True)
class Cell:
    """The runs of a row and column, one for each seed; figures are fractions of 1."""

    row: Key
    column: Key
    runs: list[Run]
    figures: tuple[float, ...]  # one for each run
    mean: float
    deviation: float | None  # standard deviation over runs; None for a single run
    best: bool  # whether it is the best of several cells in its row
    published: float | None  # the paper's figure for this setting, on the paper's data
    comparison: Comparison | None

    @property
    def task(self) -> str:
        """The name of the runs' task."""
        return self.runs[0].task

    @property
    def key(self) -> Key:
        """The values of the report's keys."""
        return (*self.row, *self.column)


@dataclass(frozen=True, eq=False)
class Report:
    """Cells in the order of rows and columns.

    `rows` and `columns` are config keys, `baseline` is the key of a column.
    """

    rows: list[str]
    columns: list[str]
    metric: str | None
    split: str
    baseline: Key | None
    cells: list[Cell]
    notes: list[str]  # reasons why comparisons have no test, and remarks on the runs
    title: str = ""  # distinguishes several reports
    equal_within: float | None = None  # smaller differences are practically equal; fraction of 1
    chosen_among: int = 0  # largest number of settings that dev chose a cell from; 0: no choice

    @property
    def keys(self) -> list[str]:
        """The config keys of rows and columns."""
        return [*self.rows, *self.columns]

    @property
    def remarks(self) -> list[str]:
        """All notes: `notes`, and those on designs with too few runs."""
        return [*self.notes, *limits(comparisons_of([self]))]

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells for run in cell.runs]

    def base(self, row: Key) -> Cell | None:
        """Return the cell of the baseline that applies to a row; None if none does."""
        bases = {cell.row: cell for cell in self.cells if cell.column == self.baseline}
        serving = base_row(bases, row, self.rows)
        return None if serving is None else bases[serving]

    def by_row(self) -> dict[Key, dict[Key, Cell]]:
        """Return each row's cells by column, with the baseline that applies to the row."""
        rows: dict[Key, dict[Key, Cell]] = defaultdict(dict)
        for cell in self.cells:
            rows[cell.row][cell.column] = cell
        for row, cells in rows.items():
            if base := self.base(row):
                cells[base.column] = base
        return dict(rows)


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
    equal_within: float | None = None,
) -> Report:
    """Return all cells, with their differences to the baseline; p is corrected for this report.

    A cell's baseline is the cell of the baseline's column in the same row. If row keys have no
    effect on the baseline, it is the cell of the row with "-" for these keys.

    Args:
        runs: the finished runs.
        rows: config keys; by default all keys that differ between runs, except columns and seed.
        columns: config keys.
        metric: name of the metric; by default the metric that each run's task monitors.
        split: `dev` or `test`.
        baseline: the column to compare with.
        title: title of the report, which error messages name.
        paper: table of the paper to compare with; by default the first that has the setting.
        equal_within: differences significantly below this fraction of 1 are practically equal.

    Raises:
        ValueError: an unknown split, key, metric or baseline, no run of the split, (with `rows`)
        runs of a cell that differ in more than their seed, or a figure that its counts do not give.

    """
    place = f"tables.{title}." if title else ""
    one_of(f"{place}split", split, SPLITS)
    measured = _measured(runs, split, place)
    rows, columns = _keys(measured, rows, columns, place)
    groups = _groups(measured, rows, columns)
    baseline = _column(baseline, groups, f"{place}baseline", columns, split)
    cells = [
        _cell(row, column, group[column], metric, split, paper)
        for row, group in sorted(groups.items(), key=lambda item: order(item[0]))
        for column in sorted(group, key=lambda column: (column != baseline, order(column)))
    ]
    whole = Report(rows, columns, metric, split, baseline, cells, [], title, equal_within)
    cells, notes = _compared(whole)
    if len(measured) < len(runs):
        notes.insert(0, f"left out: {_runs(len(runs) - len(measured))} not evaluated on {split}")
    notes += [*_repeated(measured, whole.keys), *mixed(whole.runs)]
    return corrected([replace(whole, cells=cells, notes=notes)])[0]


def _measured(runs: Sequence[Run], split: str, place: str) -> list[Run]:
    """Return the runs that have figures on a split; raises ValueError if none has."""
    measured = [run for run in runs if is_measured(run, split)]
    if not measured:
        other = "; split=dev reports dev" if split == "test" else ""
        raise ValueError(
            f"{place}split={split}: none of {len(runs)} runs was evaluated on it{other}"
        )
    return measured


def is_measured(run: Run, split: str) -> bool:
    """Whether a run has figures on a split."""
    return any(key.startswith(f"{split}/") for key in run.metrics)


def _keys(
    runs: Sequence[Run], rows: Sequence[str] | None, columns: Sequence[str], place: str
) -> tuple[list[str], list[str]]:
    """Return the whole keys of rows and columns; raises ValueError if runs of a cell differ in more
    than their seed.
    """
    columns = full_keys(runs, columns, f"{place}columns")
    rows = distinguishing(runs, columns) if rows is None else full_keys(runs, rows, f"{place}rows")
    keys = [*rows, *columns]
    if hidden := hidden_keys(runs, keys):
        raise ValueError(
            f"{place}rows={rows} {place}columns={columns}: runs of one cell differ in "
            f"{hidden}; add it to rows or columns"
        )
    if why := other_files(runs, keys):
        raise ValueError(f"{place}{why}")
    return rows, columns


def hidden_keys(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """Return the other config keys, except the seed, that differ between runs equal in `keys`."""
    hidden = distinguishing(runs, keys)
    return [key for key in hidden if key != "task.name" or varies(runs, keys, key)]


def _column(
    asked: Key | None,
    groups: Mapping[Key, Mapping[Key, list[Run]]],
    option: str,
    columns: Sequence[str],
    split: str,
) -> Key | None:
    """Return the column of the baseline that was asked for; raises ValueError if there is none."""
    if asked is None:
        return None
    heads = sorted({column for group in groups.values() for column in group}, key=order)
    for head in heads:
        if len(asked) == len(head) and all(map(equal, head, asked)):
            return head
    raise ValueError(
        f"{option}={[*map(text, asked)]}: no such column; the values of {columns} in the runs "
        f"evaluated on {split} are {[[*map(text, head)] for head in heads]}"
    )


def _cell(
    row: Key, column: Key, runs: list[Run], metric: str | None, split: str, paper: str | None
) -> Cell:
    """Return a cell without its comparison."""
    figures = tuple(figure_of(run, metric, split) for run in runs)
    return Cell(
        row=row,
        column=column,
        runs=runs,
        figures=figures,
        mean=statistics.fmean(figures),
        deviation=statistics.stdev(figures) if len(figures) > 1 else None,
        best=False,
        published=published(runs[0], metric_of(runs[0], metric), split, paper),
        comparison=None,
    )


def is_best(cell: Cell, row: Iterable[Cell]) -> bool:
    """Whether a cell's mean is the highest of its task in a row, unless all are equal."""
    means = [each.mean for each in row if each.task == cell.task]
    return cell.mean == max(means) > min(means)


def _groups(
    runs: Sequence[Run], rows: Sequence[str], columns: Sequence[str]
) -> dict[Key, dict[Key, list[Run]]]:
    """Group runs as row -> column -> runs; of runs of a seed the first that finished counts.

    A training run comes before its own evaluations, which have neither epochs nor costs.
    """
    groups: dict[Key, dict[Key, dict[int, Run]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        by_seed = groups[values(run, rows)][values(run, columns)]
        by_seed[run.seed] = min(
            (by_seed.get(run.seed, run), run), key=lambda same: (same.epochs == 0, same.finished)
        )
    return {
        row: {column: [*by_seed.values()] for column, by_seed in group.items()}
        for row, group in groups.items()
    }


def of_rows(runs: Sequence[Run], rows: Sequence[str]) -> dict[Key, list[Run]]:
    """Return the runs of each row, one for each seed."""
    return {row: group[()] for row, group in _groups(runs, rows, []).items()}


def _repeated(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """Return a note if runs of the same cell and seed have different figures."""
    figures: dict[tuple[Key, int], dict[str, set[float]]] = defaultdict(lambda: defaultdict(set))
    for run in runs:
        for metric, value in run.metrics.items():
            figures[values(run, keys), run.seed][metric].add(value)
    several = [any(len(found) > 1 for found in each.values()) for each in figures.values()]
    if not (count := sum(several)):
        return []
    return [
        f"{count} combinations of settings, files and seed have runs with different metrics "
        "(perhaps from another machine): only the first finished run counts"
    ]


def mixed(runs: Sequence[Run]) -> list[str]:
    """Return notes on runs of different commits or package versions."""
    notes = []
    commits = Counter(run.commit for run in runs if run.commit)
    if len(commits) > 1:
        shown = ", ".join(
            f"{commit[:10]}{'+' * commit.endswith('+')} ({count})"
            for commit, count in sorted(commits.items(), key=lambda item: (-item[1], item[0]))
        )
        notes.append(
            f"runs of different commits of elmo-bench: {shown}; + marks uncommitted changes"
        )
    for package in sorted({each for run in runs for each in run.versions}):
        versions = Counter(run.versions[package] for run in runs if package in run.versions)
        if len(versions) > 1:
            shown = ", ".join(f"{version} ({n})" for version, n in sorted(versions.items()))
            notes.append(f"runs with different versions of {package}: {shown}")
    return notes


def order(key: Key) -> list[tuple[int, float, str]]:
    """Return the sort key of a setting.

    The order is: no value, the baseline, numbers by size (layers from the lowest), the top layer,
    lists of layers, their mean, other words, all layers.

    >>> sorted(("all", "top", (0, 1), 2, "none", (0,), "books", "-"), key=lambda x: order((x,)))
    ['-', 'none', (0,), 2, 'top', (0, 1), 'books', 'all']
    """
    return [*map(_rank, key)]


def _rank(setting: Hashable) -> tuple[int, float, str]:
    items = setting if isinstance(setting, tuple) else (setting,)
    if len(items) == 1 and is_number(items[0]):
        return 2, float(items[0]), ""
    if setting in RANKS:
        return RANKS[setting], 0.0, ""
    return (4 if all(map(is_number, items)) else 6), float(len(items)), text(setting)


def corrected(reports: Sequence[Report], correct: Correction | None = None) -> list[Report]:
    """Return the reports with p corrected, by default for all comparisons in them."""
    correct = correct or families(comparisons_of(reports))
    return [
        replace(
            each,
            cells=[
                replace(cell, comparison=cell.comparison and correct(cell.comparison))
                for cell in each.cells
            ],
        )
        for each in reports
    ]


def comparisons_of(reports: Iterable[Report]) -> list[Comparison]:
    return [cell.comparison for each in reports for cell in each.cells if cell.comparison]


class Noted(NamedTuple):
    """A cell, or a row, that a note is about, and the folder of a run behind it."""

    name: str
    folder: str = ""


def _compared(report: Report) -> tuple[list[Cell], list[str]]:
    """Return the cells with their comparisons and which is the best of its row, and notes."""
    options = CompareOptions(report.metric, report.split, report.equal_within)
    titles, by_row = task_titles(report.runs), report.by_row()
    flaws: dict[str, dict[Noted, None]] = defaultdict(dict)  # reason -> cells, in order
    cells = []
    for cell in report.cells:
        base = report.base(cell.row)
        if report.baseline is not None and base is None:
            flaws[NO_BASELINE][Noted(name(report.rows, cell.row, titles))] = None
        if base and cell.column != report.baseline:
            result, its_flaws = compared(cell.runs, base.runs, options)
            cell = replace(cell, comparison=result)
            shown = name(report.keys, cell.key, titles)
            for flaw in its_flaws:
                flaws[flaw.why][Noted(shown, flaw.folder)] = None
        cells.append(replace(cell, best=is_best(cell, by_row[cell.row].values())))
    return cells, sorted(_note(why, [*about]) for why, about in flaws.items())


def _note(why: str, about: Sequence[Noted]) -> str:
    """Format a note on the cells of a flaw, with the first cell's run folder."""
    shown = "; ".join(each.name for each in about[:NAMED])
    more = f" and {len(about) - NAMED} more" if len(about) > NAMED else ""
    folder = f" ({about[0].folder})" if about[0].folder else ""
    return f"{shown}{more}: {why}{folder}"


def _runs(count: int) -> str:
    return f"{count} run{' that was' if count == 1 else 's that were'}"


def base_row(rows: Iterable[Key], row: Key, keys: Sequence[str]) -> Key | None:
    """Return the row, of those with a baseline, whose baseline applies to `row`; None if none does.

    It is the row itself or the nearest one that differs only by "-", for keys without effect on the
    baseline, or by `none` as encoder or mix.

    >>> base_row([("ner", "-"), ("srl", 0.1)], ("ner", 0.1), ["task", "elmo.l2"])
    ('ner', '-')
    >>> base_row([("ner", "none")], ("ner", "books"), ["task", "encoder.name"])
    ('ner', 'none')
    """

    def serves(base: Key) -> bool:
        return all(
            theirs in (ours, NOTHING) or (theirs == "none" and key in (ENCODER, MIX))
            for key, theirs, ours in zip(keys, base, row, strict=True)
        )

    def distance(base: Key) -> int:
        return sum(theirs != ours for theirs, ours in zip(base, row, strict=True))

    return min(filter(serves, rows), key=distance, default=None)
