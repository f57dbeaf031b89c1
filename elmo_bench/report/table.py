"""Runs by config keys in rows and columns: means over seeds, and differences to a baseline."""

import re
import statistics
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from elmo_bench.bounds import one_of
from elmo_bench.runs import (
    ENCODER,
    MIX,
    NOTHING,
    WITHIN,
    Key,
    Run,
    below,
    check_files,
    distinguishing,
    equal,
    full_keys,
    overlap_lines,
    short,
    text,
    values,
    varies,
)
from elmo_bench.runs.query import HYDRAS, drawn
from elmo_bench.runs.read import FILES, INPUTS
from elmo_bench.terminal import counted_noun, listed

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
NO_BASELINE = "no baseline run in this row; move the keys that differ from `rows` to `columns`"
APART = "the texts of an example are read apart, and by others in one sequence"
MIXED = "runs of different code"
READ = {  # what follows from a column below these keys: files that a run reads, and their names
    "data": ("inputs.data", "trained_on"),
    "encoder": ("inputs.encoder", "encoder.dir", "encoder.options", "encoder.weights"),
    "elmo.adapt": ("inputs.encoder.softmax", "inputs.encoder.vocabulary"),
    "vocab.vectors": ("inputs.vocab",),
}
OF_ENCODER = ("encoder", MIX, "inputs.encoder")  # keys that a baseline does not have
MOST = 8  # a note names up to so many settings
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
        return (*self.row, *self.column)


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
    chosen_among: int = 0  # largest number of settings that dev chose a cell from; 0: no choice
    draws: list[Run] = field(default_factory=list)  # tried settings of the cells' sides

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

    def base(self, row: Key) -> Cell | None:
        """Return the cell of the baseline that applies to a row; None if none does.

        It is in the row itself or in the nearest one that differs only by "-", for keys without
        effect on the baseline, or by `none` as encoder or mix.
        """

        def serves(base: Cell) -> bool:
            return all(
                theirs in (ours, NOTHING) or (theirs == "none" and key in (ENCODER, MIX))
                for key, theirs, ours in zip(self.rows, base.row, row, strict=True)
            )

        def distance(base: Cell) -> int:
            return sum(theirs != ours for theirs, ours in zip(base.row, row, strict=True))

        bases = (cell for cell in self.cells if cell.column == self.baseline)
        return min(filter(serves, bases), key=distance, default=None)

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
            if (base := self.base(row)) and base.row != row:
                cells[base.column] = base
                lending.add(base.row)
        return {row: cells for row, cells in rows.items() if len(cells) > 1 or row not in lending}

    def is_best(self, cell: Cell, row: Key | None = None) -> bool:
        """Whether a cell's mean is the highest of its task in a row, if not all are; by default in
        any row that has it, of which a baseline may have several.
        """
        rows = self.by_row.values() if row is None else [self.by_row.get(row, {})]
        for cells in ([*cells.values()] for cells in rows):
            means = [each.mean for each in cells if each.runs[0].task == cell.runs[0].task]
            if any(each is cell for each in cells) and cell.mean == max(means) > min(means):
                return True
        return False


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
    one_of("split", split, SPLITS)
    measured = [run for run in runs if is_measured(run, split)]
    if not measured:
        other = "; split=dev reports dev" if split == "test" else "; job=evaluate does so"
        raise ValueError(f"split={split}: none of {len(runs)} runs was evaluated on it{other}")
    rows, columns = _keys(measured, rows, columns)
    _check_choices(measured, [*rows, *columns])
    groups = grouped(measured, rows, columns)
    if baseline is not None:
        baseline = _column(baseline, {column for _, column in groups}, columns)
    places = sorted(groups, key=lambda at: (order(at[0]), at[1] != baseline, order(at[1])))
    cells = [_cell(*place, groups[place], metric, split, paper) for place in places]
    whole = Report(rows, columns, metric, split, baseline, cells, [], title)
    cells, notes = _compared(whole)
    if missing := len(runs) - len(measured):
        notes.insert(0, f"left out: {counted_noun(missing, 'run')} not evaluated on {split}")
    if len({(run.commit or "", *sorted(run.versions.items())) for run in whole.runs}) > 1:
        notes.append(f"{MIXED}: {software(whole.runs)}")
    notes += [*_unlike(whole), *_overlaps(whole)]
    return corrected([replace(whole, cells=cells, notes=notes)])[0]


def _unlike(report: Report) -> Iterator[str]:
    """Yield notes on what differs within a row beside the keys of the columns."""
    named = [re.sub(r"\.(name|_target_)$", "", key) for key in report.columns]
    parts = [key for key in report.columns if key in ("task.name", "data.name")]
    by_row = report.by_row.values()  # with a baseline that another row lends
    rows = [[run for cell in cells.values() for run in cell.runs] for cells in by_row]
    yield from unlike(rows, parts, named)


def unlike(
    rows: Sequence[Sequence[Run]], parts: Sequence[str], named: Sequence[str]
) -> Iterator[str]:
    """Yield notes: all sides were tuned with as many draws, or runs of a row, with equal values of
    `parts`, differ in settings that neither are below a named key nor follow from it.
    """
    runs = [run for row in rows for run in row]
    groups = [group for group in READ if any(below(key, (group,)) for key in named)]
    files = [file for group in groups for file in READ[group]]
    expected = (*WITHIN, *named, *files)  # to differ
    keys = {key for run in runs for key in run.acting if not below(key, expected)}
    budgets = {run.config.get("budget") if run.tune else None for run in runs}
    if len(budgets) == 1 and None not in budgets:
        yield f"each side with its own choice of {budgets.pop()} draws"
        keys -= drawn(runs)
    with_layers = [[run for run in row if not run.is_baseline] for row in rows]
    sides = {key: with_layers if below(key, OF_ENCODER) else rows for key in keys}
    more = [key for key in sorted(keys) if any(varies(row, parts, key) for row in sides[key])]
    named_files = {f"{INPUTS}{FILES[key]}" for key in more if key in FILES}
    shown = [key for key in more if key not in named_files and not key.endswith(HYDRAS)]
    if shown:
        shown[MOST:] = [f"{len(shown) - MOST} more"] * (len(shown) > MOST)
        yield f"the sides differ in {listed(shown)}, too"


