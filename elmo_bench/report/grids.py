"""A report's tables: means, differences with significance tests, and the paper's scores."""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from functools import lru_cache
from statistics import fmean
from typing import NamedTuple

from elmo_bench.runs import Key, text
from elmo_bench.terminal import listed

from .comparison import Comparison
from .depth import depths
from .names import NONE, axis, corpus_title, metric_title, name, names, points, task_titles, value
from .published import paper_corpus, source
from .significance import FEWEST, LEVEL, PRELIMINARY
from .table import Cell, Report, comparisons_of
from .tuning import lines, sides, verdict
from .writers import Grid, without

MEANS = "percent: mean ± standard deviation (runs)"
ERRORS, SMALLEST = "relative error reduction", "smallest found"
ABOUT_ERRORS = (
    "Relative error reduction, percent: the difference as a share of 100 minus the baseline."
)
ABOUT_TESTS = (
    "The interval goes with p; p (Holm) is corrected for all comparisons of the split, and * marks "
    f"it below {LEVEL}. {PRELIMINARY.capitalize()}: fewer than {FEWEST} runs a side decide "
    "nothing; a single run has no p, and its interval is for these models on new examples."
)
ABOUT_SMALLEST = (
    f"{SMALLEST.capitalize()}: the smallest true difference that so many runs and examples find (p "
    f"(Holm) below {LEVEL}) in 80 % of cases."
)
MEAN = "mean over corpora"  # the last row of a table whose rows are corpora
ABOUT_MEAN = "In the mean, corpora on which the same models were tested count as one."
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
ABOUT_DEEPER = "Deeper than: the rows of the same encoder whose layers all lie below."
TESTED = ["difference", "95 % interval", "p", "p (Holm)", SMALLEST]  # heads of `tested`


class Labels(NamedTuple):
    """Display names of a report's settings and figures."""

    subject: str  # task and corpus, "NER (wikigold)", if there is one and no row or column names it
    constant: str  # the settings that all rows share
    heads: list[str]  # of the columns of row names: the row keys that vary
    rows: Mapping[Key, list[str]]
    columns: Mapping[Key, str]
    axes: str  # of the columns
    base: str  # the baseline
    figure: str
    each: str  # a sentence with the figure of each task, or corpus, if they differ


@lru_cache(maxsize=32)
def labels_of(report: Report) -> Labels:
    """Return the display names of a report, which are made once."""
    titles = task_titles(report.runs)
    rows = [*dict.fromkeys(cell.row for cell in report.cells)]
    values = {key: [row[k] for row in rows] for k, key in enumerate(report.rows)}
    varying = {key: column for key, column in values.items() if len({*column}) > 1}
    constant = {key: column[0] for key, column in values.items() if key not in varying}
    shares = {run.settings.get("fraction", 1) for run in report.runs}
    if len(shares) == 1 and shares != {1} and "fraction" not in report.keys:
        constant["fraction"] = shares.pop()
    tested = {corpus_title(run, titles) for run in report.runs}
    subject = min(tested) if len(tested) == 1 and "data.name" not in report.keys else ""
    of_constant = dict.fromkeys(titles, subject) if subject else titles
    columns = []
    for key, column in varying.items():
        of_tasks = titles if key == "task.name" else {}
        words = [of_tasks.get(text(one)) or value(key, one) for one in column]
        # As they are written where two have one name.
        columns.append(words if len({*words}) == len({*column}) else [*map(text, column)])
    measured = {
        (run.task, str(run.settings.get("data.name"))): metric_title(run, report.metric)
        for run in report.runs
    }
    # Corpora of a task may have figures of their own.
    alike = len({(task, figure) for (task, _), figure in measured.items()}) == len(titles)
    shown = [
        f"{titles[task]}{'' if alike else f' ({data})'} {figure}"
        for (task, data), figure in measured.items()
    ]
    figures, columns_of = {*measured.values()}, names(report.columns, report.heads, titles)
    return Labels(
        subject=subject,
        constant=name([*constant], [*constant.values()], of_constant),
        heads=[*map(axis, varying)],
        rows={row: [column[k] for column in columns] for k, row in enumerate(rows)},
        columns=columns_of,
        axes=listed(map(axis, report.columns)),
        base=columns_of.get(report.baseline or (), ""),
        figure=min(figures) if len(figures) == 1 else "scores",
        each=f"Scores: {'; '.join(dict.fromkeys(shown))}." if len(figures) > 1 else "",
    )


