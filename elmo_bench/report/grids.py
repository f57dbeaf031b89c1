"""A report's tables: means, differences with significance tests, statistical power, and the
paper's figures.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from elmo_bench.runs import Key, Run, text

from .grid import Grid, without
from .names import (
    NONE,
    as_written,
    axis,
    is_number,
    listed,
    metric_title,
    name,
    names,
    task_titles,
    value,
)
from .published import corpus, is_adapted, paper_corpus
from .significance import FEWEST, LEVEL, PRELIMINARY, Shares, Test
from .table import (
    Cell,
    Comparison,
    Report,
    base_row,
    comparisons_of,
    examples_of,
    is_best,
    order,
)

MEANS = "mean ± standard deviation (runs)"
ALIKE = 0.1  # shares of the noise that differ by less count as equal
HARDLY = 0.8  # more seeds hardly help if examples cause more than this share of the noise
SHOWN = 2  # up to this many row keys have a column each; more share one column
ERRORS = "errors removed"
PAPER = "Peters et al. (2018)"


def grids(report: Report) -> list[Grid]:
    """Return the tables in reading order."""
    return [*tables(report).values()]


def tables(report: Report) -> dict[str, Grid]:
    """Return the tables by kind: `means`, `differences`, `power`, `paper`.

    A table without content is omitted; so are the means of a single row with comparisons, because
    `differences` includes them.
    """
    words = Words.of(report)
    compared = [cell for cell in report.cells if cell.comparison]
    grids = {}
    if not compared or len({cell.row for cell in report.cells}) > 1:
        grids["means"] = means(report, words)
    if compared:
        grids["differences"] = differences(report, words)
    if any(test.detectable is not None for _, test in tests(report)):
        grids["power"] = power(report, words)
    if any(cell.published is not None for cell in report.cells):
        grids["paper"] = paper(report, words)
    return grids


def tests(report: Report) -> Iterator[tuple[Cell, Test]]:
    """Yield the cells that have a test, with the test."""
    for cell in report.cells:
        if cell.comparison and cell.comparison.test:
            yield cell, cell.comparison.test


class Words(NamedTuple):
    """Display names of a report's settings and figures."""

    titles: Mapping[str, str]  # of tasks
    constant: str  # the settings that all rows share
    keys: list[str]  # the row keys that vary
    heads: list[str]  # the heads of the columns of row names
    rows: Mapping[Key, list[str]]
    columns: Mapping[Key, str]
    figure: str
    each: str  # a sentence with each task's figure, if they differ

    @classmethod
    def of(cls, report: Report) -> "Words":
        runs = [run for cell in report.cells for run in cell.runs]
        titles = task_titles(runs)
        rows = list(dict.fromkeys(cell.row for cell in report.cells))
        parts = _common_fraction(runs, [*report.rows, *report.columns])
        varying = [k for k in range(len(report.rows)) if len({row[k] for row in rows}) > 1]
        constant = [k for k in range(len(report.rows)) if k not in varying and rows]
        keys = [report.rows[k] for k in varying]
        figure, each = _figures(report, runs, titles)
        return cls(
            titles=titles,
            constant=name(
                [*(report.rows[k] for k in constant), *parts],
                [*(rows[0][k] for k in constant if rows), *parts.values()],
                titles,
            ),
            keys=keys,
            heads=[axis(key) for key in keys] if len(keys) <= SHOWN else ["setting"],
            rows=dict(
                zip(
                    rows,
                    _rows(keys, [tuple(row[k] for k in varying) for row in rows], titles),
                    strict=True,
                )
            ),
            columns=names(report.columns, {cell.column for cell in report.cells}, titles),
            figure=figure,
            each=each,
        )

    def row(self, key: Key) -> str:
        """Return a row's name for use in a sentence."""
        return ", ".join(text for text in self.rows[key] if text != NONE)

    def title(self, report: Report, what: str) -> str:
        about = f"{report.split} {self.figure}, {what}"
        if not (report.title or self.constant):
            return capital(about)
        about = ", ".join(filter(None, (self.constant, about)))
        return f"{report.title}: {about}" if report.title else about


