"""What a report's runs took."""

import statistics

from .grid import Grid
from .grids import Words, by_cell, without_empty
from .table import Report

HEADS = [
    *("training, s", "in all, s", "epochs", "examples/s"),
    *("trained parameters", "frozen parameters", "device"),
]


def cost(report: Report) -> Grid | None:
    """A row for each cell: means over its runs, without those of job=evaluate; None without any."""
    trained = [(cell, [run for run in cell.runs if run["epochs"]]) for cell in report.cells]
    trained = [(cell, runs) for cell, runs in trained if runs]
    if not trained:
        return None
    devices = {run["device"] for _, runs in trained for run in runs}
    title = f"what a run took{f' on {min(devices)}' if len(devices) == 1 else ''}"
    grid = by_cell(
        report,
        Words.of(report),
        [cell for cell, _ in trained],
        HEADS,
        f"{report.title}: {title}" if report.title else title,
        "Means over the runs of a row. In all: with reading the data, measuring and writing.",
    )
    for row, (_, runs) in zip(grid.rows, trained, strict=True):
        seconds = [[run["seconds"][part] for run in runs] for part in ("training", "total")]
        speed = [[run[part] for run in runs] for part in ("epochs", "examples_per_second")]
        means = [statistics.fmean(values) for values in (*seconds, *speed)]
        row += [f"{mean:,.1f}" if mean >= 1 or not mean else f"{mean:.2g}" for mean in means]
        row += [f"{runs[0]['parameters'][kind]:,}" for kind in ("trainable", "frozen")]
        row.append("; ".join(sorted({run["device"] for run in runs})) if len(devices) > 1 else "")
    return without_empty(grid)