def title(report: Report, what: str) -> str:
    """Return the title of a table of a report's figures."""
    shown = labels_of(report)
    subject = "" if report.title or shown.subject in shown.constant else shown.subject
    parts = subject, shown.constant, f"{report.split} {shown.figure}", what
    about = ", ".join(filter(None, parts))
    return about if shown.constant and not report.title else titled(report.title, about)


def headed(report: Report, about: str) -> str:
    """Return the title of a table or plot that is not of a report's figures alone: what it is
    about, after the title of the report or, without one, its task and corpus.
    """
    return titled(report.title or labels_of(report).subject, about)


def titled(title: str, about: str) -> str:
    """Return what a table or plot is about, after the title of its report, if it has one.

    >>> titled("", "test F1 by layer"), titled("Books", "test F1 by layer")
    ('Test F1 by layer', 'Books: test F1 by layer')
    """
    return f"{title}: {about}" if title else about[:1].upper() + about[1:]


def tables(report: Report) -> dict[str, Grid]:
    """Return the tables by kind, in reading order: `means`, `differences`, `depth`, `tuning` and
    `paper`; without empty ones and, because `differences` includes them, the means of a single row
    with comparisons.
    """
    has_comparisons = bool(comparisons_of([report]))
    grids = {}
    if not has_comparisons or len({cell.row for cell in report.cells}) > 1:
        grids["means"] = means(report)
    if has_comparisons:
        grids["differences"] = differences(report)
    if depths(report):
        grids["depth"] = depth(report)
    if sides(report):
        grids["tuning"] = tuning(report)
    if any(cell.published is not None for cell in report.cells):
        grids["paper"] = paper(report)
    return grids


def means(report: Report) -> Grid:
    """Return the table of means: rows by columns, the best bold; a single row as a list."""
    labels = labels_of(report)
    if not labels.heads:
        scores = [(cell, [score(cell)]) for cell in report.cells]
        caption = _caption(report, "A row is a way to train.")
        return _best_bold(report, by_cell(report, scores, ["mean"], title(report, MEANS), caption))
    left, columns = len(labels.heads), report.heads
    axes = f"Rows: {listed(labels.heads)}. Columns: {labels.axes}."
    has_stars = any(comparison.is_significant for comparison in comparisons_of([report]))
    stars = f"*: differs from {labels.base}, p (Holm) below {LEVEL}." if has_stars else ""
    rows, best = list[list[str]](), set[tuple[int, int]]()
    for row, cells in report.by_row.items():
        bold = (at for at, cell in cells.items() if report.is_best(cell, row))
        best |= {(len(rows), left + columns.index(at)) for at in bold}
        rows.append([*labels.rows[row], *(_marked(cells.get(at)) for at in columns)])
    if is_of_corpora := report.rows == ["data.name"]:
        rows.append([MEAN, *average(report)])
    heads = [*labels.heads, *(labels.columns[at] for at in columns)]
    caption = _caption(report, axes, stars, ABOUT_MEAN * is_of_corpora)
    bold_is = "the best mean of its row" + " and task" * ("task.name" in report.columns)
    return Grid(title(report, MEANS), heads, rows, left, caption, best, bold_is)


def _marked(cell: Cell | None) -> str:
    """Return a cell's score, with a star if it differs significantly from the baseline."""
    if cell is None:
        return ""
    return score(cell) + "*" * bool(cell.comparison and cell.comparison.is_significant)


def _best_bold(report: Report, grid: Grid) -> Grid:
    """Mark the best means, in the first column of figures."""
    heads = labels_of(report).heads
    bold = {(number, grid.left) for number, cell in enumerate(report.cells) if report.is_best(cell)}
    same = f" of the same {listed(heads)}" if heads else ""
    return grid._replace(bold=bold, bold_is=f"the best mean{same}")


