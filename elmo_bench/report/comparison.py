"""Compare the runs of two systems by the counts of their examples, and correct p."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from elmo_bench.runs import Counts, Run, figure, read_counts, short
from elmo_bench.terminal import listed

from .folds import Measured, by_fold, compare_folds, fold_of_run, unlike
from .significance import LEVEL, Test, compare, holm, with_power

# The runs of both sides, in any order, the metric and the split.
Question = tuple[frozenset[frozenset[str]], str, str]
Flaw = tuple[str, str]  # why there is no test, and the folder of a run behind it
SPLITS = ("dev", "test")
BOTH = "both"  # dev and test together, as one set of examples
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
    our_metric = metric_of(runs[0], metric)
    their_metric = metric_of(base[0], metric)
    if our_metric != their_metric:
        measured = sorted([our_metric, their_metric])
        raise ValueError(
            f"task.monitor: {short(runs[0].folder)} and {short(base[0].folder)} would be compared "
            f"by {listed(measured)}; give one for both, such as metric={measured[0]}"
        )
    our_mean = _mean(runs, metric, split)
    their_mean = _mean(base, metric, split)
    difference = our_mean - their_mean
    error_reduction = difference / (1 - their_mean) if their_mean < 1 else None
    question = frozenset([folders_of(runs), folders_of(base)]), our_metric, split
    untested = Comparison(difference, error_reduction, question=question)
    every = list(runs) + list(base)
    examples = [examples_of(run, metric, split) for run in every]
    flaw = _flaw_of_folds(runs, base) or _incomparable(every, examples, split, our_metric)
    if flaw:
        return untested._replace(flaw=flaw)
    counts = [of_run for of_run in examples if of_run is not None]  # all of them, without a flaw
    if len(by_fold(every)) > 1:
        on_folds = []
        for run, of_run in zip(every, counts, strict=True):
            on_folds.append(Measured(fold_of_run(run), figure_of(run, metric, split), of_run))
        test = compare_folds(on_folds[: len(runs)], on_folds[len(runs) :])
    else:
        rows = np.stack([of_run.rows for of_run in counts])
        test = compare(rows[: len(runs)], rows[len(runs) :], counts[0].groups)
    if not test.scales[0].error:
        return untested._replace(flaw=(SAME, ""))
    return untested._replace(test=test._replace(unit=counts[0].unit))


def _mean(runs: Iterable[Run], metric: str | None, split: str) -> float:
    return statistics.fmean(figure_of(run, metric, split) for run in runs)


def folders_of(runs: Iterable[Run]) -> frozenset[str]:
    """Return the folders of runs, by which a setting is known whichever table shows it."""
    return frozenset(str(run.folder) for run in runs)


def metric_of(run: Run, metric: str | None) -> str:
    """Return the name of a metric; None means the one that the run's task monitors."""
    return metric or str(run.config["task"]["monitor"])


def splits_of(split: str) -> tuple[str, ...]:
    """Return the splits whose examples are scored together."""
    return SPLITS if split == BOTH else (split,)


def split_title(split: str) -> str:
    """Return the name of a split for readers.

    >>> split_title("test"), split_title("both")
    ('test', 'dev and test')
    """
    return " and ".join(splits_of(split))


def figure_of(run: Run, metric: str | None, split: str) -> float:
    """Return a run's score, a fraction of 1, of `both` splits that of the sums of their counts.

    Raises ValueError if it has none of that name, or of `both` splits no counts.
    """
    if split == BOTH:
        counts = examples_of(run, metric, split)
        if counts is None:
            raise ValueError(
                f"split=both: {run.folder} lacks the counts of {metric_of(run, metric)} on dev or "
                "test, from which the score of both is computed; split=test needs none"
            )
        return float(figure(counts.rows.sum(0)))
    prefix = f"{split}/"
    name = f"{prefix}{metric_of(run, metric)}"
    if name in run.metrics:
        return run.metrics[name]
    others = [key for key in run.metrics if key.startswith(prefix) and key.count("/") < 2]
    raise ValueError(
        f"metric={metric}: {run.folder}/result.json, a run of {run.task}, does not have it, only "
        f"{', '.join(sorted(others))}"
    )


def examples_of(run: Run, metric: str | None, split: str) -> Counts | None:
    """Return a run's counts, sorted by sentence, so that the order of the file does not matter, and
    with clusters numbered in the order of their first examples; None if it has none of the metric.

    Those of `both` splits are dev's and then test's, whose clusters are others. Raises ValueError
    if the run's score is not that of its counts.
    """
    parts = []
    for each in splits_of(split):
        counts = _examples_of_split(run, metric, each)
        if counts is None:
            return None
        parts.append(counts)
    return parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: Sequence[Counts]) -> Counts:
    """Return the counts of several splits as one set of examples."""
    groups = []
    num_groups = 0
    for part in parts:
        groups.append(part.groups + num_groups)
        num_groups += int(part.groups.max()) + 1 if part.groups.size else 0
    rows = np.concatenate([part.rows for part in parts])
    sentences = np.concatenate([part.sentences for part in parts])
    return Counts(rows, sentences, np.concatenate(groups), parts[0].unit)


