"""A report's tables: means, differences with significance tests, and the paper's scores."""

from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from statistics import fmean

from elmo_bench.runs import Key, Run
from elmo_bench.terminal import listed

from .between_tasks import contrast_grid
from .comparison import BOTH, Comparison
from .depth import depths
from .labels import headed, labels_of, title
from .names import NONE, p_value, points
from .over_corpora import corpora_grid
from .published import paper_corpus, source
from .significance import FEWEST, LEVEL, PRELIMINARY
from .table import Cell, Report, comparisons_of
from .tuning import Side, lines, sides
from .tuning_curve import verdict
from .writers import Grid, without

MEANS = "percent: mean ± standard deviation (runs)"
ERRORS = "relative error reduction"
SMALLEST = "smallest found"
ABOUT_ERRORS = (
    "Relative error reduction, percent: the difference as a share of 100 minus the baseline."
)
ABOUT_TESTS = (
    "The interval goes with p; p (Holm) is corrected for all comparisons of the split, and * marks "
    f"it below {LEVEL}. {PRELIMINARY.capitalize()}: fewer than {FEWEST} runs a side decide "
    "nothing; a single run has no p, and its interval is for these models on new examples."
)
ABOUT_FOLDS = (
    "Folds: each was test in some runs of both sides; the test is over folds' differences, with "
    f"Nadeau and Bengio's (2003) correction, and fewer than {FEWEST} folds are {PRELIMINARY}, too."
)
ABOUT_SMALLEST = (
    f"{SMALLEST.capitalize()}: the smallest true difference that so many runs and examples find (p "
    f"(Holm) below {LEVEL}) in 80 % of cases."
)
MEAN = "mean over corpora"  # the last row of a table whose rows are corpora
ABOUT_MEAN = "In the mean, corpora on which the same models were tested count as one."
ABOUT_PAPER = (
    "Percent; the paper's scores are as published: its corpus is named where these runs have "
    "another, or less of it, and its biLM is adapted to the task's text in all tasks but "
    "coreference and SRL."
)
ABOUT_TUNING = (
    "Of settings that were drawn at random, with one seed, percent. Best of k: the median of what "
    "the best of k draws reaches on dev, and a band that holds for all k; those of a column and of "
    "{} hold together with 95 %."
)
ABOUT_DEPTH = (
    f"Of single layers with {FEWEST} runs or more. May be the best: the layer with the highest "
    "mean is not significantly better (one-sided, 5 % divided by the number of rows and of other "
    "layers, so that with 95 % every row names its best layer)."
)
ABOUT_BOTH = "Of each run dev chose the epoch, on all sides alike."
ABOUT_DEEPER = "Deeper than: the rows of the same encoder whose layers all lie below."
OF_DEPTH = ["layer with the highest mean", "may be the best", "deeper than"]  # heads of `depth`
TESTED = ["difference", "95 % interval", "p", "p (Holm)", SMALLEST]  # heads of `tested`


def tables(report: Report) -> dict[str, Grid]:
    """Return the tables by kind, in reading order: `means`, `differences`, `depth`,
    `contrasts`, `corpora`, `tuning` and `paper`; without empty ones and, because `differences`
    includes them, the means of a single row with comparisons. Costs and the mix's weights are
    tables of the HTML page alone (`page.py`).
    """
    has_comparisons = bool(comparisons_of([report]))
    grids = {}
    if not has_comparisons or len(report.all_rows) > 1:
        grids["means"] = means(report)
    if has_comparisons:
        grids["differences"] = differences(report)
    if depths(report):
        grids["depth"] = depth(report)
    if report.contrasts:
        grids["contrasts"] = contrast_grid(report)
    if has_comparisons and report.rows == ["data.name"] and len(report.all_rows) > 2:
        grids["corpora"] = corpora_grid(report)
    if sides(report):
        grids["tuning"] = tuning(report)
    if any(cell.published is not None for cell in report.cells):
        grids["paper"] = paper(report)
    return grids


