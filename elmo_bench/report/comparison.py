"""Compare the runs of two systems by the counts of their examples, and correct p."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from elmo_bench.runs import Counts, Run, figure, read_counts, short
from elmo_bench.terminal import listed

from .significance import LEVEL, Test, compare, holm, with_power

# The runs of both sides, in any order, the metric and the split.
Question = tuple[frozenset[frozenset[str]], str, str]
Flaw = tuple[str, str]  # why there is no test, and the folder of a run behind it
SPLITS = ("dev", "test")
SAME = "the difference varies neither with seeds nor with examples"
EXACT = 1e-6  # a figure differs from that of its counts by less: rounding in float32


class Comparison(NamedTuple):
    """A system compared with its baseline."""

    difference: float
    error_reduction: float | None  # share of the baseline's errors; None if it makes none
    test: Test | None = None  # None if the runs' examples cannot be compared; `flaw` says why
    p_holm: float | None = None  # corrected for all comparisons of its family
    family: int | None = None  # number of comparisons that p_holm is corrected for
    question: Question | None = None  # what is compared, which another table may ask, too
    flaw: Flaw | None = None

    @property
    def is_significant(self) -> bool:
        """Whether the corrected p is below 5 %."""
        return self.p_holm is not None and self.p_holm < LEVEL


Correction = Callable[[Comparison], Comparison]


def compared(
    runs: Sequence[Run], base: Sequence[Run], metric: str | None, split: str
) -> Comparison:
    """Return a comparison, its p not corrected; raises ValueError for sides of two metrics."""
    measured = sorted({metric_of(side[0], metric) for side in (runs, base)})
    if len(measured) > 1:
        raise ValueError(
            f"task.monitor: {short(runs[0].folder)} and {short(base[0].folder)} would be compared "
            f"by {listed(measured)}; give one for both, such as metric={measured[0]}"
        )
    sides = runs, base
    ours, theirs = (statistics.fmean(figure_of(r, metric, split) for r in side) for side in sides)
    folders = frozenset(frozenset(str(run.folder) for run in side) for side in sides)
    question = folders, metric_of(runs[0], metric), split
    removed = (ours - theirs) / (1 - theirs) if theirs < 1 else None
    plain = Comparison(ours - theirs, removed, question=question)
    every = [*runs, *base]
    examples = [examples_of(run, metric, split) for run in every]
    counts = [each for each in examples if each is not None]
    if flaw := _incomparable(every, examples, split, question[1]):
        return plain._replace(flaw=flaw)
    rows = np.stack([each.rows for each in counts])
    test = compare(rows[: len(runs)], rows[len(runs) :], counts[0].groups)
    if not test.scales[0].error:
        return plain._replace(flaw=(SAME, ""))
    return plain._replace(test=test._replace(unit=counts[0].unit))


def metric_of(run: Run, metric: str | None) -> str:
    """Return the name of a metric; None means the one that the run's task monitors."""
    return metric or str(run.config["task"]["monitor"])


def figure_of(run: Run, metric: str | None, split: str) -> float:
    """Return a run's score, a fraction of 1; raises ValueError if it has none of that name."""
    prefix = f"{split}/"
    if (name := f"{prefix}{metric_of(run, metric)}") in run.metrics:
        return run.metrics[name]
    others = sorted(each for each in run.metrics if each.startswith(prefix) and each.count("/") < 2)
    raise ValueError(
        f"metric={metric}: {run.folder}/result.json, a run of {run.task}, does not have it, only "
        f"{', '.join(others)}"
    )


def examples_of(run: Run, metric: str | None, split: str) -> Counts | None:
    """Return a run's counts, sorted by sentence, so that the order of the file does not matter, and
    with clusters numbered in the order of their first examples; None if it has none of the metric.

    Raises ValueError if the run's score is not that of its counts.
    """
    name = metric_of(run, metric)
    counts = read_counts(run.folder / "counts" / f"{split}.npz", name)
    if counts is None:
        return None
    shown, counted = figure_of(run, metric, split), float(figure(counts.rows.sum(0)))
    if abs(shown - counted) > EXACT:
        raise ValueError(
            f"{run.folder}/result.json: {split}/{name} is {100 * shown:.4f}, but "
            f"counts/{split}.npz gives {100 * counted:.4f}: one of the files is not of this run; "
            "evaluate or train it again"
        )
    order = np.argsort(counts.sentences, kind="stable")
    _, first, numbers = np.unique(counts.groups[order], return_index=True, return_inverse=True)
    clusters = np.argsort(np.argsort(first))[numbers]
    return Counts(counts.rows[order], counts.sentences[order], clusters, counts.unit)


def size(counts: Counts) -> str:
    """Return the numbers of examples and clusters, such as "170 in 18 documents"."""
    clusters, examples = len(np.unique(counts.groups)), f"{len(counts.rows):,}"
    units = counts.unit + "s" * (clusters > 1)
    if clusters < len(counts.rows):
        return f"{examples} in {clusters:,} {units}"
    return examples if counts.unit == "cluster" else f"{examples} {units}"


def _incomparable(
    runs: Sequence[Run], counts: Sequence[Counts | None], split: str, metric: str
) -> Flaw | None:
    """Return the reason why the counts of runs cannot be compared; None if they can."""
    first = counts[0]
    # The second number is how much is right, but for precision how much is predicted.
    right = slice(0) if metric.rpartition("/")[2] == "precision" else slice(1, None, 6)
    for run, each in zip(runs, counts, strict=True):
        if each is None or first is None:
            return f"counts/{split}.npz of a run is missing or lacks the metric", short(run.folder)
        for why, ours, theirs in (
            ("are different", each.sentences, first.sentences),
            ("are grouped differently", each.groups, first.groups),
            ("differ in what is right", each.rows[..., right], first.rows[..., right]),
        ):
            if not np.array_equal(ours, theirs):
                both = f"{short(run.folder)}, {short(runs[0].folder)}"
                return f"the runs' {split} examples {why}", both
    if first and len(np.unique(first.groups)) < 2:
        return f"all {split} examples are one {first.unit}", ""
    return None


def families(comparisons: Iterable[Comparison], primary: Collection[Question] = ()) -> Correction:
    """Return a function that corrects the p of a comparison by Holm's method.

    A family has all comparisons of a split, each once, however many tables show it; the primary
    questions are a family of their own. Comparisons with fewer than FEWEST runs a side are in none.
    """
    ps: dict[tuple[str, bool], dict[Question, float]] = defaultdict(dict)
    for each in comparisons:
        test, question = each.test, each.question
        if question and test and test.p is not None and not test.is_preliminary:
            ps[question[-1], question in primary][question] = test.p
    corrected = {
        question: (p_holm, len(family))
        for family in ps.values()
        for question, p_holm in zip(family, holm([*family.values()]), strict=True)
    }

    def correct(comparison: Comparison) -> Comparison:
        if comparison.test is None or comparison.question not in corrected:
            return comparison
        p_holm, size = corrected[comparison.question]
        test = with_power(comparison.test, size)
        return comparison._replace(test=test, p_holm=p_holm, family=size)

    return correct