def _common_fraction(runs: Sequence[Run], keys: Sequence[str]) -> dict[str, Hashable]:
    """Return the runs' common share of the training set, if it is below 1 and not a report key."""
    shares = {run.settings.get("fraction", 1) for run in runs}
    (share,) = shares if len(shares) == 1 else (1,)
    is_part = "fraction" not in keys and is_number(share) and share < 1
    return {"fraction": share} if is_part else {}


def _figures(report: Report, runs: Sequence[Run], titles: Mapping[str, str]) -> tuple[str, str]:
    """Return the name of the figure and, if tasks have different figures, a sentence with them."""
    by_task = {titles[run.task]: metric_title(run, report.metric) for run in runs}
    figures = {*by_task.values()}
    if len(figures) == 1:
        return figures.pop(), ""
    shown = "; ".join(f"{task} {figure}" for task, figure in by_task.items())
    return "figures", f"Figures: {shown}."


def _rows(keys: Sequence[str], rows: Sequence[Key], titles: Mapping[str, str]) -> list[list[str]]:
    """Return the rows' names: one for each key, or a single one if there are more than `SHOWN`."""
    if len(keys) > SHOWN:
        merged = names(keys, rows, titles)
        return [[merged[row]] for row in rows]
    columns = [_values(key, [row[k] for row in rows], titles) for k, key in enumerate(keys)]
    return [[column[one] for column, one in zip(columns, row, strict=True)] for row in rows]


def _values(
    key: str, settings: Iterable[Hashable], titles: Mapping[str, str]
) -> dict[Hashable, str]:
    """Return unique display names for the values of a key."""
    of_tasks = titles if key == "task.name" else {}
    words = {one: of_tasks.get(text(one)) or value(key, one) for one in settings}
    return words if len({*words.values()}) == len(words) else {one: text(one) for one in words}


def heads(report: Report) -> list[Key]:
    """Return the columns in order, the baseline first."""
    return sorted(
        {cell.column for cell in report.cells},
        key=lambda column: (column != report.baseline, order(column)),
    )


def means(report: Report, words: Words) -> Grid:
    """Return the table of means: rows by columns, the best bold; a single row as a list."""
    if not words.heads:
        return listing(report, words)
    columns, left = heads(report), len(words.heads)
    shown = with_baseline(report)
    rows = [[*words.rows[key], *([""] * len(columns))] for key in shown]
    hover = {(-1, left + k): as_written(report.columns, c) for k, c in enumerate(columns)}
    bold, stars = set(), False
    for number, cells in enumerate(shown.values()):
        for column, cell in cells.items():
            place = left + columns.index(column)
            rows[number][place] = score(cell) + star(cell)
            stars = stars or bool(star(cell))
            rivals = [each.mean for each in cells.values() if each.task == cell.task]
            bold |= {(number, place)} if is_best(cell.mean, rivals) else set()
    return Grid(
        words.title(report, f"percent: {MEANS}"),
        [*words.heads, *(words.columns[column] for column in columns)],
        rows,
        bold,
        left,
        hover | _hover(report, words, shown),
        _sentences(
            f"Rows: {_axes(words.keys)}. Columns: {_axes(report.columns)}.",
            f"*: differs from {words.columns[report.baseline or ()]}, p (Holm) below {LEVEL}."
            if stars
            else "",
            _chosen(report),
            words.each,
            sizes(report, words),
        ),
        bold_is="the best mean of its row" + " and task" * ("task.name" in report.columns),
    )