def _caption(report: Report, *sentences: str) -> str:
    """Return these sentences, what dev selected, the scores, and the numbers of examples."""
    among = report.chosen_among
    chosen = f"Beside the baseline, of up to {among} settings the best one on dev."
    firsts = [(cell.runs[0], cell.size) for cell in report.cells]
    sizes = {(str(run.settings.get("data.name", run.task)), size) for run, size in firsts}
    named = {size for _, size in sizes if size}
    if len(named) > 1:
        named = {f"{corpus} {size}" for corpus, size in sizes if size}
    examples = f"{report.split.capitalize()} examples: {'; '.join(sorted(named))}."
    more = chosen * (among > 1), labels_of(report).each, examples * bool(named), _trained_on(report)
    return " ".join(filter(None, [*sentences, *more]))


def _trained_on(report: Report) -> str:
    """Return a sentence with the numbers of training examples, of each corpus if there are several;
    "" for runs that do not have it.
    """
    counts: dict[str, set[int]] = defaultdict(set)
    for run in report.runs:
        if "train" in run.examples:
            counts[str(run.settings.get("data.name", run.task))].add(run.examples["train"])
    if not counts:
        return ""
    ranges = {
        corpus: " to ".join(f"{n:,}" for n in sorted({min(numbers), max(numbers)}))
        for corpus, numbers in counts.items()
    }
    shown = [*ranges.values()]
    if len({*shown}) > 1:
        shown = [f"{corpus} {numbers}" for corpus, numbers in sorted(ranges.items())]
    return f"Training examples: {'; '.join(dict.fromkeys(shown))}."


def by_cell(
    report: Report, rows: list[tuple[Cell, list[str]]], heads: list[str], title: str, caption: str
) -> Grid:
    """Return a table with a row for each cell, with these figures; empty columns are left out."""
    labels = labels_of(report)
    texts = [[*labels.rows[cell.row], labels.columns[cell.column], *each] for cell, each in rows]
    keys = [*labels.heads, labels.axes]
    grid = Grid(title, [*keys, *heads], texts, len(keys), caption)
    columns = range(grid.left, len(grid.heads))
    return without(grid, {c for c in columns if not any(row[c] for row in grid.rows)})


def differences(report: Report) -> Grid:
    """Return a table with a row for each cell: its mean and its difference to the baseline."""
    labels = labels_of(report)
    tests = [comparison.test for comparison in comparisons_of([report])]
    smallest = ABOUT_SMALLEST * any(test and test.detectable is not None for test in tests)
    rows = [
        (cell, [score(cell), *tested(compared), points(compared.error_reduction)])
        if (compared := cell.comparison)
        else (cell, [score(cell), *[""] * 6])
        for cell in report.cells
    ]
    about = f"A row is a way to train; the difference is to {labels.base}, in points, above 0"
    caption = _caption(
        report, f"{about} if the row is better.", ABOUT_TESTS, smallest, ABOUT_ERRORS
    )
    what = title(report, f"{MEANS}, and its difference to {labels.base}")
    grid = by_cell(report, rows, ["mean", *TESTED, ERRORS], what, caption)
    return _best_bold(report, grid)._replace(spare=(ERRORS, SMALLEST, "p"))


def average(report: Report) -> list[str]:
    """Return the mean of each column over corpora, those on which the same models were tested as
    one; "–" where a corpus lacks it.
    """
    by_training: dict[Hashable, list[Mapping[Key, Cell]]] = defaultdict(list)
    for cells in report.by_row.values():
        run = next(iter(cells.values())).runs[0]
        by_training[run.settings.get("trained_on.name")].append(cells)
    groups = by_training.values()
    return [
        points(fmean(fmean(cells[column].mean for cells in group) for group in groups))
        if all(column in cells for cells in report.by_row.values())
        else NONE
        for column in report.heads
    ]


def tested(comparison: Comparison) -> list[str]:
    """Return the figures of a comparison for the columns of TESTED."""
    test, difference = comparison.test, points(comparison.difference, signed=True)
    if test is None:
        return [difference, *[""] * 4]
    interval = " to ".join(points(end, signed=True) for end in test.interval)
    holm = p_value(comparison.p_holm) + "*" * comparison.is_significant
    corrected = PRELIMINARY if test.p is not None and test.is_preliminary else holm
    return [difference, interval, p_value(test.p), corrected, points(test.detectable)]


