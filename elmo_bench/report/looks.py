"""How a report's cells are called and drawn in its figures, the same in all of them."""

from elmo_bench.runs import Run

from . import names
from .drawing import PLAIN, Look, look
from .grids import heads
from .table import Cell, Key, Report


def all_runs(report: Report) -> list[Run]:
    return [run for cell in report.cells for run in cell.runs]


def metric(report: Report, split: str | None = None) -> str:
    """What the figures are: "test entity F1, %", or "test figure, %" where tasks have several."""
    titles = {names.metric_title(run, report.metric) for run in all_runs(report)}
    return f"{split or report.split} {min(titles) if len(titles) == 1 else 'figure'}, %"


def row_title(report: Report, row: Key) -> str:
    """What a row is and, where the rows differ in that, what its figures are."""
    titles = {
        names.metric_title(run, report.metric): cell.row
        for cell in report.cells
        for run in cell.runs
    }
    title = names.name(report.rows, row, names.task_titles(all_runs(report))) if row else ""
    run = next(cell.runs[0] for cell in report.cells if cell.row == row)
    return title if len(titles) == 1 else f"{title}: {names.metric_title(run, report.metric)}"


def column_titles(report: Report) -> dict[Key, str]:
    """In their order, the baseline first."""
    titles = names.task_titles(all_runs(report))
    return {column: names.name(report.columns, column, titles) for column in heads(report)}


def column_looks(report: Report) -> dict[Key, Look]:
    """The baseline in grey."""
    others = [column for column in heads(report) if column != report.baseline]
    plain = {} if report.baseline is None else {report.baseline: PLAIN}
    return plain | {column: look(number) for number, column in enumerate(others)}


def percents(cell: Cell) -> list[float]:
    """Each run's figure."""
    return [100 * figure for figure in cell.figures]


def counted(count: int, noun: str) -> str:
    """A number of things.

    >>> counted(1, "run"), counted(3, "run")
    ('1 run', '3 runs')
    """
    return f"{count} {noun}{'' if count == 1 else 's'}"
