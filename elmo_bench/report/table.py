"""Aggregate runs into rows and columns by config keys: mean and standard deviation over seeds, and
differences to a baseline.
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt

from elmo_bench.files import one_of
from elmo_bench.runs import (
    ENCODER,
    MIX,
    Key,
    Run,
    distinguishing,
    equal,
    full_keys,
    other_files,
    read_counts,
    short,
    text,
    values,
    varies,
)

from .names import is_number, name, task_titles
from .published import published
from .significance import (
    FEWEST,
    LEVEL,
    PRELIMINARY,
    Test,
    compare,
    equal_within,
    fewest,
    figure,
    holm,
    with_power,
)

# The runs of both sides, in any order, the metric and the split.
Question = tuple[frozenset[frozenset[str]], str, str]
# `_rank` gives 2, 4 and 6 to others.
RANKS: dict[Hashable, int] = {"-": 0, "none": 1, "top": 3, "uniform": 5, "all": 7}
NO_BASELINE = (
    "no comparison: this row has no baseline run; move the keys that differ from "
    "`rows` to `columns`"
)
NAMED = 3  # a note names up to this many cells, and counts the others
SPLITS = {"dev": "val", "test": "test"}
EXACT = 1e-6  # a figure differs from that of its counts by less: rounding in float32


class Comparison(NamedTuple):
    """A cell compared with its row's baseline, in fractions of 1.

    `test` is None if the runs' examples cannot be compared.
    """

    difference: float
    # Removed share of the baseline's errors; None if it makes none.
    error_reduction: float | None
    test: Test | None = None
    p_holm: float | None = None  # corrected for all comparisons of its family
    equal: bool | None = None  # whether the difference is significantly within the user's region
    family: int = 0  # number of comparisons that p_holm is corrected for
    question: Question | None = None  # what is compared, which another table may ask, too


Correction = Callable[[Comparison], Comparison]


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


@dataclass(frozen=True)
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
    def remarks(self) -> list[str]:
        """All notes: `notes`, and those on designs with too few runs."""
        return [*self.notes, *limits(comparisons_of([self]))]


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
    columns = full_keys(measured, columns, f"{place}columns")
    if rows is None:
        rows = distinguishing(measured, columns)
    else:
        rows = full_keys(measured, rows, f"{place}rows")
    _check_alike(measured, rows, columns, place)
    groups = _groups(measured, rows, columns)
    heads = sorted({column for group in groups.values() for column in group}, key=order)
    if baseline is not None and len(baseline) == len(columns):  # 1.0 is the column 1
        baseline = next((head for head in heads if all(map(equal, head, baseline))), baseline)
    if baseline is not None and baseline not in heads:
        raise ValueError(
            f"{place}baseline={[*map(text, baseline)]}: no such column; the values of {columns} in "
            f"the runs evaluated on {split} are {[[*map(text, head)] for head in heads]}"
        )
    options = Asked(metric, split, equal_within)
    comparisons, notes = _comparisons(groups, rows, columns, baseline, options)
    cells = [
        cell
        for row in sorted(groups, key=order)
        for cell in _cells(row, groups, rows, baseline, options, paper, comparisons)
    ]
    if len(measured) < len(runs):
        notes.insert(0, f"left out: {_runs(len(runs) - len(measured))} not evaluated on {split}")
    notes += [*_repeated(measured, [*rows, *columns])]
    notes += mixed([run for cell in cells for run in cell.runs])
    whole = Report(list(rows), columns, metric, split, baseline, cells, notes, title, equal_within)
    return corrected([whole])[0]


def _measured(runs: Sequence[Run], split: str, place: str) -> list[Run]:
    """Return the runs that have figures on a split; raises ValueError if none has."""
    start = f"{SPLITS[split]}/"
    measured = [run for run in runs if any(key.startswith(start) for key in run.metrics)]
    if not measured:
        other = "; split=dev reports dev" if split == "test" else ""
        raise ValueError(
            f"{place}split={split}: none of {len(runs)} runs was evaluated on it{other}"
        )
    return measured


def _check_alike(
    runs: Sequence[Run], rows: Sequence[str], columns: Sequence[str], place: str
) -> None:
    """Raise ValueError if runs of a cell differ in more than their seed."""
    keys = [*rows, *columns]
    if hidden := hidden_keys(runs, keys):
        raise ValueError(
            f"{place}rows={rows} {place}columns={columns}: runs of one cell differ in "
            f"{hidden}; add it to rows or columns"
        )
    if why := other_files(runs, keys):
        raise ValueError(f"{place}{why}")


def hidden_keys(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """Return the other config keys, except the seed, that differ between runs equal in `keys`."""
    hidden = distinguishing(runs, keys)
    return [key for key in hidden if key != "task.name" or varies(runs, keys, key)]


def _cells(
    row: Key,
    groups: Mapping[Key, Mapping[Key, list[Run]]],
    rows: Sequence[str],
    baseline: Key | None,
    options: "Asked",
    paper: str | None,
    comparisons: Mapping[tuple[Key, Key], Comparison],
) -> Iterator[Cell]:
    """Yield the cells of a row, the baseline first."""
    group, metric, split = groups[row], options.metric, options.split
    figures = {
        column: tuple(figure_of(run, metric, split) for run in runs)
        for column, runs in group.items()
    }
    rivals: dict[str, list[float]] = defaultdict(list)  # task -> means of the row
    for column, runs in group.items():
        rivals[runs[0].task].append(statistics.fmean(figures[column]))
    base = base_row([other_row for other_row in groups if baseline in groups[other_row]], row, rows)
    if baseline is not None and base is not None and base != row:
        lent_runs = groups[base][baseline]
        mean = statistics.fmean(figure_of(run, metric, split) for run in lent_runs)
        rivals[lent_runs[0].task].append(mean)
    for column in sorted(group, key=lambda column: (column != baseline, order(column))):
        first, its_figures = group[column][0], figures[column]
        mean = statistics.fmean(its_figures)
        yield Cell(
            row=row,
            column=column,
            runs=group[column],
            figures=its_figures,
            mean=mean,
            deviation=statistics.stdev(its_figures) if len(its_figures) > 1 else None,
            best=is_best(mean, rivals[first.task]),
            published=published(first, _name(first, metric), split, paper),
            comparison=comparisons.get((row, column)),
        )


def is_best(mean: float, rivals: Sequence[float]) -> bool:
    """Whether a mean is the highest of its row and task, unless all are equal.

    >>> is_best(0.5, [0.5, 0.4]), is_best(0.5, [0.5, 0.5]), is_best(0.5, [0.5])
    (True, False, False)
    """
    return mean == max(rivals) > min(rivals)


def _groups(
    runs: Sequence[Run], rows: Sequence[str], columns: Sequence[str]
) -> dict[Key, dict[Key, list[Run]]]:
    """Group runs as row -> column -> runs; of runs of a seed the first that finished counts.

    A training run comes before its own evaluations, which have neither epochs nor costs.
    """
    groups: dict[Key, dict[Key, dict[str, Run]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        by_seed, seed = groups[values(run, rows)][values(run, columns)], str(run.seed)
        by_seed[seed] = min(
            (by_seed.get(seed, run), run),
            key=lambda same_seed: (same_seed.epochs == 0, same_seed.finished),
        )
    return {
        row: {column: [*by_seed.values()] for column, by_seed in group.items()}
        for row, group in groups.items()
    }


def of_rows(runs: Sequence[Run], rows: Sequence[str]) -> dict[Key, list[Run]]:
    """Return the runs of each row, one for each seed."""
    return {row: group[()] for row, group in _groups(runs, rows, []).items()}


def comparable(
    runs: Sequence[Run],
    rows: Sequence[str] | None,
    columns: Sequence[str],
    baseline: Key | None = None,
) -> list[Run]:
    """Return the runs of rows that have runs of two columns or more; none without a run of the
    baseline. `rows` and `baseline` are as in `report`.
    """
    if not runs:
        return []
    columns = full_keys(runs, columns, "columns")
    if baseline and not any(all(map(equal, values(run, columns), baseline)) for run in runs):
        return []
    rows = distinguishing(runs, columns) if rows is None else full_keys(runs, rows, "rows")
    columns_of: dict[Key, set[Key]] = defaultdict(set)
    for run in runs:
        columns_of[values(run, rows)].add(values(run, columns))
    return [run for run in runs if len(columns_of[values(run, rows)]) > 1]


def _repeated(runs: Sequence[Run], keys: Sequence[str]) -> list[str]:
    """Return a note if runs of the same cell and seed have different figures."""
    figures: dict[tuple[Key, str], dict[str, set[float]]] = defaultdict(lambda: defaultdict(set))
    for run in runs:
        for metric, value in run.metrics.items():
            figures[values(run, keys), str(run.seed)][metric].add(value)
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
            notes.append(
                f"runs with different versions of {package}: "
                f"{', '.join(f'{v} ({n})' for v, n in sorted(versions.items()))}"
            )
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


def _name(run: Run, metric: str | None) -> str:
    return metric or run.config["task"]["monitor"]


def figure_of(run: Run, metric: str | None, split: str) -> float:
    """Return a run's figure, a fraction of 1; raises ValueError if it has none of that name."""
    name = f"{SPLITS[split]}/{_name(run, metric)}"
    if name not in run.metrics:
        metric_names = [
            each.partition("/")[2] for each in run.metrics if each.startswith(SPLITS[split])
        ]
        overall = [each for each in metric_names if "/" not in each]
        of_labels = [each for each in metric_names if "/" in each]
        more = f", and {len(of_labels)} such as {of_labels[0]}" if of_labels else ""
        raise ValueError(
            f"metric={metric}: {run.folder}/result.json, a run of {run.task}, does "
            f"not have it on {split}, only {', '.join(sorted(overall))}{more}"
        )
    return run.metrics[name]


