"""Would moderated variances (Smyth 2004, limma) make the test of reports better? Its level and
power with the variance between a cell's runs shrunk towards that of ten cells of one corpus:

    python -m benchmarks.moderated                    # nothing differs: how often p is small
    python -m benchmarks.moderated --difference 0.5   # logits: how often it is found

The processes are those of benchmarks/significance.py, with five runs a cell; eight further cells
are like the first system. A column is a rule: separate variances, as reports have them; all cells
shrunk; or a cell kept apart if an F test against the others, at that level, finds its variance too
large.
"""

import math
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import special, stats

from benchmarks.significance import PROCESSES, clusters, pair
from benchmarks.simulation import LEVELS, heading, options, percent
from elmo_bench.report.significance import (
    Variances,
    by_cluster,
    covariance_between,
    largest_p,
    scale_of,
    variances,
    without_each,
)
from elmo_bench.runs import figure

OTHERS = 8  # cells of the corpus besides the two that are compared
RUNS = 5
APART = (0.05, 0.2, 0.4)  # levels of the F test
LEAST = 1e-12  # variance of runs that are all alike


def shrunk(
    variances: Float[np.ndarray, " C"], freedom: float
) -> tuple[Float[np.ndarray, " C"], float]:
    """Return the posterior variances of cells and their degrees of freedom (Smyth 2004, section
    3), of the scaled F distribution that the logarithms' mean and variance give (section 6.2).
    """
    logs = np.log(variances) - special.digamma(freedom / 2) + math.log(freedom / 2)
    excess = float(logs.var(ddof=1) - special.polygamma(1, freedom / 2))
    total = freedom * len(variances)
    if excess <= 0:  # the cells are as alike as chance makes them
        return np.full(len(variances), variances.mean()), total
    prior_freedom = 2 * _inverse_of_trigamma(excess)
    prior = math.exp(logs.mean() + special.digamma(prior_freedom / 2) - math.log(prior_freedom / 2))
    both = (prior_freedom * prior + freedom * variances) / (prior_freedom + freedom)
    return both, min(prior_freedom + freedom, total)


def _inverse_of_trigamma(value: float) -> float:
    """Newton's method as in the appendix of Smyth (2004)."""
    solution = 0.5 + 1 / value
    for _ in range(50):
        trigamma = special.polygamma(1, solution)
        solution += trigamma * (1 - trigamma / value) / special.polygamma(2, solution)
    return float(solution)


def ps(name: str, difference: float, seed: int) -> list[float]:
    """Return p by each rule: separate, all shrunk, and each of APART."""
    setting = replace(PROCESSES[name], runs=(RUNS, RUNS), difference=difference)
    ours, theirs = pair(setting, seed)
    others = []
    for number in range(OTHERS):
        other, _ = pair(setting, (seed + 1) * 1_000_003 + number)
        others.append(float(figure(other.sum(1)).var(ddof=1)))
    if setting.clusters and not setting.ignored:
        numbers = clusters(setting)
        ours, theirs = by_cluster(ours, numbers), by_cluster(theirs, numbers)
    shift = float(figure(ours.sum(1)).mean() - figure(theirs.sum(1)).mean())
    sides, examples = _parts(ours, theirs)
    own = np.maximum([side.between for side in sides] + others, LEAST)
    freedom = float(RUNS - 1)
    moderated, moderated_freedom = shrunk(own, freedom)
    by_rule = [[(own[side], freedom) for side in (0, 1)]]
    by_rule.append([(moderated[side], moderated_freedom) for side in (0, 1)])
    for level in APART:
        chosen = []
        for side in (0, 1):
            rest = np.delete(own, side)
            ratio = own[side] / rest.mean()
            if stats.f.sf(ratio, freedom, freedom * len(rest)) < level:
                chosen.append((own[side], freedom))
            else:
                chosen.append((moderated[side], moderated_freedom))
        by_rule.append(chosen)
    results = []
    for by_side in by_rule:
        floored = []
        for (variance, of_side), least in zip(by_side, sides, strict=True):
            floored.append((max(variance, least.noise) / RUNS, of_side))
        of_runs = [(variance / RUNS, of_side) for variance, of_side in by_side]
        scales = scale_of(*floored, examples), scale_of(*floored), scale_of(*of_runs)
        results.append(largest_p(shift, scales))
    return results


def _parts(ours: np.ndarray, theirs: np.ndarray) -> tuple[list[Variances], tuple[float, int]]:
    """Return both sides, and the examples' variance with its degrees of freedom, as in
    `weighted_scales`.
    """
    sides = []
    left_out = []
    for system in (ours, theirs):
        without = without_each(system)
        left_out.append(without)
        sides.append(variances(figure(system.sum(1)), without))
    of_examples = sides[0].shared + sides[1].shared - 2 * covariance_between(*left_out)
    return sides, (max(of_examples, 0.0), ours.shape[1] - 1)


def main() -> None:
    parser = options(__doc__, 1000)
    parser.add_argument("--difference", type=float, default=0.0, help="true difference, in logits")
    asked = parser.parse_args()
    names = [name for name in PROCESSES if asked.only in name]
    table = Table(title=heading(asked.repeats))
    table.add_column("process")
    for rule in ("separate", "all shrunk", *(f"apart at {level:g}" for level in APART)):
        table.add_column(rule, justify="right")
    with ProcessPoolExecutor(asked.processes) as pool:
        for name in track(names, transient=True):
            task = partial(ps, name, asked.difference)
            found = np.array(list(pool.map(task, range(asked.repeats), chunksize=20)))
            shares = [np.mean(found <= level, axis=0) for level in LEVELS]
            table.add_row(name, *map(percent, np.transpose(shares)))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
