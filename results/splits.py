"""Which split decides: how often the test is wrong on dev, on test and on both together, and the
smallest difference that each finds, on each corpus of the second series.

python results/splits.py                  # prints the tables of docs/validation.md
python results/splits.py --repeats 2000   # the same with less chance, in an hour or two

Two systems are simulated that are equally good. Their examples are the corpus's own, drawn anew by
cluster; how easy each is, how much runs differ, how much examples suit one system and how much
epochs differ comes from the archived runs. Of each run the epoch that is best on dev counts.

Axes: R runs of a system, N examples, C clusters, S scores, M numbers, K epochs.
"""

import argparse
import csv
import logging
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
import overview
from jaxtyping import Float, Int
from refresh import table
from rich.progress import track

from elmo_bench.report import Grid, markdown_table
from elmo_bench.report.comparison import BOTH, SPLITS, compared, examples_of, metric_of
from elmo_bench.report.names import points
from elmo_bench.report.significance import (
    by_cluster,
    compare,
    covariance_between,
    variances,
    with_power,
    without_each,
)
from elmo_bench.report.table import Cell
from elmo_bench.runs import F1, Run, figure

log = logging.getLogger(__name__)
FOLDER = Path(__file__).parent
DECIDE = (*SPLITS, BOTH)
RUNS = 5  # of each system
EPOCHS = 10  # from which dev chooses
MORE = 20  # for the second system, if it has more epochs to choose from
LEVELS = (0.05, 0.0025)
STEP = 0.05  # of logits, for slopes


@dataclass(frozen=True)
class Split:
    """The examples of a split, as all archived runs of a corpus have answered them."""

    gold: Float[np.ndarray, " N"]  # things to find, 1 for a label
    ease: Float[np.ndarray, " N"]  # logits of the share that runs get right
    clusters: Int[np.ndarray, " N"]  # from 0
    is_label: bool  # whether each example has one label, so that the score is accuracy


@dataclass(frozen=True)
class Corpus:
    """A corpus; all deviations are in logits."""

    splits: dict[str, Split]
    skill: float  # between runs of a system
    taste: float  # of how well a cluster suits a system
    epochs: float  # between the late epochs of a run


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=300, help="simulations a corpus")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    titles = overview.read(str(FOLDER / "corpora.yaml"))
    report = table(FOLDER / "series.yaml", "Gains")
    levels = []
    sizes = []
    shares = []
    for cells in track(list(report.by_row.values()), "simulating", transient=True):
        several = list(cells.values())
        title = titles[str(several[0].runs[0].settings["data.name"])].title
        shares.append(_levels(corpus_of(several), options))
        levels.append([title, *_texts(shares[-1])])
        sizes.append([title, *_sizes(several)])
        log.info("%s: %s", title, ", ".join(levels[-1][1:]))
    levels.append(["all", *_texts(np.mean(shares, 0))])
    half = 196 * math.sqrt(LEVELS[0] * (1 - LEVELS[0]) / options.repeats)
    heads = ["corpus (task)", *DECIDE]
    heads += [f"{split}, more epochs" for split in DECIDE]
    what = "p ≤ 0.05/p ≤ 0.0025, percent, of two equally good systems"
    grids = [
        Grid(what, heads, levels, 1, f"By chance ± {half:.1f} at 0.05."),
        Grid("Smallest difference found, points", ["corpus (task)", "minutes", *DECIDE], sizes, 1),
    ]
    sys.stdout.write("\n\n".join(map(markdown_table, grids)) + "\n")


def _levels(corpus: Corpus, options: argparse.Namespace) -> Float[np.ndarray, "6 2"]:
    """Return how often p is at most each of LEVELS, percent, on each of DECIDE: of systems alike,
    then of one with more epochs.
    """
    shares = []
    with ProcessPoolExecutor(options.processes) as pool:
        for epochs in (EPOCHS, MORE):
            seeds = range(options.repeats)
            outcomes = list(pool.map(partial(simulated, corpus, epochs), seeds, chunksize=10))
            shares.append(100 * np.mean(outcomes, 0))
    return np.concatenate(shares)


def _texts(shares: Float[np.ndarray, "6 2"]) -> list[str]:
    return [f"{usual:.1f}/{low:.2f}" for usual, low in shares]


