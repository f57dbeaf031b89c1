"""Aggregate runs into rows and columns by config keys: mean and standard deviation over seeds, and
differences to a baseline.
"""

import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from elmo_bench.files import counted_noun, listed, one_of
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
    Comparison,
    Correction,
    compared,
    examples_of,
    families,
    figure_of,
    metric_of,
    size,
)
from .names import is_number, name, task_titles
from .published import published

RANKS: dict[Hashable, int] = {NOTHING: 0, "none": 1, "top": 3, "all": 5}  # numbers 2, others 4
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
    size: str = ""  # the number of examples, such as "170 in 18 documents", if it is known
    published: float | None = None  # the paper's figure for this setting, on the paper's data
    best: bool = False  # whether it is the best of several cells in its row
    comparison: Comparison | None = None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.figures)

    @property
    def deviation(self) -> float | None:
        """The standard deviation over runs; None for a single run."""
        return statistics.stdev(self.figures) if len(self.figures) > 1 else None

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
    """Cells in the order of rows and columns, in a row the baseline first.

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
    chosen_among: int = 0  # largest number of settings that dev chose a cell from; 0: no choice

    @property
    def keys(self) -> list[str]:
        """The config keys of rows and columns."""
        return [*self.rows, *self.columns]

    @property
    def runs(self) -> list[Run]:
        return [run for cell in self.cells for run in cell.runs]

    @cached_property
    def heads(self) -> list[Key]:
        """The columns in order, the baseline first."""
        columns = {cell.column for cell in self.cells}
        return sorted(columns, key=lambda column: (column != self.baseline, order(column)))

    @cached_property
    def _bases(self) -> dict[Key, Cell]:
        return {cell.row: cell for cell in self.cells if cell.column == self.baseline}

    def base(self, row: Key) -> Cell | None:
        """Return the cell of the baseline that applies to a row; None if none does."""
        serving = base_row(self._bases, row, self.rows)
        return None if serving is None else self._bases[serving]

    @cached_property
    def by_row(self) -> dict[Key, dict[Key, Cell]]:
        """Each row's cells by column, with the baseline that applies to the row.

        A row that has only a baseline is left out if another row uses that baseline.
        """
        rows: dict[Key, dict[Key, Cell]] = defaultdict(dict)
        for cell in self.cells:
            rows[cell.row][cell.column] = cell
        lending = set()
        for row, cells in rows.items():
            if (base := self.base(row)) and base.row != row:
                cells[base.column] = base
                lending.add(base.row)
        return {row: cells for row, cells in rows.items() if len(cells) > 1 or row not in lending}


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

    A cell's baseline is the cell of the baseline's column in the same row. If row keys have no
    effect on the baseline, it is the cell of the row with "-" for these keys.

    `rows` are config keys: by default all that differ between runs, except columns and seed. The
    metric is by default the one that each run's task monitors, `paper` the paper's first table that
    has the setting.

    Raises ValueError for an unknown split, key, metric or baseline, if no run has the split, for
    runs of a cell that differ in more than their seed, and for a figure that its counts do not
    give.
    """
    one_of("split", split, SPLITS)
    measured = [run for run in runs if is_measured(run, split)]
    if not measured:
        other = "; split=dev reports dev" if split == "test" else ""
        raise ValueError(f"split={split}: none of {len(runs)} runs was evaluated on it{other}")
    rows, columns = _keys(measured, rows, columns)
    groups = grouped(measured, rows, columns)
    if baseline is not None:
        baseline = _column(baseline, {column for _, column in groups}, columns)
    places = sorted(groups, key=lambda at: (order(at[0]), at[1] != baseline, order(at[1])))
    cells = [_cell(*place, groups[place], metric, split, paper) for place in places]
    whole = Report(rows, columns, metric, split, baseline, cells, [], title)
    cells, notes = _compared(whole)
    if missing := len(runs) - len(measured):
        notes.insert(0, f"left out: {counted_noun(missing, 'run')} not evaluated on {split}")
    return corrected([replace(whole, cells=cells, notes=[*notes, *mixed(whole.runs)])])[0]


def is_measured(run: Run, split: str) -> bool:
    """Whether a run has figures on a split."""
    return any(key.startswith(f"{split}/") for key in run.metrics)


