"""Runs by config keys in rows and columns: means over seeds, and differences to a baseline."""

import re
import statistics
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from elmo_bench.bounds import one_of
from elmo_bench.runs import (
    ENCODER,
    MIX,
    NOTHING,
    WITHIN,
    Key,
    Overlap,
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

Order = list[tuple[int, float, str]]  # what `order` sorts by, for each value of a key
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
    chosen_among: int = 0  # largest number of settings that dev chose a cell from; 0: no choice
    draws: list[Run] = field(default_factory=list)  # tried settings of the cells' sides

    @property
    def keys(self) -> list[str]:
        """The config keys of rows and columns."""
        return self.rows + self.columns

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
        return any(_is_highest(cell, cells.values()) for cells in rows)


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


def _is_highest(cell: Cell, cells: Collection[Cell]) -> bool:
    """Whether a cell is among these and has the highest mean of its task, if not all have it."""
    if not any(each is cell for each in cells):
        return False
    task = cell.runs[0].task
    means = [each.mean for each in cells if each.runs[0].task == task]
    return cell.mean == max(means) > min(means)


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
        base_column = _column(baseline, {column for _, column in groups}, column_keys)

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
        notes.insert(0, f"left out: {counted_noun(missing, 'run')} not evaluated on {split}")
    notes += _remarks(untested)
    return corrected([replace(untested, cells=cells, notes=notes)])[0]


def _measured(runs: Sequence[Run], split: str) -> list[Run]:
    """Return the runs that have scores on a split; raises ValueError if none has."""
    one_of("split", split, SPLITS)
    measured = [run for run in runs if is_measured(run, split)]
    if measured:
        return measured
    if split == "test":
        raise ValueError(
            f"split=test: none of {len(runs)} runs was evaluated on it; split=dev reports dev"
        )
    raise ValueError(
        f"split={split}: none of {len(runs)} runs was evaluated on it; job=evaluate does so"
    )


def is_measured(run: Run, split: str) -> bool:
    """Whether a run has scores on a split."""
    return any(key.startswith(f"{split}/") for key in run.metrics)


def _remarks(report: Report) -> Iterator[str]:
    """Yield notes on the runs: different code, further settings that differ, overlaps."""
    code = {(run.commit or "", tuple(sorted(run.versions.items()))) for run in report.runs}
    if len(code) > 1:
        yield f"{MIXED}: {software(report.runs)}"
    yield from _unlike(report)
    yield from _overlaps(report)


def _unlike(report: Report) -> Iterator[str]:
    """Yield notes on what differs within a row beside the keys of the columns."""
    named = [re.sub(r"\.(name|_target_)$", "", key) for key in report.columns]
    parts = [key for key in report.columns if key in ("task.name", "data.name")]
    rows = []
    for cells in report.by_row.values():  # with a baseline that another row lends
        rows.append([run for cell in cells.values() for run in cell.runs])
    yield from unlike(rows, parts, named)


def unlike(
    rows: Sequence[Sequence[Run]], parts: Sequence[str], named: Sequence[str]
) -> Iterator[str]:
    """Yield notes: all sides were tuned with as many draws, or runs of a row, with equal values of
    `parts`, differ in settings that neither are below a named key nor follow from it.

    Two runs of a row, which compares encoders:

    >>> from pathlib import Path
    >>> ner = {"name": "ner"}
    >>> books = {"task": ner, "encoder": {"name": "books", "dir": "b"}, "rnn": {"dropout": 0.5}}
    >>> mini = {"task": ner, "encoder": {"name": "mini", "dir": "m"}, "rnn": {"dropout": 0.2}}
    >>> list(unlike([[Run(Path("a"), books), Run(Path("b"), mini)]], [], ["encoder"]))
    ['the sides differ in rnn.dropout, too']
    """
    runs = [run for row in rows for run in row]
    expected = _expected_to_differ(named)
    keys: set[str] = set()
    for run in runs:
        keys.update(key for key in run.acting if not below(key, expected))
    budget = _common_budget(runs)
    if budget is not None:
        yield f"each side with its own choice of {budget} draws"
        keys -= drawn(runs)
    rows_with_layers = []
    for row in rows:
        rows_with_layers.append([run for run in row if not run.is_baseline])
    differing = []
    for key in sorted(keys):
        concerned = rows_with_layers if below(key, OF_ENCODER) else rows
        if any(varies(row, parts, key) for row in concerned):
            differing.append(key)
    shown = _without_repetition(differing)
    if len(shown) > MOST:
        num_more = len(shown) - MOST
        del shown[MOST:]
        shown.append(f"{num_more} more")
    if shown:
        yield f"the sides differ in {listed(shown)}, too"


def _expected_to_differ(named: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that runs may differ in, with all keys below them, if those of the columns
    are named: these, the files and names that follow from them, and those of WITHIN.

    >>> _expected_to_differ(["vocab.vectors", "elmo.l2"])[len(WITHIN):]
    ('vocab.vectors', 'elmo.l2', 'inputs.vocab')
    """
    expected = list(WITHIN)
    expected += named
    for group, following in READ.items():
        if any(below(key, (group,)) for key in named):
            expected += following
    return tuple(expected)


def _common_budget(runs: Sequence[Run]) -> int | None:
    """Return the number of draws that each run was chosen from; None if not all have one number."""
    budgets = {run.config.get("budget") if run.tune else None for run in runs}
    return budgets.pop() if len(budgets) == 1 else None


def _without_repetition(keys: Sequence[str]) -> list[str]:
    """Return keys without the hash of a file whose name is among them, and without Hydra's own.

    >>> _without_repetition(["data.files.train", "inputs.data.train", "rnn._partial_"])
    ['data.files.train']
    """
    hashes = {f"{INPUTS}{FILES[key]}" for key in keys if key in FILES}
    return [key for key in keys if key not in hashes and not key.endswith(HYDRAS)]


def _overlaps(report: Report) -> list[str]:
    """Return notes on examples that stand elsewhere, too: of each corpus, those of the run with
    most, since runs may have read a part of it.
    """
    titles = task_titles(report.runs)

    def num_examples(run: Run) -> int:
        return sum(counts.get(report.split, [0])[0] for counts in run.overlap.values())

    by_corpus: dict[str, Overlap] = {}
    for run in sorted(report.runs, key=num_examples):  # the last run of a corpus has most
        corpus = f"{titles[run.task]} ({run.settings.get('data.name', 'a corpus')})"
        by_corpus[corpus] = run.overlap
    notes = []
    for corpus, overlap in by_corpus.items():
        for line in overlap_lines(overlap, report.split):
            notes.append(f"{corpus}: {line}")
    return notes


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
    shown = [" ".join(map(text, head)) for head in heads]
    raise ValueError(
        f"baseline={','.join(map(text, asked))}: no such column; the values of {listed(keys)} in "
        f"the runs are {', '.join(shown)}"
    )


def grouped(
    runs: Iterable[Run], rows: Sequence[str], columns: Sequence[str] = ()
) -> dict[tuple[Key, Key], list[Run]]:
    """Group runs by row and column; of runs of a seed (and draw) the first that finished counts, a
    training before its own evaluations, which have neither epochs nor costs.
    """

    def precedence(run: Run) -> tuple[bool, str]:
        return run.epochs == 0, run.finished

    groups: dict[tuple[Key, Key], dict[Key, Run]] = defaultdict(dict)
    for run in runs:
        by_seed = groups[values(run, rows), values(run, columns)]
        number = (run.seed, run.trial)
        if number not in by_seed or precedence(run) < precedence(by_seed[number]):
            by_seed[number] = run
    return {place: list(by_seed.values()) for place, by_seed in groups.items()}


def _cell(
    row: Key, column: Key, runs: list[Run], metric: str | None, split: str, paper: str | None
) -> Cell:
    """Return a cell without its comparison."""
    counts = examples_of(runs[0], metric, split)
    figures = tuple(figure_of(run, metric, split) for run in runs)
    shown_size = size(counts) if counts else ""
    theirs = published(runs[0], metric_of(runs[0], metric), split, paper)
    return Cell(row, column, runs, figures, shown_size, theirs)


def _compared(report: Report) -> tuple[list[Cell], list[str]]:
    """Return the cells with their comparisons, and notes on those without a test."""
    titles = task_titles(report.runs)
    flaws: dict[str, dict[str, None]] = defaultdict(dict)  # what is wrong -> cells, in order
    is_joint = any(run.settings.get("task.joint") for run in report.runs)
    cells = []
    for cell in report.cells:
        setting = name(report.keys, cell.key, titles)
        run = cell.runs[0]
        if is_joint and run.settings.get("task.joint") is False and not run.is_baseline:
            flaws[APART][setting] = None
        base = report.base(cell.row)
        if report.baseline is not None and base is None:
            flaws[NO_BASELINE][name(report.rows, cell.row, titles)] = None
        if base is None or cell.column == report.baseline:
            cells.append(cell)
            continue
        comparison = compared(cell.runs, base.runs, report.metric, report.split)
        cells.append(replace(cell, comparison=comparison))
        if comparison.flaw:
            why, folder = comparison.flaw
            concerned = f"{setting} ({folder})" if folder else setting
            flaws[f"no test, since {why}"][concerned] = None
    notes = []
    for why, settings in flaws.items():
        shown = "; ".join(list(settings)[:NAMED])
        more = f" and {len(settings) - NAMED} more" if len(settings) > NAMED else ""
        notes.append(f"{shown}{more}: {why}")
    return cells, sorted(notes)


def software(runs: Iterable[Run]) -> str:
    """Return the packages and the commits of runs, with all their versions."""
    versions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for package, version in run.versions.items():
            versions[package].add(version)
        if run.commit:
            commit = run.commit[:10]
            if run.commit.endswith("+"):
                commit = f"{commit} with uncommitted changes"
            versions["commit"].add(commit)
    return ", ".join(f"{name} {listed(sorted(each))}" for name, each in versions.items())


def corrected(reports: Sequence[Report], correct: Correction | None = None) -> list[Report]:
    """Return the reports with p corrected, by default for all comparisons in them."""
    correction = correct or families(comparisons_of(reports))
    corrected_reports = []
    for report in reports:
        cells = []
        for cell in report.cells:
            comparison = cell.comparison and correction(cell.comparison)
            cells.append(replace(cell, comparison=comparison))
        corrected_reports.append(replace(report, cells=cells))
    return corrected_reports


def comparisons_of(reports: Iterable[Report]) -> list[Comparison]:
    return [cell.comparison for each in reports for cell in each.cells if cell.comparison]


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