def _sizes(cells: Sequence[Cell]) -> list[str]:
    """Return the median minutes of a run and, of each split, the smallest difference between two
    cells of five runs that is found in 80 % of cases, the median over all pairs.
    """
    minutes = [run.seconds["total"] / 60 for cell in cells for run in cell.runs]
    texts = [f"{np.median(minutes):.0f}"]
    for split in DECIDE:
        smallest = []
        for number, ours in enumerate(cells):
            for theirs in cells[:number]:
                test = compared(ours.runs, theirs.runs, None, split).test
                if test is not None and test.detectable is None:
                    test = with_power(test, 1)
                smallest.append(test.detectable if test and test.detectable else math.nan)
        texts.append(points(float(np.nanmedian(smallest))))
    return texts


def corpus_of(cells: Sequence[Cell]) -> Corpus:
    """Return what the archived runs of a corpus say about it."""
    runs = [run for cell in cells for run in cell.runs]
    splits = {}
    rows = {}
    for split in SPLITS:
        counts = [examples_of(run, None, split) for run in runs]
        rows[split] = np.stack([of_run.rows for of_run in counts if of_run is not None])
        first = counts[0]
        if first is None:
            raise ValueError(f"{runs[0].folder}: no counts on {split}")
        splits[split] = _split(rows[split], first.groups)
    test = splits["test"]
    slope, weights = _slope(test)
    of_runs, of_examples = _variances(
        rows["test"], test.clusters, [len(cell.runs) for cell in cells]
    )
    late = float(np.mean([_late(run) for run in runs]))
    slope_on_dev, _ = _slope(splits["dev"])
    spread = float(np.square(np.bincount(test.clusters, weights)).sum())
    return Corpus(
        splits,
        skill=math.sqrt(max(of_runs, 0.0)) / slope,
        taste=math.sqrt(max(of_examples, 0.0) / (2 * spread)),
        epochs=math.sqrt(late) / slope_on_dev,
    )


def _split(rows: Float[np.ndarray, "R N S M"], groups: Int[np.ndarray, " N"]) -> Split:
    if rows.shape[-1] != F1:  # Matthews' correlation: whether the label is right
        right = (rows[:, :, 0, 1] == rows[:, :, 0, 2]).astype(float)
        gold = np.ones(rows.shape[1])
    else:
        right = rows[:, :, 0, 0]
        gold = np.maximum(np.round(rows[0, :, 0, 1]), 0)
    share = (right.mean(0) * 10 + 0.5 * gold) / np.maximum(gold * 11, 1)
    share = np.clip(share, 0.02, 0.98)
    _, clusters = np.unique(groups, return_inverse=True)
    return Split(gold, np.log(share / (1 - share)), clusters, bool((gold == 1).all()))


def _slope(split: Split) -> tuple[float, Float[np.ndarray, " N"]]:
    """Return by how much the expected score rises with a logit, and each example's part of it."""

    def score(step: float) -> float:
        return float(figure(_expected(split, split.ease + step).sum(0)))

    slope = (score(STEP) - score(-STEP)) / (2 * STEP)
    chance = 1 / (1 + np.exp(-split.ease))
    weights = split.gold * chance * (1 - chance)
    return slope, slope * weights / weights.sum()


def _expected(split: Split, logits: Float[np.ndarray, "*R N"]) -> Float[np.ndarray, "*R N 1 4"]:
    chance = 1 / (1 + np.exp(-logits))
    gold = np.broadcast_to(split.gold, chance.shape)
    right = gold * chance
    wrong = np.zeros_like(right) if split.is_label else 0.6 * (1 - chance)
    predicted = gold if split.is_label else right + wrong
    return np.stack([right, gold, right, predicted], -1)[..., None, :]


def _variances(
    rows: Float[np.ndarray, "R N S M"], clusters: Int[np.ndarray, " N"], runs: Sequence[int]
) -> tuple[float, float]:
    """Return the variance between runs beyond the noise of their answers, the mean over cells, and
    the examples' part of the variance of a difference, the mean over pairs of cells.
    """
    ends = np.cumsum(runs)[:-1]
    left_out = np.split(without_each(by_cluster(rows, clusters)), ends)
    scores = np.split(figure(rows.sum(1)), ends)
    cells = [variances(*cell) for cell in zip(scores, left_out, strict=True)]
    of_runs = [cell.between - cell.noise for cell in cells]
    of_examples = []
    for first, second in combinations(range(len(cells)), 2):
        across = covariance_between(left_out[first], left_out[second])
        of_examples.append(cells[first].shared + cells[second].shared - 2 * across)
    return float(np.mean(of_runs)), float(np.mean(of_examples))


