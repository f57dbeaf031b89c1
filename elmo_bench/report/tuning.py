"""Tuning curves: how good the best of k random draws of settings is, with exact bands (Lourie, Cho
and He 2024, "Show Your Work with Confidence", arXiv 2311.09480).

Axes: N draws of a side, and the budgets of 1 to N draws.
"""

from collections.abc import Iterator, Mapping, Sequence
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
    ends = np.concatenate([[lowest], ordered, [TOP]])
    median = ordered[np.searchsorted(ranks / len(ordered), shares)]
    # Between two neighbouring scores F is at least the lower one's `least`, at most the higher
    # one's `most`.
    low = ends[np.searchsorted(most, shares)]
    high = ends[np.searchsorted(least, shares) + 1]
    return Curve(median, low, high)


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

    def excess(tail: float) -> float:
        least, most = cut(tail)
        return probability(least, most) - confidence

    return cut(scipy.optimize.brentq(excess, 0, 0.5))


def probability(least: Float[np.ndarray, " N"], most: Float[np.ndarray, " N"]) -> float:
    """Return the probability that the i-th lowest of N uniform numbers lies in the i-th interval,
    for all i; both limits rise.

    The numbers are the events of a Poisson process that has N of them; between limits the
    distribution of their count is folded with that of new events (Moscovich and Nadler 2017).
    """
    size = len(least)
    numbers = np.arange(size + 1)
    counts = np.eye(1, size + 1)[0]
    before = 0.0
    for place in np.sort(np.concatenate([least, most, [1.0]])):
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
        highest = self.scores.max()
        pairs = zip(self.draws, self.scores, strict=True)
        return [draw for draw, score in pairs if score == highest]


@lru_cache(maxsize=32)
def sides(report: Report) -> dict[Key, dict[Key, Side]]:
    """Return the sides by row and column, of the rows where a baseline and another were tuned."""
    draws = grouped(report.draws, report.rows, report.columns)
    by_row: dict[Key, dict[Key, Side]] = {}
    for row, cells in report.by_row.items():
        tuned: dict[Key, Side] = {}
        for column in report.heads:
            if column in cells:
                place = (cells[column].row, column)  # in another row for a lent baseline
                if place in draws:
                    tuned[column] = side(draws[place])
        if report.baseline in tuned and len(tuned) > 1:
            by_row[row] = tuned
    return by_row


def side(draws: Sequence[Run]) -> Side:
    """Return a side; raises ValueError for a draw with only other scores on dev."""
    ordered = sorted(draws, key=lambda draw: draw.trial or 0)
    measured: dict[Run, float] = {}
    for draw in ordered:
        if is_measured(draw, "dev"):
            measured[draw] = figure_of(draw, None, "dev")
    lowest = -1.0 if _are_correlations(measured) else 0.0
    scores = np.array([measured.get(draw, lowest) for draw in ordered])
    return Side(ordered, scores, lowest, curve(scores, lowest))


def _are_correlations(measured: Mapping[Run, float]) -> bool:
    """Whether these scores of runs are correlations: one is negative, or their counts say so."""
    if not measured:
        return False
    counts = examples_of(next(iter(measured)), None, "dev")
    is_of_correlations = counts is not None and counts.rows.shape[-1] != F1
    return is_of_correlations or min(measured.values()) < 0


def with_draws(report: Report, draws: Sequence[Run], runs: Sequence[Run]) -> Report:
    """Return the report with the draws of its sides, and notes on what makes these unequal; `runs`
    are all that the report is made of, also those that its cells leave out.

    Raises ValueError for draws that were tuned twice.
    """
    tuned = replace(report, draws=list(draws))
    return replace(tuned, notes=report.notes + list(_notes(tuned, runs)))


def _notes(report: Report, runs: Sequence[Run]) -> Iterator[str]:
    """Yield notes on sides that are unequal, and on draws that no row shows."""
    titles = task_titles(report.runs)
    shown: set[Path] = set()  # folders of draws: two rows may have one baseline
    for row, tuned in sides(report).items():
        names: dict[Key, str] = {}
        counts: dict[Key, str] = {}
        for column, side in tuned.items():
            names[column] = name(report.keys, row + column, titles)
            counts[column] = counted_noun(len(side.draws), "draw")
            shown.update(draw.folder for draw in side.draws)
        if len(set(counts.values())) > 1:
            of_sides = listed(f"{names[column]} {counts[column]}" for column in tuned)
            yield f"unequal budgets: {of_sides}"
        for column, side in tuned.items():
            cell = report.by_row[row][column]
            of_cell = [run for run in runs if values(run, report.keys) == cell.key]
            yield from _notes_on(side, names[column], of_cell)
    groups = grouped(report.draws, report.rows, report.columns)
    num_hidden = sum(len(draws) for draws in groups.values()) - len(shown)
    if num_hidden:
        hidden = counted_noun(num_hidden, "draw")
        yield f"not shown: {hidden} of rows without a tuned baseline or side"