def means(report: Report) -> Grid:
    """Return the table of means: rows by columns, the best bold; a single row as a list."""
    labels = labels_of(report)
    if not labels.heads:
        return _list_of_means(report)
    rows: list[list[str]] = []
    best: set[tuple[int, int]] = set()
    for row, cells in report.by_row.items():
        texts = list(labels.rows[row])
        for column in report.heads:
            cell = cells.get(column)
            if cell is not None and report.is_best(cell, row):
                best.add((len(rows), len(texts)))
            texts.append("" if cell is None else _marked(cell))
        rows.append(texts)
    sentences = [f"Rows: {listed(labels.heads)}. Columns: {labels.axes}."]
    if any(comparison.is_significant for comparison in comparisons_of([report])):
        sentences.append(f"*: differs from {labels.base}, p (Holm) below {LEVEL}.")
    if report.rows == ["data.name"]:
        rows.append([MEAN, *average(report)])
        sentences.append(ABOUT_MEAN)
    heads = labels.heads + list(labels.columns.values())
    bold_is = "the best mean of its row"
    if "task.name" in report.columns:
        bold_is = "the best mean of its row and task"
    caption = _caption(report, sentences)
    return Grid(title(report, MEANS), heads, rows, len(labels.heads), caption, best, bold_is)


def _list_of_means(report: Report) -> Grid:
    """Return the means of a single row, one below the other, the best bold."""
    scores = [(cell, [score(cell)]) for cell in report.cells]
    caption = _caption(report, ["A row is a way to train."])
    return _best_bold(report, by_cell(report, scores, ["mean"], title(report, MEANS), caption))


def _marked(cell: Cell) -> str:
    """Return a cell's score, with a star if it differs significantly from the baseline."""
    if cell.comparison and cell.comparison.is_significant:
        return f"{score(cell)}*"
    return score(cell)


def _best_bold(report: Report, grid: Grid) -> Grid:
    """Mark the best means, in the first column of figures."""
    bold: set[tuple[int, int]] = set()
    for number, cell in enumerate(report.cells):
        if report.is_best(cell):
            bold.add((number, grid.left))
    heads = labels_of(report).heads
    same = f" of the same {listed(heads)}" if heads else ""
    return grid._replace(bold=bold, bold_is=f"the best mean{same}")


def _caption(report: Report, sentences: Sequence[str]) -> str:
    """Return these sentences, what dev selected, the scores, and the numbers of examples."""
    chosen = ""
    if report.chosen_among > 1:
        chosen = (
            f"Beside the baseline, of up to {report.chosen_among} settings the best one on dev."
        )
    parts = list(sentences)
    parts += [chosen, labels_of(report).figures, _measured_on(report), _trained_on(report)]
    return " ".join(filter(None, parts))


def _measured_on(report: Report) -> str:
    """Return a sentence with the number of measured examples, of each corpus if it differs; "" for
    runs that do not have it.
    """
    sizes: set[str] = set()
    of_corpora: set[str] = set()
    for cell in report.cells:
        if cell.size:
            sizes.add(cell.size)
            of_corpora.add(f"{_corpus(cell.runs[0])} {cell.size}")
    if not sizes:
        return ""
    shown = sizes if len(sizes) == 1 else of_corpora
    chosen = f" {ABOUT_BOTH}" if report.split == BOTH else ""
    return f"{report.split_title.capitalize()} examples: {'; '.join(sorted(shown))}.{chosen}"


def _trained_on(report: Report) -> str:
    """Return a sentence with the numbers of training examples, of each corpus if there are several;
    "" for runs that do not have it.
    """
    counts: dict[str, set[int]] = defaultdict(set)
    for run in report.runs:
        if "train" in run.examples:
            counts[_corpus(run)].add(run.examples["train"])
    if not counts:
        return ""
    ranges: dict[str, str] = {}
    for corpus, numbers in counts.items():
        fewest = f"{min(numbers):,}"
        most = f"{max(numbers):,}"
        ranges[corpus] = fewest if fewest == most else f"{fewest} to {most}"
    distinct = set(ranges.values())
    if len(distinct) == 1:
        return f"Training examples: {distinct.pop()}."
    shown = [f"{corpus} {numbers}" for corpus, numbers in sorted(ranges.items())]
    return f"Training examples: {'; '.join(shown)}."