class Asked(NamedTuple):
    """The options of a comparison."""

    metric: str | None
    split: str
    equal_within: float | None


class Flaw(NamedTuple):
    """What is wrong with a comparison, and the folder of a run behind it."""

    why: str
    folder: str = ""


class Pair(NamedTuple):
    """The runs of two systems and the options of their comparison."""

    runs: list[Run]
    base: list[Run]
    asked: Asked


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


def families(comparisons: Iterable[Comparison], primary: Collection[Question] = ()) -> Correction:
    """Return a function that corrects the p of a comparison by Holm's method.

    A family has all comparisons of a split, each once, however many tables show it; the primary
    questions are a family of their own. Comparisons with fewer than FEWEST runs a side are in none.
    """
    ps: dict[tuple[str, bool], dict[Question, float]] = defaultdict(dict)
    for each in comparisons:
        test, question = each.test, each.question
        if question and test and test.p is not None and not test.is_preliminary:
            ps[question[-1], question in primary][question] = test.p
    by_question = {
        question: (p_holm, len(family))
        for family in ps.values()
        for question, p_holm in zip(family, holm([*family.values()]), strict=True)
    }

    def correct(comparison: Comparison) -> Comparison:
        if comparison.test is None or comparison.question not in by_question:
            return comparison
        p_holm, size = by_question[comparison.question]
        test = with_power(comparison.test, size)
        return comparison._replace(test=test, p_holm=p_holm, family=size)

    return correct