def with_baseline(report: Report) -> dict[Key, dict[Key, Cell]]:
    """Return each row's cells by column, including the baseline of the row.

    A row that has only a baseline is left out if another row uses that baseline.
    """
    rows: dict[Key, dict[Key, Cell]] = {}
    for cell in report.cells:
        rows.setdefault(cell.row, {})[cell.column] = cell
    if report.baseline is None:
        return rows
    baselines = {
        row: cells[report.baseline] for row, cells in rows.items() if report.baseline in cells
    }
    lending_rows = set()
    for row, cells in rows.items():
        serving = base_row(baselines, row, report.rows)
        if serving is not None and serving != row:
            cells[report.baseline] = baselines[serving]
            lending_rows.add(serving)
    return {row: cells for row, cells in rows.items() if len(cells) > 1 or row not in lending_rows}


def listing(report: Report, words: Words) -> Grid:
    """Return a table with a row for each cell, and its mean."""
    caption = _sentences("A row is a way to train.", _chosen(report), sizes(report, words))
    title = words.title(report, f"percent: {MEANS}")
    grid = by_cell(report, words, report.cells, ["mean"], title, caption)
    for row, cell in zip(grid.rows, report.cells, strict=True):
        row.append(score(cell))
    bold = {(number, grid.left) for number, cell in enumerate(report.cells) if cell.best}
    return grid._replace(bold=bold, bold_is="the best mean")


def _axes(keys: Iterable[str]) -> str:
    return listed([*map(axis, keys)])


def _hover(report: Report, words: Words, rows: Iterable[Key]) -> dict[tuple[int, int], str]:
    """Return the config keys behind the names of rows, by (row, column)."""
    hover = {}
    if len(words.keys) <= SHOWN:
        hover = {(-1, k): key.removesuffix(".name") for k, key in enumerate(words.keys)}
    for number, row in enumerate(rows):
        written = as_written(report.rows, row)
        hover |= {(number, k): written for k in range(len(words.heads))}
    return hover


def _chosen(report: Report) -> str:
    """Return a sentence that says how settings were chosen on dev, for a report on test."""
    if report.chosen_among < 2:
        return ""
    return f"Beside the baseline, of up to {report.chosen_among} settings the best one on dev."


def _sentences(*sentences: str) -> str:
    return " ".join(filter(None, sentences))


def by_cell(
    report: Report,
    words: Words,
    cells: Sequence[Cell],
    heads: Sequence[str],
    title: str,
    caption: str,
) -> Grid:
    """Return a table with a row for each cell; the caller appends the figures."""
    left = len(words.heads) + 1
    keys = [*words.heads, _axes(report.columns)]
    hover = _hover(report, words, [cell.row for cell in cells])
    hover |= {(-1, left - 1): " ".join(key.removesuffix(".name") for key in report.columns)}
    hover |= {
        (number, left - 1): as_written(report.columns, cell.column)
        for number, cell in enumerate(cells)
    }
    rows = [[*words.rows[cell.row], words.columns[cell.column]] for cell in cells]
    return Grid(title, [*keys, *heads], rows, set(), left, hover, caption)


def differences(report: Report, words: Words) -> Grid:
    """Return a table with a row for each cell: its mean and its difference to the baseline."""
    base = words.columns[report.baseline or ()]
    equal = [cell.comparison.equal for cell in report.cells if cell.comparison]
    region = report.equal_within if any(equal) else None
    heads = ["mean", "difference", "95 % interval", "p", "p (Holm)", ERRORS]
    heads += [] if region is None else [f"within ±{100 * region:g}"]
    compared = comparisons_of([report])
    stars = correction(compared)
    corrected = any(each.family > 1 or is_preliminary(each) for each in compared)
    grid = by_cell(
        report,
        words,
        report.cells,
        heads,
        words.title(report, f"percent: {MEANS}, and its difference to {base}"),
        _sentences(
            f"A row is a way to train; the difference is to {base}, in points, above 0 if the row "
            "is better.",
            f"The interval goes with p. {stars}" if corrected else stars,
            "Errors removed: the difference as a share of what the baseline lacks to 100, percent.",
            _equivalence(report.equal_within, equal),
            _chosen(report),
            words.each,
            sizes(report, words),
        ),
    )
    for row, cell in zip(grid.rows, report.cells, strict=True):
        row += [score(cell), *comparison(cell, corrected)]
        is_equal = cell.comparison.equal if cell.comparison else None
        shown = {None: "", True: "yes", False: "not shown"}[is_equal]
        row += [] if region is None else [shown]
    bold = {(number, grid.left) for number, cell in enumerate(report.cells) if cell.best}
    best = f"the best mean of the same {listed(words.heads)}" if words.heads else "the best mean"
    return without_empty(grid._replace(bold=bold, bold_is=best, spare=(ERRORS, "p")))