def _corpus(run: Run) -> str:
    """Return the name of a run's corpus; its task's if it has none."""
    return str(run.settings.get("data.name", run.task))


def by_cell(
    report: Report, rows: list[tuple[Cell, list[str]]], heads: list[str], title: str, caption: str
) -> Grid:
    """Return a table with a row for each cell, with these figures; empty columns are left out."""
    labels = labels_of(report)
    of_names = [*labels.heads, labels.axes]
    texts = []
    for cell, figures in rows:
        texts.append(labels.rows[cell.row] + [labels.columns[cell.column]] + figures)
    grid = Grid(title, of_names + heads, texts, len(of_names), caption)
    empty = set()
    for column in range(grid.left, len(grid.heads)):
        if not any(row[column] for row in grid.rows):
            empty.add(column)
    return without(grid, empty)


def differences(report: Report) -> Grid:
    """Return a table with a row for each cell: its mean and its difference to the baseline."""
    base = labels_of(report).base
    rows = []
    has_smallest = False
    has_folds = False
    for cell in report.cells:
        figures = [score(cell)]
        if cell.comparison is None:
            figures += [""] * (len(TESTED) + 1)
        else:
            figures += tested(cell.comparison)
            figures.append(points(cell.comparison.error_reduction))
            test = cell.comparison.test
            has_smallest = has_smallest or (test is not None and test.detectable is not None)
            has_folds = has_folds or (test is not None and test.folds is not None)
        rows.append((cell, figures))
    sentences = [
        f"A row is a way to train; the difference is to {base}, in points, above 0 if the row is "
        "better.",
        ABOUT_TESTS,
    ]
    if has_folds:
        sentences.append(ABOUT_FOLDS)
    if has_smallest:
        sentences.append(ABOUT_SMALLEST)
    sentences.append(ABOUT_ERRORS)
    caption = _caption(report, sentences)
    heads = ["mean", *TESTED, ERRORS]
    what = title(report, f"{MEANS}, and its difference to {base}")
    grid = by_cell(report, rows, heads, what, caption)
    return _best_bold(report, grid)._replace(spare=(ERRORS, SMALLEST, "p"))


def average(report: Report) -> list[str]:
    """Return the mean of each column over corpora, those on which the same models were tested as
    one; "–" where a corpus lacks it.
    """
    by_training: dict[Hashable, list[Mapping[Key, Cell]]] = defaultdict(list)
    for cells in report.by_row.values():
        run = next(iter(cells.values())).runs[0]
        by_training[run.settings.get("trained_on.name")].append(cells)
    means_of_columns = []
    for column in report.heads:
        if all(column in cells for cells in report.by_row.values()):
            of_models = [_mean(corpora, column) for corpora in by_training.values()]
            means_of_columns.append(points(fmean(of_models)))
        else:
            means_of_columns.append(NONE)
    return means_of_columns


def _mean(rows: Sequence[Mapping[Key, Cell]], column: Key) -> float:
    """Return the mean of a column over rows, a fraction of 1."""
    return fmean(cells[column].mean for cells in rows)


def tested(comparison: Comparison) -> list[str]:
    """Return the figures of a comparison for the columns of TESTED."""
    difference = points(comparison.difference, signed=True)
    test = comparison.test
    if test is None:
        return [difference, "", "", "", ""]
    low, high = test.interval
    interval = f"{points(low, signed=True)} to {points(high, signed=True)}"
    corrected = p_value(comparison.p_holm)
    if test.p is not None and test.is_preliminary:
        corrected = PRELIMINARY
    elif comparison.is_significant:
        corrected += "*"
    return [difference, interval, p_value(test.p), corrected, points(test.detectable)]