def depth(report: Report) -> Grid:
    """Return a table of the layers that may be the best of each row."""
    labels, by_row, rows = labels_of(report), depths(report), []
    for row, ours in by_row.items():
        below = [other for other, theirs in by_row.items() if theirs.is_below(ours)]
        deeper = "; ".join(", ".join(labels.rows[other]) for other in below)
        candidates = listed(map(str, ours.candidates))
        rows.append([*labels.rows[row], str(ours.highest), candidates, deeper])
    heads = [*labels.heads, "layer with the highest mean", "may be the best", "deeper than"]
    what = headed(report, f"which layers may be the best on {report.split}")
    some = any(row[-1] for row in rows)
    caption = f"{ABOUT_DEPTH} {ABOUT_DEEPER}" if some else ABOUT_DEPTH
    grid = Grid(what, heads, rows, len(labels.heads), caption)
    return grid if some else without(grid, {len(heads) - 1})


def tuning(report: Report) -> Grid:
    """Return a table of what each side has drawn and chosen, and its tuning curve."""
    labels, by_row = labels_of(report), sides(report)
    columns = [head for head in report.heads if any(head in tuned for tuned in by_row.values())]
    rows, said = [], [ABOUT_TUNING.format(labels.base)]
    for row, tuned in by_row.items():
        most = max(len(side.draws) for side in tuned.values())
        texts = {column: lines(side, most) for column, side in tuned.items()}
        for what in dict.fromkeys(what for each in texts.values() for what in each):
            cells = (texts.get(column, {}).get(what, "") for column in columns)
            rows.append([*labels.rows[row], what, *cells])
        base = tuned[report.baseline or ()]
        for column, side in tuned.items():
            if side is not base:
                names = ", ".join([*labels.rows[row], labels.columns[column]])
                said.append(f"{names} against {labels.base}: {verdict(side.curve, base.curve)}.")
    heads = [*labels.heads, "", *(labels.columns[column] for column in columns)]
    return Grid(headed(report, "tuning"), heads, rows, len(labels.heads) + 1, " ".join(said))


def paper(report: Report) -> Grid:
    """Return a table of our scores and the paper's, for the settings that the paper reports."""
    cells = [cell for cell in report.cells if cell.published is not None]
    return by_cell(
        report,
        [(cell, _published(report, cell)) for cell in cells],
        ["here", "paper", f"{ERRORS} here", f"{ERRORS} in the paper", "the paper's corpus"],
        title(report, f"beside {listed(dict.fromkeys(source(cell.runs[0]) for cell in cells))}"),
        "Percent; the paper's scores are as published: its corpus is named where these runs have "
        "another, or less of it, and its biLM is adapted to the task's text in all tasks but "
        "coreference and SRL. "
        + " ".join([*[ABOUT_ERRORS] * bool(comparisons_of([report])), labels_of(report).each]),
    )


def _published(report: Report, cell: Cell) -> list[str]:
    """Return a cell's figures for `paper`."""
    ours = theirs = None
    if cell.comparison and (base := report.base(cell.row)):
        ours = cell.comparison.error_reduction
        if base.published is not None and cell.published is not None:
            theirs = (cell.published - base.published) / (1 - base.published)
    figures = map(points, (cell.published, ours, theirs))
    return [score(cell), *figures, paper_corpus(cell.runs[0])]


def score(cell: Cell) -> str:
    """Format a cell in percent: mean ± standard deviation (runs)."""
    spread = "" if cell.deviation is None else f" ± {100 * cell.deviation:.2f}"
    return f"{points(cell.mean)}{spread} ({len(cell.runs)})"


def p_value(p: float | None) -> str:
    """Format a p, so that one below 0.05 never looks like 0.05.

    >>> p_value(0.049), p_value(0.04996), p_value(0.0001)
    ('0.049', '<0.050', '<0.001')
    """
    if p is None or p < 0.001:
        return "" if p is None else "<0.001"
    return f"<{LEVEL:.3f}" if p < LEVEL <= round(p, 3) else f"{p:.3f}"