def _equivalence(region: float | None, equal: Sequence[bool | None]) -> str:
    """Return a sentence on the tests of practical equality; "" if there are none."""
    if region is None or all(each is None for each in equal):
        return ""
    tested = "by two one-sided tests at 5 %"
    if any(equal):
        return f"Within ±{100 * region:g}: practically equal, {tested}."
    return f"No difference is shown to be within ±{100 * region:g}, {tested}."


def power(report: Report, words: Words) -> Grid:
    """Return a table of each comparison's power and sources of variance."""
    cells = [(cell, test) for cell, test in tests(report) if test.detectable is not None]
    heads = [
        "smallest found",
        "noise: seeds",
        "noise: examples",
        "noise: both",
        "what would help",
    ]
    shares = [test.shares for _, test in cells if test.shares]
    grid = by_cell(
        report,
        words,
        [cell for cell, _ in cells],
        heads,
        words.title(report, "what so many runs and examples can show"),
        _sentences(
            "Smallest found: the smallest true difference, in points, that the design finds (p "
            f"below {LEVEL}{after_correction(comparisons_of([report]))}) in 80 % of cases.",
            "Noise: where the variance of the difference comes from, percent.",
            most(shares, report.split),
        ),
    )
    for row, (_, test) in zip(grid.rows, cells, strict=True):
        row.append(points(test.detectable))
        row += [""] * 4 if test.shares is None else _noise(test.shares, report.split)
    if len({*map(limit, shares)}) == 1:  # the caption gives the common advice
        for row in grid.rows:
            row[-1] = ""
    return without_empty(grid)


def corrections(comparisons: Iterable[Comparison | None]) -> str:
    """Return how many comparisons each p is corrected for, such as "6 or 23"; "" for one."""
    sizes = sorted({each.family for each in comparisons if each and each.family})
    return " or ".join(map(str, sizes)) if any(size > 1 for size in sizes) else ""


def after_correction(comparisons: Iterable[Comparison | None]) -> str:
    """Return a phrase on the correction; "" if there is none."""
    counts = corrections(comparisons)
    return f" after the correction for {counts} comparisons" if counts else ""


def correction(comparisons: Sequence[Comparison]) -> str:
    """Return sentences that say what p (Holm) and stars mean for these comparisons."""
    if counts := corrections(comparisons):
        stars = f"p (Holm) is corrected for {counts} comparisons, and * marks it below {LEVEL}."
    else:
        stars = f"*: p below {LEVEL}." if any(each.family for each in comparisons) else ""
    few = f"{capital(PRELIMINARY)}: fewer than {FEWEST} runs a side decide nothing."
    return _sentences(stars, few if any(map(is_preliminary, comparisons)) else "")


def is_preliminary(comparison: Comparison) -> bool:
    """Whether a comparison has a p, but too few runs for a star."""
    test = comparison.test
    return test is not None and test.p is not None and test.is_preliminary


def corrected_p(comparison: Comparison) -> str:
    return PRELIMINARY if is_preliminary(comparison) else p_value(comparison.p_holm)


def _noise(shares: Shares, split: str) -> list[str]:
    helps = {"seeds": "more seeds", "examples": f"more {split} data", "both": "either"}
    return [*(f"{100 * share:.0f}" for share in shares), helps[limit(shares)]]


