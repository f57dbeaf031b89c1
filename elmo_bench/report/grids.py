"""A report's tables: means, differences with significance tests, statistical power, and the
paper's figures.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from elmo_bench.files import listed, with_minus
from elmo_bench.runs import Key

from .comparison import Comparison, examples_of
from .grid import Grid, without
from .labels import SHOWN, capital, labels_of, title
from .names import as_written, axis, value
from .published import corpus, is_adapted, paper_corpus
from .significance import FEWEST, LEVEL, PRELIMINARY, Shares, Test
from .table import Cell, Report, comparisons_of, is_best, order

MEANS = "mean ± standard deviation (runs)"
ERRORS = "errors removed"
PAPER = "Peters et al. (2018)"


def tables(report: Report) -> dict[str, Grid]:
    """Return the tables by kind, in reading order: `means`, `differences`, `power`, `paper`.

    A table without content is omitted; so are the means of a single row with comparisons, because
    `differences` includes them.
    """
    compared = [cell for cell in report.cells if cell.comparison]
    grids = {}
    if not compared or len({cell.row for cell in report.cells}) > 1:
        grids["means"] = means(report)
    if compared:
        grids["differences"] = differences(report)
    if any(test.detectable is not None for _, test in tests(report)):
        grids["power"] = power(report)
    if any(cell.published is not None for cell in report.cells):
        grids["paper"] = paper(report)
    return grids


def tests(report: Report) -> Iterator[tuple[Cell, Test]]:
    """Yield the cells that have a test, with the test."""
    for cell in report.cells:
        if cell.comparison and cell.comparison.test:
            yield cell, cell.comparison.test


def heads(report: Report) -> list[Key]:
    """Return the columns in order, the baseline first."""
    return sorted(
        {cell.column for cell in report.cells},
        key=lambda column: (column != report.baseline, order(column)),
    )


def means(report: Report) -> Grid:
    """Return the table of means: rows by columns, the best bold; a single row as a list."""
    labels = labels_of(report)
    if not labels.heads:
        return listing(report)
    columns, left, shown = heads(report), len(labels.heads), with_baseline(report)
    places = {column: left + k for k, column in enumerate(columns)}
    rows = [
        [*labels.rows[key], *(_mean(cells.get(column)) for column in columns)]
        for key, cells in shown.items()
    ]
    bold = {
        (number, places[column])
        for number, cells in enumerate(shown.values())
        for column, cell in cells.items()
        if is_best(cell, cells.values())
    }
    stars = any(star(cell) for cells in shown.values() for cell in cells.values())
    hover = {(-1, place): as_written(report.columns, column) for column, place in places.items()}
    return Grid(
        title(report, f"percent: {MEANS}"),
        [*labels.heads, *(labels.columns[column] for column in columns)],
        rows,
        bold,
        left,
        hover | _hover(report, shown),
        _sentences(
            f"Rows: {_axes(labels.keys)}. Columns: {_axes(report.columns)}.",
            f"*: differs from {_base(report)}, p (Holm) below {LEVEL}." if stars else "",
            _chosen(report),
            labels.each,
            sizes(report),
        ),
        bold_is="the best mean of its row" + " and task" * ("task.name" in report.columns),
    )


def _mean(cell: Cell | None) -> str:
    return "" if cell is None else score(cell) + star(cell)


def _base(report: Report) -> str:
    """Return the baseline's name."""
    return labels_of(report).columns[report.baseline or ()]


def with_baseline(report: Report) -> dict[Key, dict[Key, Cell]]:
    """Return each row's cells by column, including the baseline of the row.

    A row that has only a baseline is left out if another row uses that baseline.
    """
    rows = report.by_row()
    lending = {
        base.row for row in rows if (base := report.base(row)) is not None and base.row != row
    }
    return {row: cells for row, cells in rows.items() if len(cells) > 1 or row not in lending}


def listing(report: Report) -> Grid:
    """Return a table with a row for each cell, and its mean."""
    caption = _sentences("A row is a way to train.", _chosen(report), sizes(report))
    rows = [(cell, [score(cell)]) for cell in report.cells]
    grid = by_cell(report, rows, ["mean"], title(report, f"percent: {MEANS}"), caption)
    return grid._replace(bold=_best(report, grid), bold_is="the best mean")


def _best(report: Report, grid: Grid) -> set[tuple[int, int]]:
    """Return the places of the best means, in the first column of figures."""
    return {(number, grid.left) for number, cell in enumerate(report.cells) if cell.best}


def _axes(keys: Iterable[str]) -> str:
    return listed(map(axis, keys))


