"""Compare the runs of two systems by the counts of their examples, and correct p for several
comparisons.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt

from elmo_bench.runs import Run, read_counts, short

from .significance import (
    FEWEST,
    LEVEL,
    PRELIMINARY,
    Test,
    compare,
    equal_within,
    fewest,
    figure,
    holm,
    with_power,
)

# The runs of both sides, in any order, the metric and the split.
Question = tuple[frozenset[frozenset[str]], str, str]
SPLITS = ("dev", "test")
EXACT = 1e-6  # a figure differs from that of its counts by less: rounding in float32


class Comparison(NamedTuple):
    """A system compared with its baseline, in fractions of 1.

    `test` is None if the runs' examples cannot be compared.
    """

    difference: float
    # Removed share of the baseline's errors; None if it makes none.
    error_reduction: float | None
    test: Test | None = None
    p_holm: float | None = None  # corrected for all comparisons of its family
    equal: bool | None = None  # whether the difference is significantly within the user's region
    family: int = 0  # number of comparisons that p_holm is corrected for
    question: Question | None = None  # what is compared, which another table may ask, too

    @property
    def is_preliminary(self) -> bool:
        """Whether the comparison has a p, but too few runs for a star."""
        return self.test is not None and self.test.p is not None and self.test.is_preliminary


Correction = Callable[[Comparison], Comparison]


class CompareOptions(NamedTuple):
    """The figure that is compared, and the region within which differences are practically equal,
    as a fraction of 1.
    """

    metric: str | None  # None for the one that a run's task monitors
    split: str
    equal_within: float | None


class NoTestReason(NamedTuple):
    """What is wrong with a comparison, and the folder of a run behind it."""

    why: str
    folder: str = ""


class Examples(NamedTuple):
    """The evaluated examples of a run: hashes of their sentences, counts, and cluster numbers in
    the order of the clusters' first examples.
    """

    sentences: UInt[np.ndarray, " N"]
    counts: Float[np.ndarray, "N S 4"]
    clusters: Int[np.ndarray, " N"]
    unit: str = "cluster"  # what a cluster is, such as "document"

    @property
    def number(self) -> int:
        return len(self.sentences)

    @property
    def num_clusters(self) -> int:
        return len({*self.clusters.tolist()})


def compared(
    runs: Sequence[Run], base: Sequence[Run], options: CompareOptions
) -> tuple[Comparison, list[NoTestReason]]:
    """Return a comparison, its p not corrected, and what is wrong with it."""
    metric, split, region = options
    means = [
        statistics.fmean(figure_of(run, metric, split) for run in side) for side in (runs, base)
    ]
    difference, errors = means[0] - means[1], 1 - means[1]
    sides = frozenset(frozenset(str(run.folder) for run in side) for side in (runs, base))
    plain = Comparison(
        difference,
        difference / errors if errors else None,
        question=(sides, metric_of(runs[0], metric), split),
    )
    examples = [examples_of(run, metric, split) for run in (*runs, *base)]
    if why := _incomparable([*runs, *base], examples, split):
        return plain, [why._replace(why=f"no test, since {why.why}")]
    ours, theirs = examples[: len(runs)], examples[len(runs) :]
    flaws = [*_copies(runs, ours), *_copies(base, theirs)]
    if examples[0].num_clusters < 2:
        why = NoTestReason(f"no test, since all {split} examples are one {examples[0].unit}")
        return plain, [*flaws, why]
    left, right = (np.stack([each.counts for each in side]) for side in (ours, theirs))
    test = compare(left, right, examples[0].clusters)._replace(unit=examples[0].unit)
    if not test.error:
        text = "no test, since the difference varies neither with seeds nor with examples"
        return plain, [*flaws, NoTestReason(text)]
    equal = None if region is None else equal_within(test, region)
    return plain._replace(test=test, equal=equal), flaws


def metric_of(run: Run, metric: str | None) -> str:
    """Return the name of a metric; None means the one that the run's task monitors."""
    return metric or str(run.config["task"]["monitor"])


def figure_of(run: Run, metric: str | None, split: str) -> float:
    """Return a run's figure, a fraction of 1; raises ValueError if it has none of that name."""
    name = f"{split}/{metric_of(run, metric)}"
    if name not in run.metrics:
        names = [each.partition("/")[2] for each in run.metrics if each.startswith(f"{split}/")]
        overall = [each for each in names if "/" not in each]
        of_labels = [each for each in names if "/" in each]
        more = f", and {len(of_labels)} such as {of_labels[0]}" if of_labels else ""
        raise ValueError(
            f"metric={metric}: {run.folder}/result.json, a run of {run.task}, does not have it on "
            f"{split}, only {', '.join(sorted(overall))}{more}"
        )
    return run.metrics[name]