def _notes_on(side: Side, side_name: str, runs: Sequence[Run]) -> Iterator[str]:
    """Yield notes on draws that differ in what was not drawn, and on runs of the side that do not
    have the settings of its best draw.

    The second of two draws, with λ = 0.1 and λ = 0.01, is the best, but a run has λ = 0.1, from an
    earlier choice: "its runs do not have the settings of its best draw, number 1". Of equally good
    draws a run may have the settings of any.

    Raises ValueError for draws that were tuned twice.
    """
    unlike = distinguishing(side.draws, [])
    if unlike:
        yield f"{side_name}: its draws differ in {unlike}, which were not drawn"
    seeds = sorted({text(draw.settings.get("seed")) for draw in side.draws})
    if len(seeds) > 1:
        raise ValueError(
            f"{side_name}: its draws have the seeds {listed(seeds)}, but a draw has the same "
            "settings with any seed: move those of all but one away"
        )
    best = side.best[0]
    keys = list(best.tune)
    settings_of_best = {values(draw, keys) for draw in side.best}
    if any(values(run, keys) not in settings_of_best for run in runs):
        yield (
            f"{side_name}: its runs do not have the settings of its best draw, number {best.trial}"
        )


def budgets(most: int) -> list[int]:
    """Return the budgets that are shown, up to so many draws.

    >>> budgets(16), budgets(20)
    ([1, 2, 4, 8, 16], [1, 2, 4, 8, 16, 20])
    """
    numbers = [2**power for power in range(most.bit_length())]
    if most not in numbers:
        numbers.append(most)
    return numbers


def lines(side: Side, most: int) -> dict[str, str]:
    """Return what a side has drawn, its best settings, and the curve, up to so many draws."""
    number = len(side.draws)
    failed = len([draw for draw in side.draws if not is_measured(draw, "dev")])
    time = duration(sum(draw.seconds.get("total", 0) for draw in side.draws))
    shown = {
        "draws": f"{number} ({failed} failed)" if failed else f"{number}",
        "time": f"{time} (without failed draws)" if failed else time,
        "best on dev": points(float(side.scores.max())),
    }
    best = side.best[0]
    for key in best.tune:
        shown[f"with {axis(key)}"] = value(key, values(best, [key])[0])
    for k in budgets(most):
        if k <= number:
            shown[f"best of {k}"] = _best_of(side, k)
    return shown


def _best_of(side: Side, k: int) -> str:
    """Return the median of the best of k draws, with its band."""
    median = points(float(side.curve.median[k - 1]))
    low = float(side.curve.low[k - 1])
    high = float(side.curve.high[k - 1])
    shown_low = "no bound" if low == side.lowest else points(low)
    shown_high = "no bound" if high == TOP else points(high)
    if shown_low == shown_high:
        return f"{median} ({shown_low})"
    return f"{median} ({shown_low} to {shown_high})"


def verdict(ours: Curve, theirs: Curve) -> str:
    """Return with which numbers of draws, the same for both, ours is better or worse because the
    bands part, and the gain in the medians.
    """

    def outcome(k: int) -> str:
        if ours.low[k - 1] > theirs.high[k - 1]:
            return "better"
        if ours.high[k - 1] < theirs.low[k - 1]:
            return "worse"
        is_open = ours.high[k - 1] == theirs.high[k - 1] == TOP
        return "not to be decided" if is_open else "undecided"

    most = min(len(ours.median), len(theirs.median))
    outcomes = []
    for word, neighbours in groupby(range(1, most + 1), outcome):
        numbers = list(neighbours)
        if len(numbers) == 1:
            outcomes.append(f"{word} with {numbers[0]}")
        else:
            outcomes.append(f"{word} with {numbers[0]} to {numbers[-1]}")
    gains = []
    for k in budgets(most):
        gain = float(ours.median[k - 1] - theirs.median[k - 1])
        gains.append(f"{points(gain, signed=True)} with {k}")
    return f"{', '.join(outcomes)} draws of each; the medians differ by {listed(gains)}"
