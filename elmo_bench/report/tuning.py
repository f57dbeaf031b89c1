"""What `sweep=tune` has drawn: the draws of each side, their tuning curves, and notes on sides that
were not tuned alike.

Axes: N draws of a side.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from elmo_bench.runs import F1, Key, Run, distinguishing, text, values
from elmo_bench.terminal import counted_noun, duration, listed

from .comparison import examples_of, figure_of
from .names import axis, points, value
from .table import Report, total_time
from .tabulate import grouped, measured_on
from .tuning_curve import TOP, Curve, budgets, curve


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
                setting = (cells[column].row, column)  # in another row for a lent baseline
                if setting in draws:
                    tuned[column] = side(draws[setting])
        if report.baseline in tuned and len(tuned) > 1:
            by_row[row] = tuned
    return by_row


def side(draws: Sequence[Run]) -> Side:
    """Return a side; raises ValueError for a draw with only other scores on dev."""
    ordered = sorted(draws, key=lambda draw: draw.trial or 0)
    measured = {draw: figure_of(draw, None, "dev") for draw in measured_on(ordered, "dev")}
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
    shown: set[Path] = set()  # folders of draws: two rows may have one baseline
    for row, tuned in sides(report).items():
        names: dict[Key, str] = {}
        sizes: set[int] = set()
        phrases: list[str] = []
        for column, side in tuned.items():
            names[column] = report.name_of(row + column)
            sizes.add(len(side.draws))
            phrases.append(f"{names[column]} {counted_noun(len(side.draws), 'draw')}")
            shown.update(draw.folder for draw in side.draws)
        if len(sizes) > 1:
            yield f"unequal budgets: {listed(phrases)}"
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


def lines(side: Side, most: int) -> dict[str, str]:
    """Return what a side has drawn, its best settings, and the curve, up to so many draws."""
    number = len(side.draws)
    failed = number - len(measured_on(side.draws, "dev"))
    time = duration(total_time(side.draws))
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
