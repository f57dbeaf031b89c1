"""Aggregates over tasks: each column of a report over all rows, as in the rliable library.

The method follows Agarwal et al. (2021, Deep Reinforcement Learning at the Edge of the Statistical
Precipice). Scores are normalised, then aggregated over runs and tasks. A stratified bootstrap,
which resamples runs within each task, gives the intervals. The tasks are fixed, so the results
hold only for them. The normalised score is the share of the gap that is closed: 0 is the mean of
the row's baseline, 1 the mean of its best column. Both ends are treated as constants, as rliable
treats its reference scores. Rows whose gap may be chance have no share, because the bootstrap
would ignore that uncertainty.

Axes: P resamples, C columns.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from .grid import Grid
from .names import as_written, name, names, task_titles
from .significance import LEVEL as P_BELOW
from .table import Cell, Key, Report

RESAMPLES = 9_999
LEVEL = 0.95
TRIMMED = 0.25  # of the scores, at each end
ROWS = 5  # from this number of rows on, each row is less than TRIMMED of all scores
GAP, IQM, BETTER, RANK = "gap closed", "IQM", "P(better)", "mean rank"  # heads
CORPUS = ("task.name", "data.name")  # rows are aggregated only if these differ in each
Interval = tuple[float, float]
Scores = Sequence[Float[np.ndarray, "*P _"]]  # one array a task; the number of runs may differ
Numbers = Float[np.ndarray, "*P"]


class Estimate(NamedTuple):
    """A figure with its 95 % interval, which is None if a task has a single run."""

    value: float
    interval: Interval | None


class Aggregate(NamedTuple):
    """The aggregates of a column over all rows.

    `share` and `improvement` are None without a baseline, `share` and `iqm` if fewer than two rows
    have a gap.
    """

    column: Key
    share: Estimate | None  # mean over tasks of the closed share of the gap to the best column
    iqm: Estimate | None  # interquartile mean of the shares; without a baseline, of the figures
    improvement: Estimate | None  # P(a run of this column scores above a run of the baseline)
    ranks: Interval | None  # 95 % of the mean ranks, 1 the best; None if a cell has a single run


class Across(NamedTuple):
    """The aggregates of the columns that all rows have, and the rows and columns left out."""

    columns: list[Aggregate]
    rows: int
    baseline: Key | None  # None also if a row lacks it
    without_gap: list[Key]  # rows without a share: the best is not significantly above the baseline
    incomplete: list[Key]  # columns that are missing in a row


def across(report: Report, *, resamples: int = RESAMPLES, seed: int = 0) -> Across | None:
    """Return the aggregates of the columns over all rows.

    Returns None if the report has fewer than two rows, rows of the same task and corpus, or fewer
    than two columns that all rows have.
    """
    cells = {(cell.row, cell.column): cell for cell in report.cells}
    rows, columns = (list(dict.fromkeys(keys)) for keys in zip(*cells, strict=True))
    shared = [column for column in columns if all((row, column) in cells for row in rows)]
    corpora = {tuple(cell.runs[0]["choices"].get(key) for key in CORPUS) for cell in report.cells}
    if len(rows) < 2 or len(shared) < 2 or len(corpora) != len(rows):
        return None
    figures = {column: [np.array(cells[row, column].figures) for row in rows] for column in shared}
    rng = np.random.default_rng(seed)
    drawn = {column: _drawn(scores, resamples, rng) for column, scores in figures.items()}
    baseline = report.baseline if report.baseline in figures else None
    gaps = {
        k: gap
        for k, row in enumerate(rows)
        if (gap := _gap([cells[row, column] for column in shared], baseline))
    }

    def scaled(scores: Scores) -> Scores:
        return [(scores[k] - start) / (end - start) for k, (start, end) in gaps.items()]

    def estimate(aggregate: Callable[..., Numbers], *keys: Key) -> Estimate:
        value = float(aggregate(*(figures[key] for key in keys)))
        if any(len(runs) == 1 for key in keys for runs in figures[key]):
            return Estimate(value, None)
        return Estimate(value, _interval(aggregate(*(drawn[key] for key in keys))))

    ranks = mean_ranks([*drawn.values()])
    are_several = all(len(runs) > 1 for scores in figures.values() for runs in scores)
    has_scale = len(gaps) > 1  # one row is no aggregate
    aggregates = []
    for number, column in enumerate(shared):
        against = None if baseline in (None, column) else baseline
        aggregates.append(
            Aggregate(
                column,
                estimate(lambda scores: mean(scaled(scores)), column)
                if has_scale and baseline is not None
                else None,
                estimate(lambda scores: iqm(scaled(scores)), column) if has_scale else None,
                None if against is None else estimate(improvement, column, against),
                _interval(ranks[number]) if are_several else None,
            )
        )
    without_gap = [row for k, row in enumerate(rows) if k not in gaps]
    incomplete = [column for column in columns if column not in shared]
    return Across(aggregates, len(rows), baseline, without_gap, incomplete)


def mean(scores: Scores) -> Numbers:
    """Return the mean over tasks of the mean over runs."""
    return np.asarray(np.mean([runs.mean(-1) for runs in scores], 0))


def iqm(scores: Scores) -> Numbers:
    """Return the interquartile mean: the mean of the middle half of the runs of all tasks.

    Each task has the same weight, so each of its n runs has the weight 1/n. If all tasks have the
    same number of runs, a whole number of runs is cut off each end, as in scipy's `trim_mean`.
    """
    values = np.concatenate(scores, -1)
    weights = np.concatenate([np.full(s.shape[-1], 1 / s.shape[-1]) for s in scores])
    count = values.shape[-1]
    cut = TRIMMED
    if len({runs.shape[-1] for runs in scores}) == 1:
        cut = int(TRIMMED * count) / count
    order = values.argsort(-1)
    ends = (weights[order] / len(scores)).cumsum(-1)
    starts = ends - weights[order] / len(scores)
    kept_weights = (np.minimum(ends, 1 - cut) - np.maximum(starts, cut)).clip(0)
    sorted_values = np.take_along_axis(values, order, -1)
    return np.asarray((kept_weights * sorted_values).sum(-1) / kept_weights.sum(-1))


def improvement(ours: Scores, theirs: Scores) -> Numbers:
    """Return the mean over tasks of P(X > Y) for runs X of ours, Y of theirs; a tie counts 1/2."""
    pairs = zip(ours, theirs, strict=True)
    signs = [np.sign(x[..., :, None] - y[..., None, :]).mean((-2, -1)) for x, y in pairs]
    return np.asarray((1 + np.mean(signs, 0)) / 2)


def mean_ranks(columns: Sequence[Scores]) -> Float[np.ndarray, " C *P"]:
    """Return each column's mean rank over tasks: 1 is the highest mean; ties share a rank."""
    means = np.array([[runs.mean(-1) for runs in scores] for scores in columns])
    return np.asarray(scipy.stats.rankdata(-means, axis=0).mean(1))


