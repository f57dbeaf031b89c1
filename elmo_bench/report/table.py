"""What a report holds: cells of runs, by config keys in rows and columns."""

import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from elmo_bench.runs import ENCODER, MIX, NOTHING, Key, Run, text

from .comparison import Comparison, split_title
from .contrast import Contrast
from .names import is_number, name, task_titles

Order = list[tuple[int, float, str]]  # what `order` sorts by, for each value of a key
RANKS: dict[Hashable, int] = {NOTHING: 0, "none": 1, "top": 3, "all": 5}  # numbers 2, others 4
NAMED = 3  # a note names up to so many cells, and counts the others


@dataclass(frozen=True)
class Cell:
    """The runs of a row and column, one for each seed; scores are fractions of 1."""

    row: Key
    column: Key
    runs: list[Run]
    figures: tuple[float, ...]  # one for each run
    size: str = ""  # the number of examples, such as "170 in 18 documents", if it is known
    published: float | None = None  # the paper's score for this setting, on the paper's data
    comparison: Comparison | None = None

    @property
    def mean(self) -> float:
        return statistics.fmean(self.figures)

    @property
    def deviation(self) -> float | None:
        """The standard deviation over runs; None for a single run."""
        return statistics.stdev(self.figures) if len(self.figures) > 1 else None

    @property
    def key(self) -> Key:
        """The values of the report's keys."""
        return self.row + self.column


@dataclass(frozen=True, eq=False)
class Report:
    """Rows by columns, of the values of config keys."""

    rows: list[str]
    columns: list[str]
    metric: str | None
    split: str
    baseline: Key | None  # a column
    cells: list[Cell]  # in the order of rows and columns, in a row the baseline first
    notes: list[str]  # reasons why comparisons have no test, and remarks on the runs
    title: str = ""  # distinguishes several reports
    chosen_among: int = 0  # of so many settings, at most, dev chose that of a cell; 0: no choice
    draws: list[Run] = field(default_factory=list)  # tried settings of the cells' sides
    contrasts: list[Contrast] = field(default_factory=list)  # that were asked for

    @property
    def split_title(self) -> str:
        """The name of the split for readers."""
        return split_title(self.split)

    @property
    def keys(self) -> list[str]:
        """The config keys of rows and columns."""
        return self.rows + self.columns

    @cached_property
    def runs(self) -> list[Run]:
        runs: list[Run] = []
        for cell in self.cells:
            runs += cell.runs
        return runs

    @cached_property
    def task_titles(self) -> dict[str, str]:
        """The titles of the runs' tasks, by name."""
        return task_titles(self.runs)

    def name_of(self, key: Key) -> str:
        """Return the display name of a cell's settings."""
        return name(self.keys, key, self.task_titles)

    @cached_property
    def all_rows(self) -> list[Key]:
        """The rows in order, each once, also those that have only a baseline."""
        return list(dict.fromkeys(cell.row for cell in self.cells))

    @cached_property
    def heads(self) -> list[Key]:
        """The columns in order, the baseline first."""
        columns = {cell.column for cell in self.cells}
        return sorted(columns, key=lambda column: (column != self.baseline, order(column)))

    def base(self, row: Key) -> Cell | None:
        """Return the cell of the baseline that applies to a row; None if none does.

        It is in the row itself or in the nearest one that differs only by "-", for keys without
        effect on the baseline, or by `none` as encoder or mix.
        """

        def distance(base: Cell) -> int:
            pairs = zip(base.row, row, strict=True)
            return len([theirs for theirs, ours in pairs if theirs != ours])

        bases = []
        for cell in self.cells:
            if cell.column == self.baseline and _lends(self.rows, cell.row, row):
                bases.append(cell)
        return min(bases, key=distance, default=None)

    @cached_property
    def by_row(self) -> dict[Key, dict[Key, Cell]]:
        """Each row's cells by column, with the baseline that applies to it; without rows that have
        only a baseline, if another row uses it.
        """
        rows: dict[Key, dict[Key, Cell]] = defaultdict(dict)
        for cell in self.cells:
            rows[cell.row][cell.column] = cell
        lending = set()
        for row, cells in rows.items():
            base = self.base(row)
            if base and base.row != row:
                cells[base.column] = base
                lending.add(base.row)
        return {row: cells for row, cells in rows.items() if len(cells) > 1 or row not in lending}

    def is_best(self, cell: Cell, row: Key | None = None) -> bool:
        """Whether a cell's mean is the highest of its task in a row, if not all are; by default in
        any row that has it, of which a baseline may have several.
        """
        rows = list(self.by_row.values()) if row is None else [self.by_row.get(row, {})]
        return any(_is_highest(cell, cells) for cells in rows)


def _lends(keys: Sequence[str], base: Key, row: Key) -> bool:
    """Whether a baseline in the row `base` applies to another row, by the values of the row keys.

    >>> _lends(["data.name", "elmo.l2"], ("conll", "-"), ("conll", 0.1))
    True
    >>> _lends(["data.name", "elmo.l2"], ("conll", 0), ("conll", 0.1))
    False
    """
    for key, theirs, ours in zip(keys, base, row, strict=True):
        is_none = theirs == "none" and key in (ENCODER, MIX)
        if theirs not in (ours, NOTHING) and not is_none:
            return False
    return True


def _is_highest(cell: Cell, cells: Mapping[Key, Cell]) -> bool:
    """Whether a cell is among those of a row, by column, and has the highest mean of its task, if
    not all have it.
    """
    if cells.get(cell.column) is not cell:
        return False
    task = cell.runs[0].task
    means = [other.mean for other in cells.values() if other.runs[0].task == task]
    return cell.mean == max(means) > min(means)


def comparisons_of(reports: Iterable[Report]) -> list[Comparison]:
    comparisons: list[Comparison] = []
    for report in reports:
        for cell in report.cells:
            if cell.comparison:
                comparisons.append(cell.comparison)
    return comparisons


def runs_of(reports: Iterable[Report]) -> list[Run]:
    """Return the distinct runs of all reports."""
    by_folder: dict[Path, Run] = {}
    for report in reports:
        for run in report.runs:
            by_folder[run.folder] = run
    return list(by_folder.values())


def total_time(runs: Iterable[Run]) -> float:
    """Return how many seconds runs took in all."""
    return sum((run.seconds.get("total", 0.0) for run in runs), 0.0)


def first_few(names: Sequence[str]) -> str:
    """Return the first names of a longer list, and how many more there are.

    >>> first_few(["a", "b"]), first_few(["a", "b", "c", "d", "e"])
    ('a; b', 'a; b; c and 2 more')
    """
    shown = "; ".join(names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def order(key: Key) -> Order:
    """Return the sort key of a setting: no value, the baseline, numbers by size (layers from the
    lowest), the top layer, lists and other words, all layers.

    >>> sorted(("all", "top", (0, 1), 2, "none", "books", "-"), key=lambda x: order((x,)))
    ['-', 'none', 2, 'top', (0, 1), 'books', 'all']
    """
    ranks: Order = []
    for value in key:
        if is_number(value):
            ranks.append((2, float(value), ""))
        else:
            ranks.append((RANKS.get(value, 4), 0.0, text(value)))
    return ranks
