"""Common names and styles of a report's cells in all of its figures."""

from collections.abc import Collection, Sequence

from elmo_bench.runs import Run

from .. import names
from ..grids import heads
from ..table import Cell, Key, Report
from .drawing import PLAIN, Look, look


def all_runs(report: Report) -> list[Run]:
    return [run for cell in report.cells for run in cell.runs]


def metric(report: Report, split: str | None = None, cells: Sequence[Cell] | None = None) -> str:
    """Return the axis title of the figures of cells (default: all), such as "test entity F1, %".

    Cells with different metrics give "test figure, %".
    """
    runs = [run for cell in cells or report.cells for run in cell.runs]
    # One title for each task, since runs of earlier versions may have another title.
    by_task = {run.config["task"]["name"]: names.metric_title(run, report.metric) for run in runs}
    titles = {*by_task.values()}
    return f"{split or report.split} {min(titles) if len(titles) == 1 else 'figure'}, %"


def row_title(report: Report, row: Key) -> str:
    return names.name(report.rows, row, names.task_titles(all_runs(report))) if row else ""


def column_titles(report: Report) -> dict[Key, str]:
    """Return the titles of the columns in order, the baseline first."""
    titles = names.task_titles(all_runs(report))
    return {column: names.name(report.columns, column, titles) for column in heads(report)}


def column_looks(report: Report) -> dict[Key, Look]:
    """Return the style of each column; the baseline is grey."""
    other_columns = [column for column in heads(report) if column != report.baseline]
    plain = {} if report.baseline is None else {report.baseline: PLAIN}
    return plain | {column: look(number) for number, column in enumerate(other_columns)}


def percents(cell: Cell) -> list[float]:
    """Return each run's figure in percent."""
    return [100 * figure for figure in cell.figures]


def counted(count: int, noun: str) -> str:
    """Return a number with its noun.

    >>> counted(1, "run"), counted(3, "run")
    ('1 run', '3 runs')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"


def runs_each(counts: Collection[int]) -> str:
    """Return a phrase with the number of runs of each mean.

    >>> runs_each({3}), runs_each({3, 1, 2})
    ('3 each', '1 to 3 each')
    """
    low, high = min(counts), max(counts)
    return f"{low} each" if low == high else f"{low} to {high} each"


def sentence(title: str, shown: str) -> str:
    """Return the title of a plot, which begins with the report's title, if it has one.

    >>> sentence("", "test F1 by layer."), sentence("Books", "test F1 by layer.")
    ('Test F1 by layer.', 'Books: test F1 by layer.')
    """
    return f"{title}: {shown}" if title else f"{shown[:1].upper()}{shown[1:]}"
