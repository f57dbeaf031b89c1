"""The contrasts of a report: between all pairs of its rows."""

from collections.abc import Hashable, Iterable, Sequence
from itertools import combinations

from elmo_bench.runs import Counts, Key, equal, text
from elmo_bench.terminal import listed

from .comparison import compared, examples_of
from .contrast import Contrast, scales_of
from .folds import NO_FOLD, fold_of_run
from .labels import headed, labels_of
from .names import p_value, points
from .significance import LEVEL, PRELIMINARY, largest_p
from .table import Cell, Report
from .writers import Grid

ABOUT = (
    "A step is the first column less the second, in points; the difference is the step on the "
    "first row less that on the second. p (Holm) is corrected for all contrasts of the report, * "
    f"marks it below {LEVEL}. Prefer different ones: the steps have opposite signs, each "
    "significant by itself."
)
HEADS = ["step", "first row", "second row", "on the first", "on the second", "difference"]
HEADS += ["95 % interval", "p", "p (Holm)", "smallest found", "prefer different ones"]
Pair = tuple[Hashable, Hashable]  # values of a column's key


def contrasts(report: Report, pairs: Iterable[Pair]) -> list[Contrast]:
    """Return the contrasts of these pairs of columns between all rows that have both, without runs
    on folds; p is not corrected.

    Rows of a pair have equal encoders, and two runs or more in each cell: a single one does not
    show how much runs differ. Raises ValueError for a report of several keys in its columns, for a
    column that it does not have, and for runs without counts.
    """
    of_report = []
    for pair in pairs:
        a, b = [_column(report, value) for value in pair]
        rows = []
        for row, cells in report.by_row.items():
            if a in cells and b in cells and fold_of_run(cells[a].runs[0]) == NO_FOLD:
                rows.append(row)
        for first, second in combinations(rows, 2):
            four = [report.by_row[row][column] for row in (first, second) for column in (a, b)]
            if _encoder(four[0]) == _encoder(four[2]) and _fewest(four) > 1:
                of_report.append(_contrast(report, (a, b), (first, second), four))
    return of_report


def _column(report: Report, value: Hashable) -> Key:
    for column in report.heads:
        if len(column) == 1 and equal(column[0], value):
            return column
    columns = listed([", ".join(map(text, column)) for column in report.heads])
    raise ValueError(
        f"contrasts: {text(value)} is no column of the report; its columns, of "
        f"{listed(report.columns)}, are {columns}"
    )


def _encoder(cell: Cell) -> Hashable:
    return cell.runs[0].settings.get("encoder.name")


def _fewest(cells: Sequence[Cell]) -> int:
    return min(len(cell.runs) for cell in cells)


def _contrast(
    report: Report, columns: tuple[Key, Key], rows: tuple[Key, Key], cells: Sequence[Cell]
) -> Contrast:
    scales = scales_of([_counts(report, cell) for cell in cells])
    steps = cells[0].mean - cells[1].mean, cells[2].mean - cells[3].mean
    difference = steps[0] - steps[1]
    step_ps = _p_of(report, cells[0], cells[1]), _p_of(report, cells[2], cells[3])
    p = largest_p(difference, scales)
    return Contrast(columns, rows, steps, step_ps, difference, scales, p, _fewest(cells))


def _counts(report: Report, cell: Cell) -> list[Counts]:
    counts = []
    for run in cell.runs:
        of_run = examples_of(run, report.metric, report.split)
        if of_run is None:
            raise ValueError(
                f"contrasts: {run.folder} lacks the counts of its examples on {report.split_title}"
            )
        counts.append(of_run)
    return counts


def _p_of(report: Report, ours: Cell, theirs: Cell) -> float:
    test = compared(ours.runs, theirs.runs, report.metric, report.split).test
    return 1.0 if test is None or test.p is None else test.p


def contrast_grid(report: Report) -> Grid:
    """Return a table of the contrasts between rows."""
    labels = labels_of(report)
    rows = []
    for contrast in report.contrasts:
        a, b = [labels.columns[column] for column in contrast.columns]
        names = [", ".join(labels.rows[row]) for row in contrast.rows]
        steps = [points(step, signed=True) for step in contrast.steps]
        low, high = contrast.interval
        corrected = PRELIMINARY if contrast.p_holm is None else p_value(contrast.p_holm)
        if contrast.is_significant:
            corrected += "*"
        tested_as = [
            points(contrast.difference, signed=True),
            f"{points(low, signed=True)} to {points(high, signed=True)}",
            p_value(contrast.p),
            corrected,
            points(contrast.detectable),
            "yes" if contrast.is_reversal else "no",
        ]
        rows.append([f"{a} − {b}"] + names + steps + tested_as)
    what = headed(report, f"steps between columns, compared between rows, on {report.split_title}")
    return Grid(what, HEADS, rows, 3, ABOUT)