def _comparisons(
    groups: dict[Key, dict[Key, list[Run]]],
    rows: Sequence[str],
    columns: Sequence[str],
    baseline: Key | None,
    options: Asked,
) -> tuple[dict[tuple[Key, Key], Comparison], list[str]]:
    """Return the comparison of each cell with its row's baseline, and notes on flaws."""
    pairs: dict[tuple[Key, Key], Pair] = {}
    # Reason -> (cell, folder of a run).
    flaws: dict[str, list[tuple[str, str]]] = defaultdict(list)
    titles = task_titles(
        run for group in groups.values() for runs in group.values() for run in runs
    )
    for row, group in groups.items():
        if baseline is None:
            continue
        base = base_row([other for other in groups if baseline in groups[other]], row, rows)
        if base is None:
            flaws[NO_BASELINE].append((name(rows, row, titles), ""))
            continue
        for column in sorted(group.keys() - {baseline}, key=order):
            pairs[row, column] = Pair(group[column], groups[base][baseline], options)
    comparisons = {}
    for (row, column), pair in pairs.items():
        comparisons[row, column], its_flaws = compared(*pair)
        for flaw in its_flaws:
            cell_name = name([*rows, *columns], [*row, *column], titles)
            flaws[flaw.why].append((cell_name, flaw.folder))
    return comparisons, sorted(_note(why, cells) for why, cells in flaws.items())


