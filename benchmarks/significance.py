"""False-positive rate and power of the significance test of reports:

    python -m benchmarks.significance

Simulated runs read the same 200 examples. Under three null hypotheses the systems are equal on
average: `examples` (each example suits one of them better), `seeds` (runs differ in skill), `both`.
Every table has a row for each null and metric and a column for each number of runs.
"""

import argparse
import itertools
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.progress import track
from rich.table import Table

from elmo_bench.report.significance import (
    Variance,
    by_cluster,
    figure,
    paired_variance,
    same_examples,
    same_models,
    two_sided,
    unpaired_variance,
)

METRICS = ("accuracy", "f1", "mean of 3")
NULLS = {"examples": (0.0, 1.0), "seeds": (0.3, 0.0), "both": (0.3, 1.0)}  # skill, taste
RUNS = (2, 3, 5, 10, 20)
CLUSTER = 5
Counts = Float[np.ndarray, "R N S 4"]


@dataclass(frozen=True)
class Setting:
    """A simulation; deviations and the difference are in logits of the probability to be right."""

    metric: str = "accuracy"
    examples: int = 200
    runs: int = 3
    skill: float = 0.0  # standard deviation between runs of a system
    taste: float = 0.0  # standard deviation of how well an example suits a system
    difference: float = 0.0
    collapsed: float = 0.0  # share of runs that learn almost nothing
    steady: float = 1.0  # factor of the second system's skill
    cluster: int = 1  # consecutive examples with the same taste and ease


def pair(setting: Setting, seed: int) -> tuple[Counts, Counts]:
    """The counts of two systems' runs on the same examples."""
    rng = np.random.default_rng(seed)
    gold, ease = rng.poisson(1.5, setting.examples), _by_cluster(rng, setting, 1.0)
    ours = _system(rng, setting, gold, ease + setting.difference)
    return ours, _system(rng, replace(setting, skill=setting.skill * setting.steady), gold, ease)


def _by_cluster(rng: np.random.Generator, setting: Setting, deviation: float) -> np.ndarray:
    count = setting.examples // setting.cluster
    return rng.normal(0, deviation, count).repeat(setting.cluster)


def _system(
    rng: np.random.Generator, setting: Setting, gold: np.ndarray, ease: np.ndarray
) -> Counts:
    skill = rng.normal(0, setting.skill, (setting.runs, 1))
    skill -= 5 * (rng.random((setting.runs, 1)) < setting.collapsed)
    taste = _by_cluster(rng, setting, setting.taste)
    chance = 1 / (1 + np.exp(-(0.8 + skill + ease + taste)))
    if setting.metric == "accuracy":
        right = (rng.random(chance.shape) < chance).astype(float)
        return np.stack([right, np.ones_like(right)] * 2, -1)[:, :, None]
    scores = [_chunks(rng, gold, chance) for _ in range(1 if setting.metric == "f1" else 3)]
    return np.stack(scores, 2)


def _chunks(rng: np.random.Generator, gold: np.ndarray, chance: np.ndarray) -> np.ndarray:
    right, wrong = rng.binomial(gold, chance), rng.binomial(2, 0.3 * (1 - chance))
    whole = np.broadcast_to(gold, right.shape)
    return np.stack([right, whole, right, right + wrong], -1).astype(float)


def unpaired(left: Counts, right: Counts) -> float:
    return _p(left, right, unpaired_variance(left, right))


def paired(left: Counts, right: Counts) -> float:
    return _p(left, right, paired_variance(left, right))


def clustered(left: Counts, right: Counts) -> float:
    numbers = np.arange(left.shape[1]) // CLUSTER
    return unpaired(by_cluster(left, numbers), by_cluster(right, numbers))


def _p(left: Counts, right: Counts, variance: Variance) -> float:
    difference = float(figure(left.sum(1)).mean() - figure(right.sum(1)).mean())
    return two_sided(difference, math.sqrt(variance.total), variance.freedom)


def larger(left: Counts, right: Counts) -> float:
    """The test of earlier reports: the larger p-value of two tests, over seeds and examples."""
    seeds = same_examples(figure(left.sum(1)), figure(right.sum(1)))
    return max(same_models(left, right, resamples=999), seeds or 0.0)


def rejections(
    test: Callable[[Counts, Counts], float], setting: Setting, repeats: int, level: float = 0.05
) -> float:
    """The share of repeats in which p is at most the level."""
    return float(np.mean([test(*pair(setting, seed)) <= level for seed in range(repeats)]))


@dataclass(frozen=True)
class Question:
    """A table: its title, test and setting; `fewer` divides the number of simulations."""

    title: str
    test: Callable[[Counts, Counts], float] = unpaired
    setting: Setting = Setting()
    fewer: int = 1


QUESTIONS = (
    Question("level: nothing differs"),
    Question("power: 0.4 logits differ", setting=Setting(difference=0.4)),
    Question("level of the paired test (reports ask for five pairs)", paired),
    Question("level where one run in five learns next to nothing", setting=Setting(collapsed=0.2)),
    Question("level where one system's runs do not differ", setting=Setting(steady=0.0)),
    Question("level with 30 examples", setting=Setting(examples=30)),
    Question("level with clusters of 5, tested by cluster", clustered, Setting(cluster=CLUSTER)),
    Question("level with clusters of 5, each example for itself", setting=Setting(cluster=CLUSTER)),
    Question("level of the larger of two p, which reports had before", larger, fewer=10),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=4000, help="simulations a cell")
    parser.add_argument("--level", type=float, default=0.05, help="largest p that is counted")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", default="", help="tables with this in their title")
    arguments = parser.parse_args()
    console = Console(width=100)
    with ProcessPoolExecutor(arguments.processes) as pool:
        for question in (one for one in QUESTIONS if arguments.only in one.title):
            repeats = arguments.repeats // question.fewer
            cells = {
                (null, metric, runs): pool.submit(
                    rejections,
                    question.test,
                    replace(question.setting, metric=metric, runs=runs, skill=skill, taste=taste),
                    repeats,
                    arguments.level,
                )
                for (null, (skill, taste)), metric, runs in itertools.product(
                    NULLS.items(), METRICS, RUNS
                )
            }
            shares = {
                cell: one.result()
                for cell, one in track(cells.items(), question.title, transient=True)
            }
            level = arguments.level
            half = 196 * (level * (1 - level) / repeats) ** 0.5
            chance = f"{repeats} simulations a cell: {100 * level:g} ± {half:.2g} by chance"
            table = Table(title=f"{question.title}; p <= {level:g}, percent ({chance})")
            for head in ("null", "metric", *(f"{runs} + {runs} runs" for runs in RUNS)):
                table.add_column(head, justify="right" if "runs" in head else "left")
            digits = 1 if level >= 0.01 else 2
            for null, metric in itertools.product(NULLS, METRICS):
                row = (f"{100 * shares[null, metric, runs]:.{digits}f}" for runs in RUNS)
                table.add_row(null, metric, *row)
            console.print(table)


if __name__ == "__main__":
    main()