def _hover(report: Report, rows: Iterable[Key]) -> dict[tuple[int, int], str]:
    """Return the config keys behind the names of rows, by (row, column)."""
    labels, hover = labels_of(report), {}
    if len(labels.keys) <= SHOWN:
        hover = {(-1, k): key.removesuffix(".name") for k, key in enumerate(labels.keys)}
    for number, row in enumerate(rows):
        written = as_written(report.rows, row)
        hover |= {(number, k): written for k in range(len(labels.heads))}
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
    rows: Sequence[tuple[Cell, Sequence[str]]],
    heads: Sequence[str],
    title: str,
    caption: str,
) -> Grid:
    """Return a table with a row for each cell, with these figures; empty columns are left out."""
    labels = labels_of(report)
    left = len(labels.heads) + 1
    hover = _hover(report, [cell.row for cell, _ in rows])
    hover |= {(-1, left - 1): " ".join(key.removesuffix(".name") for key in report.columns)}
    hover |= {
        (number, left - 1): as_written(report.columns, cell.column)
        for number, (cell, _) in enumerate(rows)
    }
    texts = [[*labels.rows[cell.row], labels.columns[cell.column], *each] for cell, each in rows]
    keys = [*labels.heads, _axes(report.columns)]
    return without_empty(Grid(title, [*keys, *heads], texts, set(), left, hover, caption))


def differences(report: Report) -> Grid:
    """Return a table with a row for each cell: its mean and its difference to the baseline."""
    labels, compared = labels_of(report), comparisons_of([report])
    region = report.equal_within if any(each.equal for each in compared) else None
    shows_both = any(each.family > 1 or each.is_preliminary for each in compared)
    stars = correction(compared)
    heads = ["mean", "difference", "95 % interval", "p", "p (Holm)", ERRORS]
    heads += [] if region is None else [f"within ±{100 * region:g}"]
    grid = by_cell(
        report,
        [(cell, _difference(cell, shows_both, region)) for cell in report.cells],
        heads,
        title(report, f"percent: {MEANS}, and its difference to {_base(report)}"),
        _sentences(
            f"A row is a way to train; the difference is to {_base(report)}, in points, above 0 if "
            "the row is better.",
            f"The interval goes with p. {stars}" if shows_both else stars,
            "Errors removed: the difference as a share of what the baseline lacks to 100, percent.",
            _equivalence(report.equal_within, compared),
            _chosen(report),
            labels.each,
            sizes(report),
        ),
    )
    best = f"the best mean of the same {listed(labels.heads)}" if labels.heads else "the best mean"
    return grid._replace(bold=_best(report, grid), bold_is=best, spare=(ERRORS, "p"))


def _difference(cell: Cell, shows_both: bool, region: float | None) -> list[str]:
    """Return the figures of a cell for `differences`; `shows_both` is of p and p (Holm)."""
    compared = cell.comparison
    if compared is None:
        return [score(cell), *[""] * (5 if region is None else 6)]
    test = compared.test
    p = p_value(test.p if test else None)
    return [
        score(cell),
        points(compared.difference, signed=True),
        " to ".join(points(end, signed=True) for end in test.interval) if test else "",
        p if shows_both else p + star(cell),
        corrected_p(compared) + star(cell) if shows_both else "",
        points(compared.error_reduction),
        *([] if region is None else [EQUAL[compared.equal]]),
    ]


EQUAL = {None: "", True: "yes", False: "not shown"}


def _equivalence(region: float | None, compared: Sequence[Comparison]) -> str:
    """Return a sentence on the tests of practical equality; "" if there are none."""
    if region is None or all(each.equal is None for each in compared):
        return ""
    tested = "by two one-sided tests at 5 %"
    if any(each.equal for each in compared):
        return f"Within ±{100 * region:g}: practically equal, {tested}."
    return f"No difference is shown to be within ±{100 * region:g}, {tested}."


def power(report: Report) -> Grid:
    """Return a table of each comparison's power and sources of variance."""
    cells = [(cell, test) for cell, test in tests(report) if test.detectable is not None]
    counts = corrections(comparisons_of([report]))
    corrected = f" after the correction for {counts} comparisons" if counts else ""
    rows = [(cell, [points(test.detectable), *_noise(test.shares)]) for cell, test in cells]
    noise = [f"noise: {source}" for source in Shares._fields]
    return by_cell(
        report,
        rows,
        ["smallest found", *noise],
        title(report, "what so many runs and examples can show"),
        _sentences(
            "Smallest found: the smallest true difference, in points, that the design finds (p "
            f"below {LEVEL}{corrected}) in 80 % of cases.",
            "Noise: where the variance of the difference comes from, percent. More seeds lower the "
            "first part, more examples the second, and either lowers the third.",
        ),
    )


def corrections(comparisons: Iterable[Comparison | None]) -> str:
    """Return how many comparisons each p is corrected for, such as "6 or 23"; "" for one."""
    sizes = sorted({each.family for each in comparisons if each and each.family})
    return " or ".join(map(str, sizes)) if any(size > 1 for size in sizes) else ""


