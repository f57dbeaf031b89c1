"""The dev figure after each epoch of a report's runs."""

import csv
import math
import statistics
from collections.abc import Collection
from pathlib import Path

from elmo_bench.runs import Run

from .grid import Grid
from .grids import Words, by_cell
from .table import Report

SHOWN = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)  # epochs with a column
ABOUT = "Percent, means over the runs of a row, as far as all of them go. Columns: epochs."


def course(report: Report) -> Grid | None:
    """Return a table of dev figures after some epochs, with a row for each cell.

    Returns None if no run has a `metrics.csv`.
    """
    means = {}
    for number, cell in enumerate(report.cells):
        runs = [after_epochs(run, report.metric) for run in cell.runs]
        if shared := set.intersection(*map(set, runs)):
            means[number] = {e: 100 * statistics.fmean(run[e] for run in runs) for e in shared}
    if not means:
        return None
    epochs = [epoch for epoch in SHOWN if any(epoch in mean for mean in means.values())]
    title = "dev figures by epoch"
    grid = by_cell(
        report,
        Words.of(report),
        [report.cells[number] for number in means],
        [*map(str, epochs)],
        f"{report.title}: {title}" if report.title else title,
        ABOUT,
    )
    for row, mean in zip(grid.rows, means.values(), strict=True):
        row += [f"{mean[epoch]:.2f}" if epoch in mean else "" for epoch in epochs]
    return grid


def best_epoch(run: Run, among: Collection[int]) -> int:
    """Return the epoch whose model a run keeps: the first that is best by the run's `task.monitor`,
    whatever metric a report shows.
    """
    figures = after_epochs(run, None)
    return max(among, key=lambda epoch: (figures.get(epoch, -math.inf), -epoch))


def after_epochs(run: Run, metric: str | None) -> dict[int, float]:
    """Return the dev figure after each epoch, by the epoch's number from 1; empty without a file.

    Raises ValueError, with file and line, for rows that are not metrics of an epoch.
    """
    path = Path(run.folder, "metrics.csv")
    if not path.is_file():
        return {}
    name = f"val/{metric or run.config['task']['monitor']}"
    rows = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file)
        try:
            for row in reader:
                if row.get("epoch") and row.get(name):
                    rows.append((int(row["epoch"]), float(row[name])))
                    if rows[-1][0] < 0 or not math.isfinite(rows[-1][1]):
                        raise ValueError(f"epoch {row['epoch']}, {name} {row[name]}")
        except (ValueError, csv.Error) as error:
            line = f"{path}:{reader.line_num}"
            raise ValueError(f"{line}: not the metrics of an epoch: {error}") from error
    # Rows after the last epoch repeat the best one, which is measured again.
    return {epoch + 1: value for epoch, value in rows if epoch < run.epochs}