def _note(why: str, cells: Sequence[tuple[str, str]]) -> str:
    """Format a note on the cells of a flaw, with the first cell's run folder."""
    listed = "; ".join(cell for cell, _ in cells[:NAMED])
    more = f" and {len(cells) - NAMED} more" if len(cells) > NAMED else ""
    folder = f" ({cells[0][1]})" if cells[0][1] else ""
    return f"{listed}{more}: {why}{folder}"


def limits(comparisons: Iterable[Comparison]) -> list[str]:
    """Return notes on designs with too few runs."""
    designs = sorted({(each.test.runs, each.family) for each in comparisons if each.test})
    notes: dict[str, list[str]] = defaultdict(list)  # note -> designs
    for (ours, theirs), family in designs:
        if min(ours, theirs) < 2:
            why = (
                "no p, since a single run does not show the variance over seeds; the interval is "
                "for these models on new examples"
            )
        elif min(ours, theirs) < FEWEST:
            why = (
                f"{PRELIMINARY}, since fewer than {FEWEST} runs a side get no star and no verdict "
                "(sweep=seeds has five)"
            )
        elif (least := fewest(ours, theirs)) > (level := LEVEL / max(family, 1)):
            after = f", and of {family} comparisons the first needs {level:.2g}" * (family > 1)
            why = (
                f"exchanging the seeds alone could not give a p below {least:.2g}{after}; a "
                "smaller p here rests on the runs' figures being roughly normal"
            )
        else:
            continue
        notes[why].append(f"{ours} + {theirs}")
    return [f"{', '.join(dict.fromkeys(which))} runs: {why}" for why, which in notes.items()]


def _runs(count: int) -> str:
    return f"{count} run{' that was' if count == 1 else 's that were'}"


def base_row(rows: Iterable[Key], row: Key, keys: Sequence[str]) -> Key | None:
    """Return the row, of those with a baseline, whose baseline applies to `row`; None if none does.

    It is the row itself or the nearest one that differs only by "-", for keys without effect on the
    baseline, or by `none` as encoder or mix.

    >>> base_row([("ner", "-"), ("srl", "0.1")], ("ner", "0.1"), ["task", "elmo.l2"])
    ('ner', '-')
    >>> base_row([("ner", "none")], ("ner", "books"), ["task", "encoder.name"])
    ('ner', 'none')
    """

    def serves(base: Key) -> bool:
        return all(
            theirs in (ours, "-") or (theirs == "none" and key in (ENCODER, MIX))
            for key, theirs, ours in zip(keys, base, row, strict=True)
        )

    def distance(base: Key) -> int:
        return sum(theirs != ours for theirs, ours in zip(base, row, strict=True))

    return min(filter(serves, rows), key=distance, default=None)


def compared(runs: list[Run], base: list[Run], options: Asked) -> tuple[Comparison, list[Flaw]]:
    """Return a comparison, its p not corrected, and what is wrong with it."""
    means = [
        statistics.fmean(figure_of(run, options.metric, options.split) for run in group)
        for group in (runs, base)
    ]
    difference, errors = means[0] - means[1], 1 - means[1]
    sides = frozenset(frozenset(str(run.folder) for run in side) for side in (runs, base))
    plain = Comparison(
        difference,
        difference / errors if errors else None,
        question=(sides, _name(runs[0], options.metric), options.split),
    )
    examples = [examples_of(run, options.metric, options.split) for run in (*runs, *base)]
    if why := _incomparable([*runs, *base], examples, options.split):
        return plain, [why._replace(why=f"no test, since {why.why}")]
    flaws = [*_copies(runs, examples), *_copies(base, examples[len(runs) :])]
    ours, theirs = (
        np.stack([run_examples.counts for run_examples in part])
        for part in (examples[: len(runs)], examples[len(runs) :])
    )
    clusters = examples[0].clusters
    if len(set(clusters.tolist())) < 2:
        why = Flaw(f"no test, since all {options.split} examples are one {examples[0].unit}")
        return plain, [*flaws, why]
    test = compare(ours, theirs, clusters)._replace(unit=examples[0].unit)
    if not test.error:
        why = Flaw("no test, since the difference varies neither with seeds nor with examples")
        return plain, [*flaws, why]
    region = options.equal_within
    equal = None if region is None else equal_within(test, region)
    return plain._replace(test=test, equal=equal), flaws