def correction(comparisons: Sequence[Comparison]) -> str:
    """Return sentences that say what p (Holm) and stars mean for these comparisons."""
    if counts := corrections(comparisons):
        stars = f"p (Holm) is corrected for {counts} comparisons, and * marks it below {LEVEL}."
    else:
        stars = f"*: p below {LEVEL}." if any(each.family for each in comparisons) else ""
    few = f"{capital(PRELIMINARY)}: fewer than {FEWEST} runs a side decide nothing."
    return _sentences(stars, few if any(each.is_preliminary for each in comparisons) else "")


def corrected_p(comparison: Comparison) -> str:
    return PRELIMINARY if comparison.is_preliminary else p_value(comparison.p_holm)


def _noise(shares: Shares | None) -> list[str]:
    """Return the shares in percent."""
    return [""] * 3 if shares is None else [f"{100 * share:.0f}" for share in shares]


def paper(report: Report) -> Grid:
    """Return a table of our figures and the paper's, for the settings that the paper reports."""
    cells = [cell for cell in report.cells if cell.published is not None]
    others = [paper_corpus(cell.runs[0]) for cell in cells]
    where = (
        "its corpus is named where these runs have another, or less of it"
        if any(others)
        else ", ".join(sorted({corpus(cell.runs[0]) for cell in cells}))
    )
    rows = [
        (cell, [*_published(report, cell), other])
        for cell, other in zip(cells, others, strict=True)
    ]
    removed = "Errors removed: the difference to the baseline as a share of what it lacks to 100."
    return by_cell(
        report,
        rows,
        [*("here", "paper", f"{ERRORS} here", f"{ERRORS} in the paper"), "the paper's corpus"],
        title(report, f"beside {PAPER}"),
        _sentences(
            f"Percent; the paper's figures are as published ({where}).",
            _adapted(report, cells),
            removed if any(cell.comparison is not None for cell in cells) else "",
            labels_of(report).each,
        ),
    )


def _published(report: Report, cell: Cell) -> list[str]:
    """Return a cell's figures for `paper`: ours, the paper's, and the errors removed by each."""
    ours = cell.comparison.error_reduction if cell.comparison else None
    base = report.base(cell.row) if cell.comparison else None
    theirs = None
    if base and base.published is not None:
        theirs = ((cell.published or 0.0) - base.published) / (1 - base.published)
    return [score(cell), points(cell.published), points(ours), points(theirs)]


def _adapted(report: Report, cells: Sequence[Cell]) -> str:
    """Return a sentence on whether the biLM was adapted to the tasks' text; "" for baselines."""
    said = {False: "as released", True: "adapted to the task's text"}
    tasks: dict[bool, dict[str, None]] = {}
    for cell in cells:
        if (adapted := is_adapted(cell.runs[0])) is not None:
            tasks.setdefault(adapted, {})[labels_of(report).titles[cell.task]] = None
    if not tasks:
        return ""
    ours = [
        said[each] + f" ({', '.join(tasks[each])})" * (len(tasks) > 1) for each in sorted(tasks)
    ]
    return (
        f"The biLM is {', '.join(ours)}; the paper's is adapted in all tasks but coreference "
        "and SRL."
    )


def sizes(report: Report) -> str:
    """Return a sentence with the number of examples behind the figures.

    Sizes are listed by task, key or cell, whichever is the shortest list that tells them apart.
    """
    labels, measured = labels_of(report), [*_sizes(report)]
    if not measured:
        return ""
    ways: list[Callable[[Cell], str]] = [lambda cell: "", lambda cell: labels.titles[cell.task]]
    ways += [partial(_value_of, number=k, key=key) for k, key in enumerate(report.keys)]
    ways.append(lambda cell: ", ".join((labels.row(cell.row), labels.columns[cell.column])))
    for way in ways:
        labelled = {(way(cell), size) for cell, size in measured}
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
                yield cell, _size(read.number, read.num_clusters, read.unit)


def _value_of(cell: Cell, number: int, key: str) -> str:
    return value(key, cell.key[number])


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


def points(value: float | None, *, signed: bool = False) -> str:
    """Format a fraction of 1 in percent; None as "".

    >>> points(-0.0125), points(0.5, signed=True), points(None), points(0.0, signed=True)
    ('−1.25', '+50.00', '', '0.00')
    >>> points(-1e-9, signed=True), points(1e-9, signed=True)
    ('0.00', '+0.00')
    """
    if value is None:
        return ""
    digits = f"{100 * value:{'+' if signed else ''}z.2f}"
    return with_minus("0.00" if digits == "+0.00" and value <= 0 else digits)


def p_value(p: float | None) -> str:
    """Format a p, so that one below 0.05 never looks like 0.05.

    >>> p_value(0.049), p_value(0.04996), p_value(0.0001)
    ('0.049', '<0.050', '<0.001')
    """
    if p is None or p < 0.001:
        return "" if p is None else "<0.001"
    return f"<{LEVEL:.3f}" if p < LEVEL <= round(p, 3) else f"{p:.3f}"