def examples_of(run: Run, metric: str | None, split: str) -> Examples:
    """Return a run's counts, sorted by sentence, so that the order of the file does not matter.

    Without a counts file or the metric, N is 0. Raises ValueError if the run's figure is not that
    of its counts.
    """
    name = metric_of(run, metric)
    read = read_counts(run.folder / "counts" / f"{split}.npz", name)
    if read is None:
        none = np.zeros(0, dtype=np.uint64)
        return Examples(none, np.zeros((0, 1, 4)), none.astype(np.int64))
    shown, counted = figure_of(run, metric, split), float(figure(read.rows.sum(0)))
    if abs(shown - counted) > EXACT:
        raise ValueError(
            f"{run.folder}/result.json: {split}/{name} is {100 * shown:.4f}, but "
            f"counts/{split}.npz gives {100 * counted:.4f}: one of the files is not of this run; "
            "evaluate or train it again"
        )
    order = np.argsort(read.sentences, kind="stable")
    _, first, numbers = np.unique(read.groups[order], return_index=True, return_inverse=True)
    clusters = np.argsort(np.argsort(first))[numbers]
    return Examples(read.sentences[order], read.rows[order], clusters, read.unit)


def _copies(runs: Sequence[Run], examples: Sequence[Examples]) -> Iterator[NoTestReason]:
    """Yield a flaw if two runs of a side have the same figures, mix, and counts of each example."""
    first: dict[tuple[str, str, bytes], Run] = {}
    for run, its_examples in zip(runs, examples, strict=True):
        content = repr(run.metrics), repr(run.mix), its_examples.counts.tobytes()
        same = first.setdefault(content, run)
        if same is not run:
            yield NoTestReason(
                f"seeds {same.seed} and {run.seed} have the same figures and counts: if one "
                "is a copy of the other, too many runs are counted",
                short(run.folder),
            )
            return


def _incomparable(
    runs: Sequence[Run], examples: Sequence[Examples], split: str
) -> NoTestReason | None:
    """Return the reason why the counts of runs cannot be compared; None if they can."""
    first = examples[0]
    for run, each in zip(runs, examples, strict=True):
        both = f"{short(run.folder)}, {short(runs[0].folder)}"
        if not each.number:
            why = f"counts/{split}.npz of a run is missing or lacks the metric"
            return NoTestReason(why, short(run.folder))
        if not np.array_equal(each.sentences, first.sentences):
            return NoTestReason(f"the runs were evaluated on different {split} examples", both)
        if not np.array_equal(each.clusters, first.clusters):
            ours, theirs = (f"{one.num_clusters:,} {one.unit}s" for one in (each, first))
            return NoTestReason(
                f"the runs' {split} examples are grouped differently ({ours}; {theirs}); "
                "job=evaluate writes the counts of a run anew",
                both,
            )
        if each.counts.shape != first.counts.shape:
            shapes = sorted({each.counts.shape, first.counts.shape})
            return NoTestReason(f"the runs' counts/{split}.npz have shapes {shapes}", both)
        if not np.array_equal(each.counts[..., 1], first.counts[..., 1]):
            return NoTestReason(f"the runs' {split} examples differ in what is right", both)
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
    by_question = {
        question: (p_holm, len(family))
        for family in ps.values()
        for question, p_holm in zip(family, holm([*family.values()]), strict=True)
    }

    def correct(comparison: Comparison) -> Comparison:
        if comparison.test is None or comparison.question not in by_question:
            return comparison
        p_holm, size = by_question[comparison.question]
        test = with_power(comparison.test, size)
        return comparison._replace(test=test, p_holm=p_holm, family=size)

    return correct


def limits(comparisons: Iterable[Comparison]) -> list[str]:
    """Return notes on designs with too few runs."""
    designs = sorted({(each.test.runs, each.family) for each in comparisons if each.test})
    notes: dict[str, list[str]] = defaultdict(list)  # note -> designs
    for (ours, theirs), family in designs:
        if min(ours, theirs) < 2:
            why = (
                "no p, since a single run does not show the variance over seeds; the interval is "
                "for these models on new examples"
            )
        elif min(ours, theirs) < FEWEST:
            why = (
                f"{PRELIMINARY}, since fewer than {FEWEST} runs a side get no star and no verdict "
                "(sweep=seeds has five)"
            )
        elif (least := fewest(ours, theirs)) > (level := LEVEL / max(family, 1)):
            after = f", and of {family} comparisons the first needs {level:.2g}" * (family > 1)
            why = (
                f"exchanging the seeds alone could not give a p below {least:.2g}{after}; a "
                "smaller p here rests on the runs' figures being roughly normal"
            )
        else:
            continue
        notes[why].append(f"{ours} + {theirs}")
    return [f"{', '.join(dict.fromkeys(which))} runs: {why}" for why, which in notes.items()]
