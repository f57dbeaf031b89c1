"""Level and power of the significance test of reports, in processes that are kind and unkind to it:

    python -m benchmarks.significance                    # nothing differs: how often p is small
    python -m benchmarks.significance --difference 0.4   # logits: how often it is found

Simulated systems read the same 200 examples and are equal on average. A row is a process, a column
two numbers of runs, and a cell the percentage of simulations with p <= 0.05 / p <= 0.0025, which is
about the level of a star among 20 comparisons.
"""

import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import rankdata

from benchmarks.simulation import LEVELS, heading, options, percent
from elmo_bench.report.significance import by_cluster, largest_p, unpaired_scales
from elmo_bench.runs import figure

RUNS = ((2, 2), (3, 3), (5, 5), (10, 10), (10, 5), (5, 2), (10, 2))
Counts = Float[np.ndarray, "R N S M"]
Draw = Callable[[np.random.Generator, tuple[int, int]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    return rng.normal(0, 1, shape)


def heavy(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Student's t with 2.5 degrees of freedom, of variance 1."""
    return rng.standard_t(2.5, shape) / math.sqrt(5)


def bimodal(rng: np.random.Generator, shape: tuple[int, int], low: float) -> np.ndarray:
    """Two modes, the lower one for a share `low` of the runs; of mean 0 and variance 1."""
    modes = (low - (rng.random(shape) < low)) / math.sqrt(low * (1 - low))
    return np.asarray(math.sqrt(0.99) * modes + rng.normal(0, 0.1, shape))


@dataclass(frozen=True)
class Setting:
    """A simulation; deviations and the difference are in logits of the probability to be right, for
    Pearson's and Spearman's correlation in -2 log of the noise of what is predicted.
    """

    metric: str = "accuracy"  # or f1, "mean of 3" F1, macro_f1, matthews, pearson, spearman
    examples: int = 200
    runs: tuple[int, int] = (3, 3)
    skill: float = 0.0  # standard deviation between runs of a system
    taste: float = 0.0  # standard deviation of how well an example suits a system
    difference: float = 0.0
    seeds: Draw = normal  # distribution of the skill of runs
    shared: float = 0.0  # correlation of the skills of both systems' runs of the same seed
    collapsed: float = 0.0  # share of runs that learn almost nothing
    silent: float = 0.0  # share of runs that predict nothing
    steady: float = 1.0  # factor of the second system's skill
    clusters: int = 0  # number of clusters of examples with the same taste and ease; 0: none
    alike: bool = True  # whether clusters have equal numbers of examples
    ignored: bool = False  # whether the test takes each example for itself


def pair(setting: Setting, seed: int) -> tuple[Counts, Counts]:
    """The counts of two systems' runs on the same examples."""
    rng = np.random.default_rng(seed)
    gold, ease = rng.poisson(1.5, setting.examples), spread_over_clusters(rng, setting, 1.0)
    ours, skill = system(rng, setting, setting.runs[0], gold, ease + setting.difference, None)
    other = replace(setting, skill=setting.skill * setting.steady)
    return ours, system(rng, other, setting.runs[1], gold, ease, skill)[0]


def clusters(setting: Setting) -> np.ndarray:
    """The cluster of each example; the largest of unequal ones has about 40 times the smallest."""
    if not setting.clusters:
        return np.arange(setting.examples)
    sizes = np.ones(setting.clusters) if setting.alike else np.geomspace(1, 40, setting.clusters)
    ends = np.cumsum(sizes / sizes.sum()) * setting.examples
    return np.searchsorted(ends, np.arange(setting.examples) + 0.5)


def spread_over_clusters(
    rng: np.random.Generator, setting: Setting, deviation: float
) -> np.ndarray:
    numbers = clusters(setting)
    return rng.normal(0, deviation, numbers[-1] + 1)[numbers]


def system(
    rng: np.random.Generator,
    setting: Setting,
    runs: int,
    gold: np.ndarray,
    ease: np.ndarray,
    other_skill: np.ndarray | None,
) -> tuple[Counts, np.ndarray]:
    skill = setting.seeds(rng, (runs, 1))
    if other_skill is not None and setting.shared:
        alike = min(len(skill), len(other_skill))
        rest = math.sqrt(1 - setting.shared**2)
        skill[:alike] = setting.shared * other_skill[:alike] + rest * skill[:alike]
    lower = 5 * (rng.random((runs, 1)) < setting.collapsed)
    taste = spread_over_clusters(rng, setting, setting.taste)
    logits = 0.8 + setting.skill * skill - lower + ease + taste
    chance = 1 / (1 + np.exp(-logits))
    if setting.metric in LABELLED:
        label = gold > 2  # one in five
        counts = LABELLED[setting.metric](label, label ^ (rng.random(chance.shape) > chance))
    elif setting.metric in ("pearson", "spearman"):
        noisy = gold + np.exp(-logits / 2) * rng.normal(size=logits.shape)
        sides = (rankdata(each, axis=-1) for each in (gold, noisy))
        counts = moments(*(sides if setting.metric == "spearman" else (gold, noisy)))
    elif setting.metric == "accuracy":
        right = (rng.random(chance.shape) < chance).astype(float)
        counts = np.stack([right, np.ones_like(right)] * 2, -1)[:, :, None]
    else:
        scores = 1 if setting.metric == "f1" else 3
        counts = np.stack([_chunks(rng, gold, chance) for _ in range(scores)], 2)
    if setting.silent:
        silent = rng.random(runs) < setting.silent
        for count in (0, 2, 3):  # all but the gold chunks
            counts[silent, ..., count] = 0
    return counts, skill


def _chunks(rng: np.random.Generator, gold: np.ndarray, chance: np.ndarray) -> np.ndarray:
    right, wrong = rng.binomial(gold, chance), rng.binomial(2, 0.3 * (1 - chance))
    whole = np.broadcast_to(gold, right.shape)
    return np.stack([right, whole, right, right + wrong], -1).astype(float)


def moments(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    x = np.broadcast_to(x, y.shape)
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], -1)[:, :, None].astype(float)


def _macro(gold: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    gold = np.broadcast_to(gold, predicted.shape)
    sides = [(gold, predicted), (~gold, ~predicted)]
    return np.stack([np.stack([x & y, x, x & y, y], -1) for x, y in sides], 2).astype(float)


LABELLED = {"matthews": moments, "macro_f1": _macro}


def p_of(setting: Setting, seed: int) -> float:
    ours, theirs = pair(setting, seed)
    if setting.clusters and not setting.ignored:
        numbers = clusters(setting)
        ours, theirs = by_cluster(ours, numbers), by_cluster(theirs, numbers)
    difference = float(figure(ours.sum(1)).mean() - figure(theirs.sum(1)).mean())
    return largest_p(difference, unpaired_scales(ours, theirs))


def rejections(setting: Setting, repeats: int) -> tuple[float, ...]:
    """The shares of repeats in which p is at most each of LEVELS."""
    ps = np.array([p_of(setting, seed) for seed in range(repeats)])
    return tuple(float(np.mean(ps <= level)) for level in LEVELS)


BOTH = Setting(skill=0.3, taste=1.0)
BOTH_F1 = replace(BOTH, metric="f1")
PROCESSES = {
    "examples differ, accuracy": Setting(taste=1.0),
    "examples differ, F1": Setting("f1", taste=1.0),
    "seeds differ, accuracy": Setting(skill=0.3),
    "seeds differ, F1": Setting("f1", skill=0.3),
    "both differ, accuracy": BOTH,
    "both differ, F1": BOTH_F1,
    "both differ, mean of three F1": replace(BOTH, metric="mean of 3"),
    "both differ, macro F1": replace(BOTH, metric="macro_f1"),
    "both differ, Matthews": replace(BOTH, metric="matthews"),
    "both differ, Pearson": replace(BOTH, metric="pearson"),
    "both differ, Spearman": replace(BOTH, metric="spearman"),
    "both differ, 30 examples": replace(BOTH_F1, examples=30),
    "both differ, 48 unequal clusters": replace(BOTH_F1, clusters=48, alike=False),
    "6 documents, seeds hardly differ": Setting("f1", clusters=6, skill=0.05, taste=1.0),
    "20 documents, tested by sentence": replace(BOTH_F1, clusters=20, ignored=True),
    "seeds of Student's t": Setting("f1", skill=0.5, seeds=heavy),
    "bimodal seeds, a quarter low": Setting("f1", skill=1.0, seeds=partial(bimodal, low=0.25)),
    "bimodal seeds, half low": Setting("f1", skill=1.0, seeds=partial(bimodal, low=0.5)),
    "one run in five learns next to nothing": replace(BOTH_F1, collapsed=0.2),
    "one run in five predicts nothing": replace(BOTH_F1, silent=0.2),
    "second system: twice the spread": Setting("f1", skill=0.3, steady=2.0),
    "shared seeds, correlation 0.7": Setting("f1", skill=0.5, shared=0.7),
    "shared seeds, correlation −0.7": Setting("f1", skill=0.5, shared=-0.7),
}


def main() -> None:
    parser = options(__doc__, 2000)
    parser.add_argument("--difference", type=float, default=0.0, help="true difference, in logits")
    asked = parser.parse_args()
    rows = {name: setting for name, setting in PROCESSES.items() if asked.only in name}
    with ProcessPoolExecutor(asked.processes) as pool:
        cells = {
            (name, runs): pool.submit(
                rejections, replace(setting, runs=runs, difference=asked.difference), asked.repeats
            )
            for name, setting in rows.items()
            for runs in RUNS
        }
        shares = {cell: one.result() for cell, one in track(cells.items(), transient=True)}
    table = Table(title=heading(asked.repeats))
    table.add_column("process")
    for ours, theirs in RUNS:
        table.add_column(f"{ours} + {theirs}", justify="right")
    for name in rows:
        table.add_row(name, *(percent(shares[name, runs]) for runs in RUNS))
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