def _examples_of_split(run: Run, metric: str | None, split: str) -> Counts | None:
    """Return the sorted counts of a split; None if it has none of the metric."""
    name = metric_of(run, metric)
    counts = read_counts(run.folder / "counts" / f"{split}.npz", name)
    if counts is None:
        return None
    shown = figure_of(run, metric, split)
    counted = float(figure(counts.rows.sum(0)))
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


def size(runs: Sequence[Run], metric: str | None, split: str) -> str:
    """Return the numbers of examples and clusters of a cell's runs, such as "170 in 18 documents",
    those of several folds together; "" if a run has no counts of the metric.
    """
    num_examples = 0
    num_clusters = 0
    folds = by_fold(runs)
    unit = "cluster"
    for positions in folds.values():
        counts = examples_of(runs[positions[0]], metric, split)
        if counts is None:
            return ""
        num_examples += len(counts.rows)
        num_clusters += len(np.unique(counts.groups))
        unit = counts.unit
    examples = f"{num_examples:,}"
    units = f"{unit}s" if num_clusters > 1 else unit
    shown = examples if unit == "cluster" else f"{examples} {units}"
    if num_clusters < num_examples:
        shown = f"{examples} in {num_clusters:,} {units}"
    return f"{shown}, {len(folds)} folds" if len(folds) > 1 else shown


def _flaw_of_folds(runs: Sequence[Run], base: Sequence[Run]) -> Flaw | None:
    """Return the reason why the folds of two sides cannot be compared; None if they can."""
    why = unlike(runs, base)
    return (why, "") if why else None


def _incomparable(
    runs: Sequence[Run], counts: Sequence[Counts | None], split: str, metric: str
) -> Flaw | None:
    """Return the reason why the counts of runs, each with those of the first run of its fold,
    cannot be compared; None if they can.
    """
    folds = by_fold(runs)
    for positions in folds.values():
        of_fold = [runs[position] for position in positions]
        counts_of_fold = [counts[position] for position in positions]
        flaw = _unlike_first(of_fold, counts_of_fold, split, metric)
        if flaw:
            return flaw
    first = counts[0]
    if len(folds) == 1 and first and len(np.unique(first.groups)) < 2:
        return f"all {split_title(split)} examples are one {first.unit}", ""
    return None


def _unlike_first(
    runs: Sequence[Run], counts: Sequence[Counts | None], split: str, metric: str
) -> Flaw | None:
    """Return the first reason why counts cannot be compared with those of the first run; None if
    they can.
    """
    first = counts[0]
    where = split_title(split)
    # The second number is how much is right, but for precision how much is predicted.
    right = slice(0) if metric.rpartition("/")[2] == "precision" else slice(1, None, 6)
    for run, of_run in zip(runs, counts, strict=True):
        if of_run is None or first is None:
            files = " or ".join(f"counts/{each}.npz" for each in splits_of(split))
            return f"{files} of a run is missing or lacks the metric", short(run.folder)
        why = None
        if not np.array_equal(of_run.sentences, first.sentences):
            why = f"the runs' {where} examples are different"
        elif not np.array_equal(of_run.groups, first.groups):
            why = f"the runs' {where} examples are grouped differently"
        elif not np.array_equal(of_run.rows[..., right], first.rows[..., right]):
            why = f"the runs' {where} examples differ in what is right"
        if why:
            return why, f"{short(run.folder)}, {short(runs[0].folder)}"
    return None


def families(comparisons: Iterable[Comparison], primary: Collection[Question] = ()) -> Correction:
    """Return a function that corrects the p of a comparison by Holm's method.

    A family has all comparisons of a split, each once, however many tables show it; the primary
    questions are a family of their own. Comparisons with fewer than FEWEST runs a side are in none.
    """
    # By split and by whether they are primary: the p of each question.
    ps: dict[tuple[str, bool], dict[Question, float]] = defaultdict(dict)
    for comparison in comparisons:
        test = comparison.test
        question = comparison.question
        if question and test and test.p is not None and not test.is_preliminary:
            ps[question[-1], question in primary][question] = test.p
    corrected: dict[Question, tuple[float, int]] = {}
    for family in ps.values():
        corrected_ps = holm(list(family.values()))
        for question, p_holm in zip(family, corrected_ps, strict=True):
            corrected[question] = (p_holm, len(family))

    def correct(comparison: Comparison) -> Comparison:
        if comparison.test is None or comparison.question not in corrected:
            return comparison
        p_holm, family_size = corrected[comparison.question]
        test = with_power(comparison.test, family_size)
        return comparison._replace(test=test, p_holm=p_holm, family=family_size)

    return correct