def _drawn(
    scores: Scores, resamples: int, rng: np.random.Generator
) -> list[Float[np.ndarray, "resamples _"]]:
    """Draw bootstrap resamples of each task's runs, of the original number."""
    return [runs[rng.integers(len(runs), size=(resamples, len(runs)))] for runs in scores]


def _gap(cells: Sequence[Cell], baseline: Key | None) -> Interval | None:
    """Return the means of a row's baseline and of its best cell.

    Returns None if the best is not significantly above the baseline (without a p value: not above
    it). Without a baseline the scale is (0, 1), which leaves figures unchanged.
    """
    if baseline is None:
        return 0.0, 1.0
    means = {cell.column: cell.mean for cell in cells}
    best = max(cells, key=lambda cell: (cell.mean, cell.column == baseline))
    p = best.comparison.test.p if best.comparison and best.comparison.test else None
    is_above = best.column != baseline if p is None else p < P_BELOW
    return (means[baseline], best.mean) if is_above else None


def _interval(values: Float[np.ndarray, " P"]) -> Interval:
    low, high = np.quantile(values, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


def grid(report: Report) -> Grid | None:
    """Return a table with a row for each column that all rows of the report have: estimates in
    percent, and ranks.

    Returns None if `across` does.
    """
    if (result := across(report)) is None:
        return None
    titles = task_titles(run for cell in report.cells for run in cell.runs)
    estimates = {GAP: "share", IQM: "iqm", BETTER: "improvement"}
    texts = {
        head: [_percent(getattr(each, field)) for each in result.columns]
        for head, field in estimates.items()
    }
    texts[RANK] = [_range(each.ranks) for each in result.columns]
    texts = {head: column for head, column in texts.items() if any(column)}
    columns = [each.column for each in result.columns]
    called = names(report.columns, columns, titles)
    best = {
        (int(np.argmax([getattr(each, estimates[head]).value for each in result.columns])), number)
        for number, head in enumerate(texts, 1)
        if head in (GAP, IQM)
    }
    rows = [
        list(row) for row in zip([called[key] for key in columns], *texts.values(), strict=True)
    ]
    title = f"all {result.rows} {_kind(report)} together, percent"
    title = f"{report.title}: {title}" if report.title else title.capitalize()
    hover = {(k, 0): as_written(report.columns, key) for k, key in enumerate(columns)}
    caption = " ".join(_caption(report, result, {*texts}))
    return Grid(title, ["", *texts], rows, best, 1, hover, caption)


def _kind(report: Report) -> str:
    tasks = {run["task"] for cell in report.cells for run in cell.runs}
    return "tasks" if len(tasks) > 1 else "corpora"


def _caption(report: Report, result: Across, heads: Collection[str]) -> Iterator[str]:
    """Yield sentences that explain each head and the rows and columns left out."""
    kind, scores = _kind(report), "shares" if GAP in heads else "figures"
    are_many = result.rows - len(result.without_gap) >= ROWS
    titles = task_titles(run for cell in report.cells for run in cell.runs)
    meanings = {
        GAP: f"{GAP}: 0 is the baseline and 100 the best setting of a row; the mean of that over "
        f"the {kind}; far outside of these it comes from a row with a small gap",
        IQM: f"{IQM}: the mean of all runs' {scores} without the lowest and the highest quarter"
        + ", so that no single run and no single row decides" * are_many,
        BETTER: f"{BETTER}: how often a run is better than one of the baseline, ties by halves; "
        "50 is no difference",
        RANK: f"{RANK}: 1 is the best of a row; the mean over the {kind} lies in this interval",
    }
    yield from (f"{text[0].upper()}{text[1:]}." for head, text in meanings.items() if head in heads)
    yield (
        "In brackets and for ranks: 95 % intervals from drawing the runs of each row anew "
        "(stratified bootstrap; Agarwal et al. 2021). They speak of other seeds, not of other "
        f"{kind} or examples, and are somewhat narrow with fewer than five runs."
        if any(
            estimate and estimate.interval
            for each in result.columns
            for estimate in (each.iqm, each.improvement)
        )
        else "No intervals: they need two runs or more in each row."
    )
    if result.without_gap:
        rows = "; ".join(name(report.rows, row, titles) for row in result.without_gap)
        lacking = "Not in {}" if GAP in heads else "Without {}, which take two rows or more"
        yield (
            f"{lacking.format(f'{GAP} and {IQM}')}, since no setting is significantly above the "
            f"baseline (p below {P_BELOW}, or a higher mean where there is no p): {rows}."
        )
    if result.incomplete:
        columns = "; ".join(name(report.columns, key, titles) for key in result.incomplete)
        yield f"Left out, since not every row has them: {columns}."


def _percent(estimate: Estimate | None) -> str:
    if estimate is None:
        return ""
    interval = None if estimate.interval is None else tuple(100 * end for end in estimate.interval)
    return _range([100 * estimate.value]) + (f" ({_range(interval)})" if interval else "")


def _range(interval: Sequence[float] | None) -> str:
    return "" if interval is None else " to ".join(f"{x:z.1f}".replace("-", "−") for x in interval)


def records(report: Report) -> list[dict[str, Any]]:
    """Return a flat record for each column, in fractions of 1; empty if `across` returns None."""
    if (result := across(report)) is None:
        return []
    return [
        dict(zip(report.columns, each.column, strict=True))
        | {"rows": result.rows, "rows_with_gap": result.rows - len(result.without_gap)}
        | _flat("gap_closed", each.share)
        | _flat("iqm", each.iqm)
        | _flat("p_better", each.improvement)
        | dict(zip(("rank_low", "rank_high"), each.ranks or (None, None), strict=True))
        for each in result.columns
    ]


def _flat(key: str, estimate: Estimate | None) -> dict[str, float | None]:
    value, interval = estimate or (None, None)
    low, high = interval or (None, None)
    return {key: value, f"{key}_low": low, f"{key}_high": high}