def limit(shares: Shares) -> str:
    """Return the larger source of variance of `seeds` and `examples`, or `both` if similar."""
    if abs(shares.seeds - shares.examples) < ALIKE:
        return "both"
    return "seeds" if shares.seeds > shares.examples else "examples"


def most(shares: Sequence[Shares], split: str) -> str:
    """Return one sentence of advice; "" if none applies to more than half of the comparisons."""
    limits = [*map(limit, shares)]
    examples_dominate = all(one.examples > HARDLY for one in shares if limit(one) == "examples")
    ((kind, count),) = Counter(limits).most_common(1) or [("", 0)]
    if 2 * count <= len(limits):
        return ""
    where = f"In {count} of {len(limits)} comparisons " if len({*limits}) > 1 else ""
    noise, advice = {
        "seeds": (
            f"more noise is between seeds than in the choice of {split} examples",
            "more seeds would show smaller differences",
        ),
        "examples": (
            f"more noise is in the choice of {split} examples than between seeds",
            f"more {split} data would show smaller differences, more seeds "
            + ("hardly" if examples_dominate else "less"),
        ),
        "both": (
            f"seeds and the choice of {split} examples make about as much noise",
            "more of either would show smaller differences",
        ),
    }[kind]
    return capital(f"{where}{noise}: {advice}.")


def paper(report: Report, words: Words) -> Grid:
    """Return a table of our figures and the paper's, for the settings that the paper reports."""
    bases = {cell.row: cell for cell in report.cells if cell.column == report.baseline}
    cells = [cell for cell in report.cells if cell.published is not None]
    own = [paper_corpus(cell.runs[0]) for cell in cells]
    corpora = sorted({corpus(cell.runs[0]) for cell in cells})
    where = (
        "its corpus is named where these runs have another, or less of it"
        if any(own)
        else ", ".join(corpora)
    )
    heads = ["here", "paper", "errors removed here", "errors removed in the paper"]
    grid = by_cell(
        report,
        words,
        cells,
        [*heads, "the paper's corpus"],
        words.title(report, f"beside {PAPER}"),
        _sentences(
            f"Percent; the paper's figures are as published ({where}).",
            _adapted(cells, words),
            "Errors removed: the difference to the baseline as a share of what it lacks to 100."
            * any(cell.comparison is not None for cell in cells),
            words.each,
        ),
    )
    for row, cell, its_corpus in zip(grid.rows, cells, own, strict=True):
        serving = base_row(bases, cell.row, report.rows) if cell.comparison else None
        base = bases[serving].published if serving is not None else None
        theirs = None if base is None else ((cell.published or 0.0) - base) / (1 - base)
        ours = cell.comparison.error_reduction if cell.comparison else None
        row += [score(cell), points(cell.published), points(ours), points(theirs)]
        row.append(its_corpus)
    return without_empty(grid)


def _adapted(cells: Sequence[Cell], words: Words) -> str:
    """Return a sentence on whether the biLM was adapted to the tasks' text; "" for baselines."""
    said = {False: "as released", True: "adapted to the task's text"}
    tasks: dict[bool, dict[str, None]] = {}
    for cell in cells:
        if (adapted := is_adapted(cell.runs[0])) is not None:
            tasks.setdefault(adapted, {})[words.titles[cell.task]] = None
    if not tasks:
        return ""
    ours = [
        said[each] + f" ({', '.join(tasks[each])})" * (len(tasks) > 1) for each in sorted(tasks)
    ]
    return (
        f"The biLM is {', '.join(ours)}; the paper's is adapted in all tasks but coreference "
        "and SRL."
    )


