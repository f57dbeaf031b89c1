"""Coverage of the mean over corpora and of the prediction for a new corpus:

    python -m benchmarks.pooled

Corpora's true gains are normal around a mean; their standard errors differ by a factor of seven and
are themselves estimated, with eight degrees of freedom. A row is a number of corpora and how much
true gains differ, in median errors; a cell is how often a 95 % interval has the true value.
"""

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from elmo_bench.report.over_corpora import pooled

NUMBERS = (5, 9, 15)  # of corpora
DEVIATIONS = (0.0, 0.5, 1.0, 3.0)  # between true gains, in median errors
FREEDOM = 8  # of five runs a side


def coverage(number: int, between: float, repeats: int) -> tuple[float, float]:
    """Return the shares of intervals that have the mean, and of predictions a new corpus."""
    rng = np.random.default_rng(0)
    errors = np.geomspace(0.4, 2.8, number)
    inside = np.zeros((repeats, 2))
    for repeat in range(repeats):
        effects = rng.normal(0, np.hypot(errors, between))
        estimated = errors * np.sqrt(rng.chisquare(FREEDOM, number) / FREEDOM)
        mean = pooled(list(effects), list(estimated))
        if mean is None:
            raise ValueError(f"{number} corpora have no mean")
        new = rng.normal(0, between)
        inside[repeat, 0] = mean.interval[0] <= 0 <= mean.interval[1]
        inside[repeat, 1] = mean.prediction[0] <= new <= mean.prediction[1]
    of_mean, of_new = inside.mean(0)
    return float(of_mean), float(of_new)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=2000, help="simulations a row")
    repeats = parser.parse_args().repeats
    half = 196 * (0.05 * 0.95 / repeats) ** 0.5
    table = Table(title=f"coverage of 95 % intervals, percent; by chance ± {half:.1f}")
    table.add_column("corpora")
    table.add_column("true gains differ by")
    table.add_column("mean", justify="right")
    table.add_column("new corpus", justify="right")
    for number in NUMBERS:
        for between in DEVIATIONS:
            of_mean, of_new = coverage(number, between, repeats)
            shown = [f"{100 * of_mean:.1f}", f"{100 * of_new:.1f}"]
            table.add_row(str(number), f"{between:g}", *shown)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