def _copies(runs: Sequence[Run], examples: Sequence["Examples"]) -> Iterator[Flaw]:
    """Yield a flaw if two runs of a side have the same figures, mix, and counts of each example."""
    first: dict[tuple[str, str, bytes], Run] = {}
    for run, its_examples in zip(runs, examples, strict=False):
        content = repr(run.metrics), repr(run.mix), its_examples.counts.tobytes()
        same = first.setdefault(content, run)
        if same is not run:
            yield Flaw(
                f"seeds {same.seed} and {run.seed} have the same figures and counts: if one "
                "is a copy of the other, too many runs are counted",
                short(run.folder),
            )
            return


class Examples(NamedTuple):
    """The evaluated examples of a run: hashes of their sentences, counts, and cluster numbers in
    the order of the clusters' first examples.
    """

    sentences: UInt[np.ndarray, " N"]
    counts: Float[np.ndarray, "N S 4"]
    clusters: Int[np.ndarray, " N"]
    unit: str = "cluster"

    @property
    def number(self) -> int:
        return len(self.sentences)


def _incomparable(runs: Sequence[Run], examples: Sequence[Examples], split: str) -> Flaw | None:
    """Return the reason why the counts of runs cannot be compared; None if they can."""
    for run, run_examples in zip(runs, examples, strict=True):
        if not len(run_examples.sentences):
            return Flaw(
                f"counts/{split}.npz of a run is missing or lacks the metric",
                short(run.folder),
            )
        if not np.array_equal(run_examples.sentences, examples[0].sentences):
            return Flaw(
                f"the runs were evaluated on different {split} examples",
                f"{short(run.folder)}, {short(runs[0].folder)}",
            )
        if not np.array_equal(run_examples.clusters, examples[0].clusters):
            ours, theirs = (
                f"{len({*each.clusters.tolist()}):,} {each.unit}s"
                for each in (run_examples, examples[0])
            )
            return Flaw(
                f"the runs' {split} examples are grouped differently ({ours}; {theirs}); "
                "job=evaluate writes the counts of a run anew",
                f"{short(run.folder)}, {short(runs[0].folder)}",
            )
    shapes = {run_examples.counts.shape for run_examples in examples}
    if len(shapes) > 1:
        return Flaw(f"the runs' counts/{split}.npz have shapes {sorted(shapes)}")
    for run, run_examples in zip(runs, examples, strict=True):
        if not np.array_equal(run_examples.counts[..., 1], examples[0].counts[..., 1]):
            return Flaw(
                f"the runs' {split} examples differ in what is right",
                f"{short(run.folder)}, {short(runs[0].folder)}",
            )
    return None


def examples_of(run: Run, metric: str | None, split: str) -> Examples:
    """Return a run's counts, sorted by sentence, so that the order of the file does not matter.

    Without a counts file or the metric, N is 0. Raises ValueError if the run's figure is not that
    of its counts.
    """
    read = read_counts(run.folder / "counts" / f"{split}.npz", _name(run, metric))
    if read is None:
        none = np.zeros(0, dtype=np.uint64)
        return Examples(none, np.zeros((0, 1, 4)), none.astype(np.int64))
    shown, counted = figure_of(run, metric, split), float(figure(read.rows.sum(0)))
    if abs(shown - counted) > EXACT:
        raise ValueError(
            f"{run.folder}/result.json: {SPLITS[split]}/{_name(run, metric)} is "
            f"{100 * shown:.4f}, but counts/{split}.npz gives {100 * counted:.4f}: one of the "
            "files is not of this run; evaluate or train it again"
        )
    order = np.argsort(read.sentences, kind="stable")
    sentences = read.sentences[order]
    _, first, numbers = np.unique(read.groups[order], return_index=True, return_inverse=True)
    clusters = np.argsort(np.argsort(first))[numbers]
    return Examples(sentences, read.rows[order], clusters, read.unit)