def _overlaps(report: Report) -> list[str]:
    """Return notes on examples that stand elsewhere, too: of each corpus, those of the run with
    most, since runs may have read a part of it.
    """
    titles, split = task_titles(report.runs), report.split

    def number(run: Run) -> int:
        return sum(counts.get(split, [0])[0] for counts in run.overlap.values())

    most = {
        f"{titles[run.task]} ({run.settings.get('data.name', 'a corpus')})": run.overlap
        for run in sorted(report.runs, key=number)
    }
    return [f"{where}: {line}" for where in most for line in overlap_lines(most[where], split)]


def is_measured(run: Run, split: str) -> bool:
    """Whether a run has scores on a split."""
    return any(key.startswith(f"{split}/") for key in run.metrics)


def _keys(
    runs: Sequence[Run], rows: Sequence[str] | None, columns: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the whole keys; raises ValueError if runs of a cell differ in more than their seed."""
    columns = full_keys(runs, columns, "columns")
    if rows is None:
        task = [key for key in ("task.name",) if key not in columns]
        rows = [*task, *distinguishing(runs, [*task, *columns])]
    rows = full_keys(runs, rows, "rows")
    if hidden := distinguishing(runs, [*rows, *columns]):
        raise ValueError(
            f"rows=[{','.join(rows)}] columns=[{','.join(columns)}]: runs of one cell differ in "
            f"{listed(hidden)}; add it to rows or columns"
        )
    check_files(runs, [*rows, *columns])
    return rows, columns


def _check_choices(runs: Sequence[Run], keys: Sequence[str]) -> None:
    """Raise ValueError if runs of a cell have the settings of two choices of `sweep=tune`."""
    choices: dict[Key, dict[Key, Run]] = defaultdict(dict)
    for run in (run for run in runs if run.tune):
        choices[values(run, keys)].setdefault(values(run, [*run.tune]), run)
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
    raise ValueError(
        f"baseline={','.join(map(text, asked))}: no such column; the values of {listed(keys)} in "
        f"the runs are {', '.join(' '.join(map(text, head)) for head in heads)}"
    )


def grouped(
    runs: Iterable[Run], rows: Sequence[str], columns: Sequence[str] = ()
) -> dict[tuple[Key, Key], list[Run]]:
    """Group runs by row and column; of runs of a seed (and draw) the first that finished counts, a
    training before its own evaluations, which have neither epochs nor costs.
    """
    groups: dict[tuple[Key, Key], dict[Key, Run]] = defaultdict(dict)
    for run in runs:
        by_seed, number = groups[values(run, rows), values(run, columns)], (run.seed, run.trial)
        by_seed[number] = min(
            (by_seed.get(number, run), run), key=lambda same: (same.epochs == 0, same.finished)
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


def _compared(report: Report) -> tuple[list[Cell], list[str]]:
    """Return the cells with their comparisons, and notes on those without a test."""
    titles = task_titles(report.runs)
    flaws: dict[str, dict[str, None]] = defaultdict(dict)  # what is wrong -> cells, in order
    is_joint = any(run.settings.get("task.joint") for run in report.runs)
    cells = []
    for cell in report.cells:
        base, run = report.base(cell.row), cell.runs[0]
        if is_joint and run.settings.get("task.joint") is False and not run.is_baseline:
            flaws[APART][name(report.keys, cell.key, titles)] = None
        if report.baseline is not None and base is None:
            flaws[NO_BASELINE][name(report.rows, cell.row, titles)] = None
        if base and cell.column != report.baseline:
            comparison = compared(cell.runs, base.runs, report.metric, report.split)
            cell = replace(cell, comparison=comparison)
            if comparison.flaw:
                why, folder = comparison.flaw
                shown = name(report.keys, cell.key, titles)
                flaws[f"no test, since {why}"][f"{shown} ({folder})" if folder else shown] = None
        cells.append(cell)
    notes = []
    for why, about in flaws.items():
        more = f" and {len(about) - NAMED} more" if len(about) > NAMED else ""
        notes.append(f"{'; '.join([*about][:NAMED])}{more}: {why}")
    return cells, sorted(notes)


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

    def of(cell: Cell) -> Cell:
        return replace(cell, comparison=cell.comparison and correct(cell.comparison))

    return [replace(report, cells=[*map(of, report.cells)]) for report in reports]


def comparisons_of(reports: Iterable[Report]) -> list[Comparison]:
    return [cell.comparison for each in reports for cell in each.cells if cell.comparison]


def order(key: Key) -> list[tuple[int, float, str]]:
    """Return the sort key of a setting: no value, the baseline, numbers by size (layers from the
    lowest), the top layer, lists and other words, all layers.

    >>> sorted(("all", "top", (0, 1), 2, "none", "books", "-"), key=lambda x: order((x,)))
    ['-', 'none', 2, 'top', (0, 1), 'books', 'all']
    """
    ranks = ((2, float(v), "") if is_number(v) else (RANKS.get(v, 4), 0.0, text(v)) for v in key)
    return [*ranks]
