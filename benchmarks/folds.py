"""Level and power of the test of runs on several splits (`data.folds`), with learners that learn:

    python -m benchmarks.folds             # nothing differs: how often p is small
    python -m benchmarks.folds --gain 0.5  # the first side's features tell more: how often found

Each simulation draws a corpus. Two sides read disjoint features of equal information, so they are
equal on average on new data. Each fold is test once, the next one is dev and chooses the penalty,
and a model of its own seed trains on the others: `stable` is ridge regression on random hidden
units, `unstable` the nearest neighbour in a random half of the features. A cell is the percentage
of simulations with p <= 0.05 / p <= 0.0025 by three tests: the paired t-test over folds, which
ignores that they share training examples; the test of reports, with Nadeau and Bengio's correction;
and the test of reports for as many seeds on one fixed split, the first fold.
"""

from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy import stats

from benchmarks.simulation import LEVELS, heading, options, percent
from elmo_bench.report.folds import corrected_error
from elmo_bench.report.significance import by_cluster, largest_p, unpaired_scales
from elmo_bench.runs import figure
from elmo_bench.training.folds import deal

FOLDS = (5, 10)
TESTS = ("paired t", "corrected", "one split")
WIDTH = 8  # features of a side
HIDDEN = 12
PENALTIES = (1.0, 10.0, 100.0)


@dataclass(frozen=True)
class Setting:
    """A simulation."""

    metric: str = "accuracy"  # or f1, of a label that a quarter of the examples have
    examples: int = 200
    learner: str = "stable"
    grouped: bool = False  # whether examples come in documents of 2 to 12, which share features
    gain: float = 0.0  # how much more the first side's features tell, as a share
    folds: int = 10


@dataclass(frozen=True)
class Corpus:
    """Labels from -1 and 1, the features of both sides, and the document of each example."""

    labels: Int[np.ndarray, " N"]
    sides: tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D"]]
    documents: Int[np.ndarray, " N"]


def drawn(setting: Setting, rng: np.random.Generator) -> Corpus:
    """A corpus of which both sides read features of equal information, but for the gain."""
    count = setting.examples
    documents = np.arange(count)
    if setting.grouped:
        ends = np.cumsum(rng.integers(2, 13, count))
        documents = np.searchsorted(ends, documents, side="right")
    weights = np.geomspace(1, 0.2, WIDTH)
    sides = []
    for gain in (setting.gain, 0.0):
        own = rng.normal(size=(count, WIDTH))
        shared = rng.normal(size=(documents[-1] + 1, WIDTH))[documents]
        features = (own + shared) / np.sqrt(2) if setting.grouped else own
        sides.append((features, features @ weights * (1 + gain)))
    score = sides[0][1] + sides[1][1] + rng.normal(size=count)
    limit = 0.0 if setting.metric == "accuracy" else 0.6745 * np.sqrt(2 * weights @ weights + 1)
    labels = np.where(score > limit, 1, -1)
    return Corpus(labels, (sides[0][0], sides[1][0]), documents)


