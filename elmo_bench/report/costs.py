"""Training cost of a report's runs: time, epochs, throughput and parameters."""

import statistics

from .grid import Grid
from .grids import Words, by_cell, without_empty
from .table import Report

HEADS = [
    "training, s",
    "in all, s",
    "encoder, s",
    "epochs",
    "examples/s",
    "trained parameters",
    "frozen parameters",
    "device",
]
ABOUT = "Means over the runs of a row. In all: with reading the data, measuring and writing."
STORED = (
    " Encoder: what a frozen one takes to read the corpus; the first run that needs its layers "
    "pays for that, and the others read what it kept."
)


def cost(report: Report) -> Grid | None:
    """Return a table of costs with a row for each cell: means over its training runs.

    Runs of job=evaluate are ignored. Returns None if no training run is left.
    """
    trained = [(cell, [run for run in cell.runs if run.epochs]) for cell in report.cells]
    trained = [(cell, runs) for cell, runs in trained if runs]
    if not trained:
        return None
    trained_runs = [run for _, runs in trained for run in runs]
    devices = {run.device for run in trained_runs}
    title = f"what a run took{f' on {min(devices)}' if len(devices) == 1 else ''}"
    grid = by_cell(
        report,
        Words.of(report),
        [cell for cell, _ in trained],
        HEADS,
        f"{report.title}: {title}" if report.title else title,
        ABOUT + (STORED if any("encoder" in run.seconds for run in trained_runs) else ""),
    )
    for row, (_, runs) in zip(grid.rows, trained, strict=True):
        parts = ("training", "total", "encoder")
        seconds = [[run.seconds[part] for run in runs if part in run.seconds] for part in parts]
        row += [_number(statistics.fmean(values)) if values else "" for values in seconds]
        row.append(_number(statistics.fmean(run.epochs for run in runs)))
        row.append(_number(statistics.fmean(run.examples_per_second for run in runs)))
        row += [f"{runs[0].parameters[kind]:,}" for kind in ("trainable", "frozen")]
        row.append("; ".join(sorted({run.device for run in runs})) if len(devices) > 1 else "")
    return without_empty(grid)


def _number(value: float) -> str:
    """Format a number with three significant digits; whole numbers and those >= 100 as integers.

    >>> _number(1234.5), _number(20.0), _number(15.25), _number(0.0123)
    ('1,234', '20', '15.2', '0.0123')
    """
    if value >= 100 or value == round(value):
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3g}"