def depth(report: Report) -> Grid:
    """Return a table of the layers that may be the best of each row."""
    labels = labels_of(report)
    by_row = depths(report)
    rows = []
    for row, ours in by_row.items():
        rows_below = []
        for other, theirs in by_row.items():
            if theirs.is_below(ours):
                rows_below.append(", ".join(labels.rows[other]))
        candidates = listed(map(str, ours.candidates))
        texts = [str(ours.highest), candidates, "; ".join(rows_below)]
        rows.append(labels.rows[row] + texts)
    heads = labels.heads + OF_DEPTH
    what = headed(report, f"which layers may be the best on {report.split_title}")
    grid = Grid(what, heads, rows, len(labels.heads), f"{ABOUT_DEPTH} {ABOUT_DEEPER}")
    if any(row[-1] for row in rows):
        return grid
    return without(grid._replace(caption=ABOUT_DEPTH), {len(heads) - 1})


def tuning(report: Report) -> Grid:
    """Return a table of what each side has drawn and chosen, and its tuning curve."""
    labels = labels_of(report)
    by_row = sides(report)
    tuned_columns: set[Key] = set()
    for tuned in by_row.values():
        tuned_columns.update(tuned)
    columns = [column for column in report.heads if column in tuned_columns]
    rows = []
    sentences = [ABOUT_TUNING.format(labels.base)]
    for row, tuned in by_row.items():
        for line in _tuning_lines(tuned, columns):
            rows.append(labels.rows[row] + line)
        base = tuned[report.baseline or ()]
        for column, side in tuned.items():
            if side is not base:
                side_name = ", ".join(labels.rows[row] + [labels.columns[column]])
                outcome = verdict(side.curve, base.curve)
                sentences.append(f"{side_name} against {labels.base}: {outcome}.")
    heads = [*labels.heads, ""]
    left = len(heads)
    heads += [labels.columns[column] for column in columns]
    return Grid(headed(report, "tuning"), heads, rows, left, " ".join(sentences))


def _tuning_lines(tuned: Mapping[Key, Side], columns: Sequence[Key]) -> list[list[str]]:
    """Return a row's lines of the table of tuning: what each tells, and then the text of each
    column, "" for a column that has nothing of the kind.
    """
    most = max(len(side.draws) for side in tuned.values())
    by_kind: dict[str, dict[Key, str]] = defaultdict(dict)  # "draws" and so on -> texts by column
    for column, side in tuned.items():
        for kind, told in lines(side, most).items():
            by_kind[kind][column] = told
    table = []
    for kind, texts in by_kind.items():
        line = [kind]
        for column in columns:
            line.append(texts.get(column, ""))
        table.append(line)
    return table


def paper(report: Report) -> Grid:
    """Return a table of our scores and the paper's, for the settings that the paper reports."""
    rows = []
    sources: dict[str, None] = {}  # an ordered set
    for cell in report.cells:
        if cell.published is not None:
            rows.append((cell, _published(report, cell)))
            sources[source(cell.runs[0])] = None
    heads = ["here", "paper", f"{ERRORS} here", f"{ERRORS} in the paper", "the paper's corpus"]
    sentences = [ABOUT_PAPER]
    if comparisons_of([report]):
        sentences.append(ABOUT_ERRORS)
    sentences.append(labels_of(report).figures)
    what = title(report, f"beside {listed(sources)}")
    return by_cell(report, rows, heads, what, " ".join(sentences))


def _published(report: Report, cell: Cell) -> list[str]:
    """Return a cell's figures for `paper`."""
    ours = theirs = None
    base = report.base(cell.row)
    if cell.comparison and base:
        ours = cell.comparison.error_reduction
        if base.published is not None and cell.published is not None:
            theirs = (cell.published - base.published) / (1 - base.published)
    percents = [points(cell.published), points(ours), points(theirs)]
    return [score(cell), *percents, paper_corpus(cell.runs[0])]


def score(cell: Cell) -> str:
    """Format a cell in percent: mean ± standard deviation (runs)."""
    spread = "" if cell.deviation is None else f" ± {100 * cell.deviation:.2f}"
    return f"{points(cell.mean)}{spread} ({len(cell.runs)})"