def trained(
    setting: Setting,
    features: np.ndarray,
    labels: np.ndarray,
    parts: dict[str, np.ndarray],
    rng: np.random.Generator,
) -> Int[np.ndarray, " T"]:
    """What a model of a seed predicts of the test examples."""
    train = parts["train"]
    if setting.learner == "unstable":
        kept = rng.permutation(WIDTH)[: WIDTH // 2]
        own = features[:, kept]
        test = own[parts["test"]]
        products = test @ own[train].T
        squares = (own[train] ** 2).sum(1)
        nearest = (squares - 2 * products).argmin(1)
        return labels[train][nearest]
    hidden = np.tanh(features @ rng.normal(size=(WIDTH, HIDDEN)) / 2 + rng.normal(size=HIDDEN))
    units = np.concatenate([hidden, np.ones((len(hidden), 1))], 1)
    seen = units[train]
    products = seen.T @ seen
    targets = seen.T @ labels[train]
    best = np.zeros(0)
    highest = -1.0
    for penalty in PENALTIES:
        weights = np.linalg.solve(products + penalty * np.eye(len(products)), targets)
        said = np.where(units[parts["dev"]] @ weights > 0, 1, -1)
        dev = float(figure(counts(setting, said, labels[parts["dev"]]).sum(0)))
        if dev > highest:
            highest = dev
            best = weights
    return np.where(units[parts["test"]] @ best > 0, 1, -1)


def counts(setting: Setting, said: np.ndarray, right: np.ndarray) -> Float[np.ndarray, "T 1 4"]:
    """The counts of each example, of accuracy or of the F1 of the rarer label."""
    if setting.metric == "accuracy":
        hit = said == right
        columns = (hit, np.ones_like(hit), hit, np.ones_like(hit))
    else:
        hit = (said == 1) & (right == 1)
        columns = (hit, right == 1, hit, said == 1)
    return np.stack(columns, -1)[:, None].astype(float)


def parts_of(fold_of: np.ndarray, fold: int, folds: int) -> dict[str, np.ndarray]:
    """The numbers of the examples of each split if a fold is test."""
    dev = fold % folds + 1
    is_held_out = (fold_of == fold) | (fold_of == dev)
    masks = {"train": ~is_held_out, "dev": fold_of == dev, "test": fold_of == fold}
    return {split: np.flatnonzero(mask) for split, mask in masks.items()}


def ps_of(setting: Setting, seed: int) -> tuple[float, ...]:
    """The p of each of TESTS in a simulation."""
    rng = np.random.default_rng(seed)
    corpus = drawn(setting, rng)
    fold_by_document = deal(Counter(corpus.documents.tolist()), setting.folds)
    fold_of = np.array([fold_by_document[document] for document in corpus.documents.tolist()])
    differences = []
    for fold in range(1, setting.folds + 1):
        parts = parts_of(fold_of, fold, setting.folds)
        right = corpus.labels[parts["test"]]
        scores = []
        for features in corpus.sides:
            said = trained(setting, features, corpus.labels, parts, rng)
            scores.append(float(figure(counts(setting, said, right).sum(0))))
        differences.append(scores[0] - scores[1])
    error = corrected_error(differences, setting.folds)
    mean = float(np.mean(differences))
    corrected = 1.0
    paired = 1.0
    if error > 0:
        corrected = float(2 * stats.t.sf(abs(mean) / error, setting.folds - 1))
        paired = float(stats.ttest_1samp(differences, 0).pvalue)
    return paired, corrected, _one_split(setting, corpus, parts_of(fold_of, 1, setting.folds), rng)


def _one_split(
    setting: Setting, corpus: Corpus, parts: dict[str, np.ndarray], rng: np.random.Generator
) -> float:
    """The p of as many seeds on a fixed split."""
    right = corpus.labels[parts["test"]]
    sides = []
    for features in corpus.sides:
        runs = []
        for _ in range(setting.folds):
            said = trained(setting, features, corpus.labels, parts, rng)
            runs.append(counts(setting, said, right))
        sides.append(by_cluster(np.stack(runs), corpus.documents[parts["test"]]))
    ours, theirs = sides
    difference = float(figure(ours.sum(1)).mean() - figure(theirs.sum(1)).mean())
    return largest_p(difference, unpaired_scales(ours, theirs))


def rejections(setting: Setting, repeats: int) -> list[tuple[float, ...]]:
    """For each of TESTS, the shares of repeats in which p is at most each of LEVELS."""
    ps = np.array([ps_of(setting, seed) for seed in range(repeats)])
    shares = [np.mean(ps <= level, axis=0) for level in LEVELS]
    return [(float(usual), float(low)) for usual, low in zip(*shares, strict=True)]


SETTINGS = {
    "accuracy, 200 examples": Setting(),
    "accuracy, 1,000 examples": Setting(examples=1000),
    "F1, 200 examples": Setting("f1"),
    "F1, 1,000 examples": Setting("f1", examples=1000),
    "accuracy, 200 in documents": Setting(grouped=True),
    "accuracy, 1,000 in documents": Setting(examples=1000, grouped=True),
    "F1, 200 in documents": Setting("f1", grouped=True),
    "F1, 1,000 in documents": Setting("f1", examples=1000, grouped=True),
    "unstable, accuracy, 200 examples": Setting(learner="unstable"),
    "unstable, accuracy, 1,000 in documents": Setting("accuracy", 1000, "unstable", True),
    "unstable, F1, 200 in documents": Setting("f1", 200, "unstable", True),
    "unstable, F1, 1,000 examples": Setting("f1", 1000, "unstable"),
}


def main() -> None:
    parser = options(__doc__, 2000)
    parser.add_argument("--gain", type=float, default=0.0, help="what the first side's tell more")
    asked = parser.parse_args()
    rows = {name: setting for name, setting in SETTINGS.items() if asked.only in name}
    with ProcessPoolExecutor(asked.processes) as pool:
        cells = {}
        for name, setting in rows.items():
            for folds in FOLDS:
                simulated = replace(setting, folds=folds, gain=asked.gain)
                cells[name, folds] = pool.submit(rejections, simulated, asked.repeats)
        shares = {cell: one.result() for cell, one in track(cells.items(), transient=True)}
    table = Table(title=heading(asked.repeats))
    table.add_column("corpus")
    for folds in FOLDS:
        for test in TESTS:
            table.add_column(f"{folds}: {test}", justify="right")
    for name in rows:
        texts: list[str] = []
        for folds in FOLDS:
            texts += map(percent, shares[name, folds])
        table.add_row(name, *texts)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