def _late(run: Run) -> float:
    """Return the variance of dev's score over the epochs from two before the best to two after."""
    name = f"dev/{metric_of(run, None)}"
    with Path(run.folder, "metrics.csv").open() as file:
        scores = [float(row[name]) for row in csv.DictReader(file) if row.get(name)]
    best = int(np.argmax(scores))
    around = scores[max(best - 2, 0) : best + 3]
    return float(np.var(around, ddof=1)) if len(around) > 1 else 0.0


def simulated(corpus: Corpus, epochs: int, seed: int) -> Float[np.ndarray, "3 2"]:
    """Return whether p is at most each of LEVELS, 1 or 0, in one comparison on each of DECIDE; the
    second system has so many epochs to choose from.

    With more than EPOCHS, the epochs of both differ by chance answers only, so that the systems
    remain equally good.
    """
    rng = np.random.default_rng(seed)
    deviation = corpus.epochs if epochs == EPOCHS else 0.0
    chosen = {}
    for name, split in corpus.splits.items():
        chosen[name] = _resampled(split, rng)
    counts: dict[str, list[np.ndarray]] = {name: [] for name in SPLITS}
    for of_system in (EPOCHS, epochs):
        skill = corpus.skill * rng.normal(size=(RUNS, 1))
        moves = deviation * rng.normal(size=(of_system, RUNS, 1))
        answers = {}
        for name, split in chosen.items():
            taste = corpus.taste * rng.normal(size=split.clusters.max() + 1)
            answers[name] = split.ease + skill + taste[split.clusters]
        on_dev = [_answered(chosen["dev"], answers["dev"] + move, rng) for move in moves]
        scores = np.stack([figure(each.sum(1)) for each in on_dev])
        best = scores.argmax(0)
        runs = np.arange(RUNS)
        counts["dev"].append(np.stack(on_dev)[best, runs])
        counts["test"].append(_answered(chosen["test"], answers["test"] + moves[best, runs], rng))
    clusters = {name: split.clusters for name, split in chosen.items()}
    counts[BOTH] = [
        np.concatenate([counts["dev"][side], counts["test"][side]], 1) for side in (0, 1)
    ]
    clusters[BOTH] = np.concatenate([clusters["dev"], clusters["test"] + clusters["dev"].max() + 1])
    rejected = np.zeros((len(DECIDE), len(LEVELS)))
    for number, split in enumerate(DECIDE):
        test = compare(*counts[split], clusters[split])
        p = 1.0 if test.p is None else test.p
        rejected[number] = [p <= level for level in LEVELS]
    return rejected


def _resampled(split: Split, rng: np.random.Generator) -> Split:
    """Return as many clusters, drawn with replacement."""
    count = int(split.clusters.max()) + 1
    members = np.split(np.argsort(split.clusters, kind="stable"), _ends(split.clusters))
    drawn = rng.integers(count, size=count)
    order = np.concatenate([members[number] for number in drawn])
    sizes = [len(members[number]) for number in drawn]
    clusters = np.repeat(np.arange(count), sizes)
    return Split(split.gold[order], split.ease[order], clusters, split.is_label)


def _ends(clusters: Int[np.ndarray, " N"]) -> Int[np.ndarray, " C-1"]:
    return np.cumsum(np.bincount(clusters))[:-1]


def _answered(
    split: Split, logits: Float[np.ndarray, "R N"], rng: np.random.Generator
) -> Float[np.ndarray, "R N 1 4"]:
    """Return counts of runs that find each thing with its chance."""
    chance = 1 / (1 + np.exp(-logits))
    gold = np.broadcast_to(split.gold, chance.shape)
    if split.is_label:
        right = (rng.random(chance.shape) < chance).astype(float)
        predicted = gold
    else:
        right = rng.binomial(gold.astype(int), chance).astype(float)
        predicted = right + rng.binomial(2, 0.3 * (1 - chance))
    return np.stack([right, gold, right, predicted], -1)[..., None, :]


if __name__ == "__main__":
    main()
