"""Tuning curves: how good the best of k random draws of settings is, with exact bands (Lourie, Cho
and He 2024, "Show Your Work with Confidence", arXiv 2311.09480).

Axes: N draws of a side, and the budgets of 1 to N draws.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np
import scipy
from jaxtyping import Float

from elmo_bench.runs import F1, Key, Run, distinguishing, text, values
from elmo_bench.terminal import counted_noun, duration, listed

from .comparison import examples_of, figure_of
from .names import axis, name, points, task_titles, value
from .table import Report, grouped, is_measured

TOP = 1.0  # the highest score there is
CONFIDENCE = 0.975  # of a curve's band; those of two sides hold together with 95 %


class Curve(NamedTuple):
    """The median of the best score of k draws, k from 1, and a band that holds for all k at once.

    An end that is the lowest or the highest score there is says nothing.
    """

    median: Float[np.ndarray, " N"]
    low: Float[np.ndarray, " N"]
    high: Float[np.ndarray, " N"]


def curve(scores: Float[np.ndarray, " N"], lowest: float, confidence: float = CONFIDENCE) -> Curve:
    """Return the tuning curve of a side from the scores of its draws; `lowest` bounds all scores.

    If F is the distribution of a draw's score, F^k is that of the best of k, and its median is the
    quantile of F at 0.5^(1/k). So a band of F gives one of the curve.
    """
    ordered = np.sort(scores)
    ranks = np.arange(1, len(ordered) + 1)
    shares = 0.5 ** (1 / ranks)
    least, most = limits(len(ordered), confidence)
    ends = np.array([lowest, *ordered, TOP])
    # Between two neighbouring scores F is at least the lower one's `least`, at most the higher
    # one's `most`.
    low, high = ends[np.searchsorted(most, shares)], ends[np.searchsorted(least, shares) + 1]
    return Curve(ordered[np.searchsorted(ranks / len(ordered), shares)], low, high)


@cache
def limits(num_draws: int, confidence: float) -> Float[np.ndarray, "2 N"]:
    """Return the limits of F at the lowest score of all draws, the second lowest and so on.

    F at the i-th of N is distributed as Beta(i, N + 1 - i). Of each distribution the same tails are
    cut off, so that all limits hold together with this probability if no two scores are equal, and
    else with a higher one (Learned-Miller and DeStefano 2008).
    """
    ranks = np.arange(1, num_draws + 1)

    def cut(tail: float) -> Float[np.ndarray, "2 N"]:
        return scipy.stats.beta.ppf([[tail], [1 - tail]], ranks, num_draws + 1 - ranks)

    tail = scipy.optimize.brentq(lambda tail: probability(*cut(tail)) - confidence, 0, 0.5)
    return cut(tail)


def probability(least: Float[np.ndarray, " N"], most: Float[np.ndarray, " N"]) -> float:
    """Return the probability that the i-th lowest of N uniform numbers lies in the i-th interval,
    for all i; both limits rise.

    The numbers are the events of a Poisson process that has N of them; between limits the
    distribution of their count is folded with that of new events (Moscovich and Nadler 2017).
    """
    size = len(least)
    numbers = np.arange(size + 1)
    counts, before = np.eye(1, size + 1)[0], 0.0
    for place in np.sort([*least, *most, 1.0]):
        new = scipy.stats.poisson.pmf(numbers, size * (place - before))
        counts = np.convolve(counts, new)[: size + 1]
        counts[: np.searchsorted(most, place, "right")] = 0  # so many must lie below
        counts[np.searchsorted(least, place) + 1 :] = 0  # and no more may
        before = place
    return float(counts[size] / scipy.stats.poisson.pmf(size, size))


class Side(NamedTuple):
    """The draws of a cell, and the score of each on dev by what its task monitors; of a draw that
    failed the lowest there is.
    """

    draws: list[Run]
    scores: Float[np.ndarray, " N"]
    lowest: float  # 0, or -1 for a correlation
    curve: Curve

    @property
    def best(self) -> list[Run]:
        """The draws with the highest score: several only if they are equal."""
        pairs = zip(self.draws, self.scores, strict=True)
        return [draw for draw, score in pairs if score == self.scores.max()]


@lru_cache(maxsize=32)
def sides(report: Report) -> dict[Key, dict[Key, Side]]:
    """Return the sides by row and column, of the rows where a baseline and another were tuned."""
    draws, by_row = grouped(report.draws, report.rows, report.columns), {}
    for row, cells in report.by_row.items():
        keys = {column: (cells[column].row, column) for column in report.heads if column in cells}
        tuned = {column: side(draws[key]) for column, key in keys.items() if key in draws}
        if report.baseline in tuned and len(tuned) > 1:
            by_row[row] = tuned
    return by_row


def side(draws: Sequence[Run]) -> Side:
    """Return a side; raises ValueError for a draw with only other scores on dev."""
    ordered = sorted(draws, key=lambda draw: draw.trial or 0)
    measured = {d: figure_of(d, None, "dev") for d in ordered if is_measured(d, "dev")}
    counts = [examples_of(draw, None, "dev") for draw in [*measured][:1]]
    is_correlation = any(each and each.rows.shape[-1] != F1 for each in counts)
    lowest = -1.0 if is_correlation or min(measured.values(), default=0) < 0 else 0.0
    scores = np.array([measured.get(draw, lowest) for draw in ordered])
    return Side(ordered, scores, lowest, curve(scores, lowest))


def with_draws(report: Report, draws: Sequence[Run], runs: Sequence[Run]) -> Report:
    """Return the report with the draws of its sides, and notes on what makes these unequal; `runs`
    are all that the report is made of, also those that its cells leave out.

    Raises ValueError for draws that were tuned twice.
    """
    report = replace(report, draws=[*draws])
    return replace(report, notes=[*report.notes, *_notes(report, runs)])


def _notes(report: Report, runs: Sequence[Run]) -> Iterator[str]:
    titles, shown = task_titles(report.runs), set[Path]()  # two rows may have one baseline
    for row, tuned in sides(report).items():
        names = {column: name(report.keys, (*row, *column), titles) for column in tuned}
        numbers = {column: len(side.draws) for column, side in tuned.items()}
        shown |= {draw.folder for side in tuned.values() for draw in side.draws}
        if len({*numbers.values()}) > 1:
            of_sides = (f"{names[at]} {counted_noun(n, 'draw')}" for at, n in numbers.items())
            yield f"unequal budgets: {listed(of_sides)}"
        for column, side in tuned.items():
            if unlike := distinguishing(side.draws, []):
                yield f"{names[column]}: its draws differ in {unlike}, which were not drawn"
            seeds = sorted({text(draw.settings.get("seed")) for draw in side.draws})
            if len(seeds) > 1:
                raise ValueError(
                    f"{names[column]}: its draws have the seeds {listed(seeds)}, but a "
                    "draw has the same settings with any seed: move those of all but one away"
                )
            keys = [*side.best[0].tune]
            chosen = {values(draw, keys) for draw in side.best}
            cell = report.by_row[row][column]
            of_cell = (run for run in runs if values(run, report.keys) == cell.key)
            settings = {values(run, keys) for run in of_cell}
            if settings - chosen:
                best = f"the settings of its best draw, number {side.best[0].trial}"
                yield f"{names[column]}: its runs do not have {best}"
    every = grouped(report.draws, report.rows, report.columns).values()
    if more := sum(map(len, every)) - len(shown):
        yield f"not shown: {counted_noun(more, 'draw')} of rows without a tuned baseline or side"


def budgets(most: int) -> list[int]:
    """Return the budgets that are shown, up to so many draws.

    >>> budgets(16), budgets(20)
    ([1, 2, 4, 8, 16], [1, 2, 4, 8, 16, 20])
    """
    return sorted({most, *(2**power for power in range(most.bit_length()))})


def lines(side: Side, most: int) -> dict[str, str]:
    """Return what a side has drawn, its best settings, and the curve, up to so many draws."""
    number, best = len(side.draws), side.best[0]
    failed = sum(not is_measured(draw, "dev") for draw in side.draws)
    seconds = sum(draw.seconds.get("total", 0) for draw in side.draws)
    shown = {
        "draws": f"{number} ({failed} failed)" if failed else f"{number}",
        "time": duration(seconds) + " (without failed draws)" * bool(failed),
        "best on dev": points(float(side.scores.max())),
    }
    for key in best.tune:
        shown[f"with {axis(key)}"] = value(key, values(best, [key])[0])
    for k in (k for k in budgets(most) if k <= number):
        median, *ends = (float(each[k - 1]) for each in side.curve)
        pairs = zip(ends, (side.lowest, TOP), strict=True)
        band = ("no bound" if end == unknown else points(end) for end, unknown in pairs)
        shown[f"best of {k}"] = f"{points(median)} ({' to '.join(dict.fromkeys(band))})"
    return shown


def verdict(ours: Curve, theirs: Curve) -> str:
    """Return with which numbers of draws, the same for both, ours is better or worse because the
    bands part, and the gain in the medians.
    """
    most, found = min(len(ours.median), len(theirs.median)), []

    def word(k: int) -> str:
        if ours.low[k - 1] > theirs.high[k - 1]:
            return "better"
        if ours.high[k - 1] < theirs.low[k - 1]:
            return "worse"
        is_open = ours.high[k - 1] == theirs.high[k - 1] == TOP
        return "not to be decided" if is_open else "undecided"

    for said, same in groupby(range(1, most + 1), word):
        ks = [*same]
        found.append(f"{said} with {ks[0]}" + f" to {ks[-1]}" * (len(ks) > 1))
    gains = {k: float(ours.median[k - 1] - theirs.median[k - 1]) for k in budgets(most)}
    by_budget = listed(f"{points(gain, signed=True)} with {k}" for k, gain in gains.items())
    return f"{', '.join(found)} draws of each; the medians differ by {by_budget}"