def _keys(
    runs: Sequence[Run], rows: Sequence[str] | None, columns: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the whole keys of rows and columns; raises ValueError if runs of a cell differ in more
    than their seed.
    """
    columns = full_keys(runs, columns, "columns")
    rows = distinguishing(runs, columns) if rows is None else full_keys(runs, rows, "rows")
    keys = [*rows, *columns]
    if hidden := hidden_keys(runs, keys):
        raise ValueError(
            f"rows={rows} columns={columns}: runs of one cell differ in "
            f"{hidden}; add it to rows or columns"
        )
    if why := other_files(runs, keys):
        raise ValueError(why)
    return rows, columns


def hidden_keys(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """Return the other config keys, except the seed, that differ between runs equal in `keys`."""
    hidden = distinguishing(runs, keys)
    return [key for key in hidden if key != "task.name" or varies(runs, keys, key)]


def _column(asked: Key, columns: Iterable[Key], keys: Sequence[str]) -> Key:
    """Return the column of the baseline that was asked for; raises ValueError if there is none."""
    heads = sorted(columns, key=order)
    for head in heads:
        if len(asked) == len(head) and all(map(equal, head, asked)):
            return head
    raise ValueError(
        f"baseline={[*map(text, asked)]}: no such column; the values of {keys} in the runs are "
        f"{[[*map(text, head)] for head in heads]}"
    )


def grouped(
    runs: Iterable[Run], rows: Sequence[str], columns: Sequence[str] = ()
) -> dict[tuple[Key, Key], list[Run]]:
    """Group runs by row and column; of runs of a seed the first that finished counts.

    A training run comes before its own evaluations, which have neither epochs nor costs.
    """
    groups: dict[tuple[Key, Key], dict[int, Run]] = defaultdict(dict)
    for run in runs:
        by_seed = groups[values(run, rows), values(run, columns)]
        by_seed[run.seed] = min(
            (by_seed.get(run.seed, run), run), key=lambda same: (same.epochs == 0, same.finished)
        )
    return {key: [*by_seed.values()] for key, by_seed in groups.items()}


def _cell(
    row: Key, column: Key, runs: list[Run], metric: str | None, split: str, paper: str | None
) -> Cell:
    """Return a cell without its comparison."""
    counts = examples_of(runs[0], metric, split)
    return Cell(
        row,
        column,
        runs,
        tuple(figure_of(run, metric, split) for run in runs),
        size(counts) if counts else "",
        published(runs[0], metric_of(runs[0], metric), split, paper),
    )


def is_best(cell: Cell, row: Iterable[Cell]) -> bool:
    """Whether a cell's mean is the highest of its task in a row, unless all are equal."""
    means = [each.mean for each in row if each.task == cell.task]
    return cell.mean == max(means) > min(means)


def _compared(report: Report) -> tuple[list[Cell], list[str]]:
    """Return the cells with their comparisons and which is the best of its row, and notes."""
    titles = task_titles(report.runs)
    flaws: dict[str, list[str]] = defaultdict(list)  # what is wrong -> cells
    cells = []
    for cell in report.cells:
        base = report.base(cell.row)
        if report.baseline is not None and base is None:
            flaws[NO_BASELINE].append(name(report.rows, cell.row, titles))
        if base and cell.column != report.baseline:
            comparison = compared(cell.runs, base.runs, report.metric, report.split)
            cell = replace(cell, comparison=comparison)
            if comparison.flaw:
                why, folder = comparison.flaw
                shown = name(report.keys, cell.key, titles)
                flaws[why].append(f"{shown} ({folder})" if folder else shown)
        row = report.by_row.get(cell.row, {cell.column: cell})
        cells.append(replace(cell, best=is_best(cell, row.values())))
    return cells, sorted(_note(why, [*dict.fromkeys(about)]) for why, about in flaws.items())


def _note(why: str, about: Sequence[str]) -> str:
    """Format a note on the cells of a flaw."""
    more = f" and {len(about) - NAMED} more" if len(about) > NAMED else ""
    return f"{'; '.join(about[:NAMED])}{more}: {why}"


def mixed(runs: Sequence[Run]) -> list[str]:
    """Return a note on runs of different commits or package versions."""
    code = {(run.commit or "", *sorted(run.versions.items())) for run in runs}
    return [f"runs of different code: {software(runs)}"] if len(code) > 1 else []


def software(runs: Iterable[Run]) -> str:
    """Return the packages and the commits of runs, with all their versions."""
    versions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for package, version in run.versions.items():
            versions[package].add(version)
        if commit := run.commit:
            shown = commit[:10] + " with uncommitted changes" * commit.endswith("+")
            versions["commit"].add(shown)
    return ", ".join(f"{name} {listed(sorted(each))}" for name, each in versions.items())


def corrected(reports: Sequence[Report], correct: Correction | None = None) -> list[Report]:
    """Return the reports with p corrected, by default for all comparisons in them."""
    correct = correct or families(comparisons_of(reports))
    return [replace(each, cells=[_corrected(c, correct) for c in each.cells]) for each in reports]


def _corrected(cell: Cell, correct: Correction) -> Cell:
    return replace(cell, comparison=cell.comparison and correct(cell.comparison))


def comparisons_of(reports: Iterable[Report]) -> list[Comparison]:
    return [cell.comparison for each in reports for cell in each.cells if cell.comparison]


def order(key: Key) -> list[tuple[int, float, str]]:
    """Return the sort key of a setting.

    The order is: no value, the baseline, numbers by size (layers from the lowest), the top layer,
    lists and other words, all layers.

    >>> sorted(("all", "top", (0, 1), 2, "none", "books", "-"), key=lambda x: order((x,)))
    ['-', 'none', 2, 'top', (0, 1), 'books', 'all']
    """
    return [
        (RANKS.get(each, 4), 0.0, text(each)) if not is_number(each) else (2, float(each), "")
        for each in key
    ]


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
