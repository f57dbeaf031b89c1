"""Do the archived runs agree with each other? Gains on dev and on test and in both series, one side
in both series, and sides that share seeds.

python results/agreement.py        # prints the tables of results/both.md and docs/validation.md

Axes: R and Q runs of two systems, C clusters of examples, S scores, M numbers.
"""

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import overview
from jaxtyping import Float
from refresh import table

from elmo_bench.report import Grid, Report, markdown_table
from elmo_bench.report.comparison import SPLITS, Comparison, compared, examples_of, figure_of
from elmo_bench.report.labels import labels_of
from elmo_bench.report.names import p_value, points
from elmo_bench.report.significance import by_cluster, covariance_between, variances, without_each
from elmo_bench.report.table import Cell
from elmo_bench.runs import Run, figure

FOLDER = Path(__file__).parent
Counts = Float[np.ndarray, "R C S M"]


def main() -> None:
    corpora = overview.read(str(FOLDER / "corpora.yaml"))
    titles = {name: corpus.title for name, corpus in corpora.items()}
    series = table(FOLDER / "series.yaml", "Gains")
    both = table(FOLDER / "both.yaml", "The same recipe in both series")
    first = table(FOLDER / "tables.yaml", "Gains of wiki")
    grids = [
        replicated(first, series, titles),
        splits(series, titles),
        repeated(both, titles),
        shared_seeds(series),
    ]
    sys.stdout.write("\n\n".join(map(markdown_table, grids)) + "\n")


def replicated(first: Report, second: Report, titles: Mapping[str, str]) -> Grid:
    """Return a table of the gains that both series have, the largest first."""
    again = {(_corpus(cell), cell.column): cell.comparison for cell, _ in _with_baseline(second)}
    rows = []
    for cell, _ in sorted(_with_baseline(first), key=lambda pair: -pair[0].comparison.difference):
        other = again[_corpus(cell), cell.column]
        low, high = cell.comparison.test.interval
        is_within = "yes" if low <= other.difference <= high else "no"
        shown = [_gain(comparison) for comparison in (cell.comparison, other)]
        rows.append([titles[_corpus(cell)], *shown, is_within])
    heads = ["corpus (task)", "first series", "second series", "within the first's interval"]
    return Grid("Gains in both series, points (95 % interval)", heads, rows, 1)


def splits(report: Report, titles: Mapping[str, str]) -> Grid:
    """Return a table of the gains on dev and on test of the same runs."""
    rows, ratios = [], []
    for cell, base in _with_baseline(report):
        dev, test = (compared(cell.runs, base.runs, None, split).difference for split in SPLITS)
        moved, error = shift(*(_counts(cell.runs, base.runs, split) for split in SPLITS))
        ratios.append(moved / error)
        gains = [points(value, signed=True) for value in (dev, test, moved)]
        side = [titles[_corpus(cell)], labels_of(report).columns[cell.column]]
        rows.append([*side, *gains, points(error), f"{moved / error:+.1f}".replace("-", "−")])
    spread = math.sqrt(float(np.mean(np.square(ratios))))
    caption = f"Root mean square of the last column: {spread:.2f}."
    heads = ["corpus (task)", "encoder", "dev", "test", "test − dev", "standard error", "ratio"]
    return Grid("Gains on dev and on test, points", heads, rows, 2, caption)