def sizes(report: Report, words: Words) -> str:
    """Return a sentence with the number of examples behind the figures.

    Sizes are listed by task, key or cell, whichever is the shortest list that tells them apart.
    """
    measured = [*_sizes(report)]
    if not measured:
        return ""
    labels: list[Callable[[Cell], str]] = [
        lambda cell: "",
        lambda cell: words.titles[cell.task],
    ]
    keys = [*report.rows, *report.columns]
    labels += [partial(_value_of, number=k, key=key) for k, key in enumerate(keys)]
    labels.append(lambda cell: ", ".join((words.row(cell.row), words.columns[cell.column])))
    for label in labels:
        labelled = {(label(cell), size) for cell, size in measured}
        if len({text for text, _ in labelled}) == len(labelled):
            break
    shown = "; ".join(f"{text} {size}".strip() for text, size in sorted(labelled))
    return f"{report.split.capitalize()} examples: {shown}."


def _sizes(report: Report) -> Iterator[tuple[Cell, str]]:
    """Yield cells with their number of examples; the tests of a row cover its baseline."""
    tested = {cell.row for cell, _ in tests(report)}
    for cell in report.cells:
        if cell.comparison and cell.comparison.test:
            test = cell.comparison.test
            yield cell, _size(test.examples, test.clusters, test.unit)
        elif cell.column != report.baseline or cell.row not in tested:
            read = examples_of(cell.runs[0], report.metric, report.split)
            if read.number:
                yield cell, _size(read.number, len({*read.clusters.tolist()}), read.unit)


def _value_of(cell: Cell, number: int, key: str) -> str:
    return value(key, [*cell.row, *cell.column][number])


def _size(examples: int, clusters: int, unit: str) -> str:
    units = unit + "s" * (clusters > 1)
    if clusters == examples:
        return f"{examples:,} {units}" if unit != "cluster" else f"{examples:,}"
    return f"{examples:,} in {clusters:,} {units}"


def without_empty(grid: Grid) -> Grid:
    """Remove the empty columns of figures."""
    columns = range(grid.left, len(grid.heads))
    return without(grid, {c for c in columns if not any(row[c] for row in grid.rows)})


def score(cell: Cell) -> str:
    """Format a cell in percent: mean ± standard deviation (runs)."""
    spread = "" if cell.deviation is None else f" ± {100 * cell.deviation:.2f}"
    return f"{points(cell.mean)}{spread} ({len(cell.runs)})"


def star(cell: Cell) -> str:
    """Return "*" if the cell differs significantly from the baseline, else ""."""
    p = cell.comparison.p_holm if cell.comparison else None
    return "*" if p is not None and p < LEVEL else ""


def comparison(cell: Cell, corrected: bool) -> list[str]:
    """Return five texts: difference, interval, p, corrected p, errors removed."""
    compared = cell.comparison
    if compared is None:
        return [""] * 5
    interval, p = "", None
    if compared.test is not None:
        interval = " to ".join(points(end, signed=True) for end in compared.test.interval)
        p = compared.test.p
    return [
        points(compared.difference, signed=True),
        interval,
        p_value(p) + star(cell) * (not corrected),
        (corrected_p(compared) + star(cell)) * corrected,
        points(compared.error_reduction),
    ]


def points(value: float | None, *, signed: bool = False) -> str:
    """Format a fraction of 1 in percent, with a typographic minus sign; None as "".

    >>> points(-0.0125), points(0.5, signed=True), points(None)
    ('−1.25', '+50.00', '')
    """
    if value is None:
        return ""
    text = f"{100 * value:{'+' if signed else ''}z.2f}".replace("-", "−")
    return "0.00" if text == "+0.00" and value < 0 else text


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def p_value(p: float | None) -> str:
    """Format a p, so that one below 0.05 never looks like 0.05.

    >>> p_value(0.049), p_value(0.04996), p_value(0.0001)
    ('0.049', '<0.050', '<0.001')
    """
    if p is None or p < 0.001:
        return "" if p is None else "<0.001"
    return f"<{LEVEL:.3f}" if p < LEVEL <= round(p, 3) else f"{p:.3f}"