def shift(dev: tuple[Counts, Counts], test: tuple[Counts, Counts]) -> tuple[float, float]:
    """Return how much larger the difference of two systems is on test than on dev, and the standard
    error of this.

    Both splits have the same runs. The variances are those of `significance.unpaired_scales`: the
    choice of examples on dev and on test, and between runs that of a run's figure on test less its
    figure on dev, which is never below the noise of its predictions.
    """
    of_examples, noise = 0.0, np.zeros(2)
    for sides in (dev, test):
        left_out = [without_each(side) for side in sides]
        of_split = -2 * covariance_between(*left_out)
        for system, side in enumerate(sides):
            of_side = variances(figure(side.sum(1)), left_out[system])
            noise[system] += of_side.noise
            of_split += of_side.shared
        of_examples += max(of_split, 0.0)
    ours, theirs = (
        figure(on_test.sum(1)) - figure(on_dev.sum(1))
        for on_dev, on_test in zip(dev, test, strict=True)
    )
    of_runs = sum(
        max(float(moved.var(ddof=1)), least) / len(moved)
        for moved, least in zip((ours, theirs), noise, strict=True)
    )
    return float(ours.mean() - theirs.mean()), math.sqrt(of_examples + of_runs)


def repeated(report: Report, titles: Mapping[str, str], last: int = 10) -> Grid:
    """Return a table of the sides of the second series against the same ones of the first, whose
    seeds end with `last`.
    """
    rows = []
    for cell in report.cells:
        first = [run for run in cell.runs if run.seed <= last]
        second = [run for run in cell.runs if run.seed > last]
        comparison = compared(second, first, None, report.split)
        figures = [_score(runs, report.split) for runs in (first, second)]
        side = [titles[_corpus(cell)], labels_of(report).columns[cell.column]]
        rows.append([*side, *figures, _gain(comparison), p_value(comparison.test.p)])
    heads = ["corpus (task)", "encoder", "first series", "second series"]
    return Grid("One side in both series", [*heads, "difference (95 % interval)", "p"], rows, 2)


def shared_seeds(report: Report) -> Grid:
    """Return a table of the correlation over seeds of two sides with the same seeds."""
    rows = []
    for split in ("test", "dev"):
        every = [_correlations([*cells.values()], split) for cells in report.by_row.values()]
        means = np.array([np.mean(each) for each in every])
        error = means.std(ddof=1) / math.sqrt(len(means))
        flat = np.concatenate(every)
        figures = (means.mean(), error, flat.min(), flat.max())
        shown = [f"{value:.2f}".replace("-", "−") for value in figures]
        rows.append([split, str(len(flat)), *shown])
    heads = ["split", "pairs of sides", "mean correlation", "standard error", "lowest", "highest"]
    return Grid("Do sides with the same seeds move together?", heads, rows, 1)


def _correlations(cells: Sequence[Cell], split: str) -> list[float]:
    """Return the correlation over seeds of each pair of cells."""
    by_seed = [
        [figure_of(run, None, split) for run in sorted(cell.runs, key=lambda run: run.seed)]
        for cell in cells
    ]
    return [float(np.corrcoef(ours, theirs)[0, 1]) for ours, theirs in combinations(by_seed, 2)]


def _with_baseline(report: Report) -> Iterator[tuple[Cell, Cell]]:
    for cell in report.cells:
        base = report.base(cell.row)
        if base and cell.column != report.baseline:
            yield cell, base


def _counts(ours: Sequence[Run], theirs: Sequence[Run], split: str) -> tuple[Counts, Counts]:
    """Return the counts of both sides' runs, summed by cluster."""
    examples = [examples_of(run, None, split) for run in (*ours, *theirs)]
    rows = by_cluster(np.stack([each.rows for each in examples]), examples[0].groups)
    return rows[: len(ours)], rows[len(ours) :]


def _score(runs: Sequence[Run], split: str) -> str:
    figures = 100 * np.array([figure_of(run, None, split) for run in runs])
    devices = ", ".join(sorted({"GPU" if "NVIDIA" in run.device else "CPU" for run in runs}))
    return f"{figures.mean():.2f} ± {figures.std(ddof=1):.2f} ({len(runs)}, {devices})"


def _gain(comparison: Comparison) -> str:
    low, high = (points(end, signed=True) for end in comparison.test.interval)
    return f"{points(comparison.difference, signed=True)} ({low} to {high})"


def _corpus(cell: Cell) -> str:
    return str(cell.runs[0].settings["data.name"])


if __name__ == "__main__":
    main()
