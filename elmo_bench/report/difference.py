"""Comparison of two runs, A and B: settings, scores, and the examples on which they differ.

Axes: N examples, S scores.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.text import Text

from elmo_bench.runs import F1, NOTHING, Run, distinguishing, figure, short, text, values
from elmo_bench.runs.read import INPUTS
from elmo_bench.terminal import counted_noun, plain

from .names import metric_title, name, points, task_titles
from .writers import Grid, Terminal

SIDES = ("A", "B")
LONGEST = 300  # characters; longer texts are cut, unless all rows are asked for
SETTINGS = (
    f"{NOTHING}: not there, or without effect in this run. inputs.*: the hash of a file that the "
    "run read. Settings without effect on scores are left out."
)
EXAMPLES = (
    "An example's words, with | between its sentences; what is right (gold) and what each run "
    "says, first what not all three have; and how well each run does on it, percent."
)


class Difference(NamedTuple):
    """The two runs with the scores and texts of their examples."""

    runs: tuple[Run, Run]
    split: str
    metric: str
    scores: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]  # of each run, fractions of 1
    texts: Sequence[Sequence[str]]  # where an example stands, its words, gold, what each run says
    note: str = ""  # why `texts` is empty

    @property
    def title(self) -> str:
        """The task and the corpus."""
        run = self.runs[0]
        corpus = run.settings.get("data.name", "a corpus")
        return f"{task_titles([run])[run.task]} on {corpus}: where two runs differ"


def scores(rows: Float[np.ndarray, "N S M"]) -> Float[np.ndarray, " N"]:
    """Return the figure of each example: the mean over its scores of F1, which is 1 where there is
    nothing to find and nothing is predicted.

    A correlation is of all examples, so each has 1 less the distance of what is predicted from what
    is right, as a share of the range of what is right: 0 for a wrong label.

    >>> scores(np.array([[[0.0, 0, 0, 0]], [[0, 0, 0, 2]], [[1, 2, 1, 1]]])).round(2).tolist()
    [1.0, 0.0, 0.67]
    >>> scores(np.array([[[1.0, 5, 4, 25, 16, 20]], [[1, 1, 1, 1, 1, 1]]])).tolist()
    [0.75, 1.0]
    """
    if rows.shape[-1] != F1:
        gold = rows[..., 1::6]
        predicted = rows[..., 2::6]
        ranges = np.ptp(gold, axis=0)
        distances = abs(predicted - gold) / np.where(ranges > 0, ranges, 1)
        return np.asarray(1 - distances.max(-1).mean(-1))
    is_counted = rows[..., 1::2].any(-1)
    return np.asarray(np.where(is_counted, figure(rows[..., None, :]), 1.0).mean(-1))


def lines(difference: Difference) -> list[str]:
    """Return lines that name the runs and count the examples each is better on, and the note."""
    runs = difference.runs
    a, b = difference.scores
    keys = distinguishing(runs, ["task.name", "data.name"])
    shown = [key for key in keys if not key.startswith(INPUTS)]
    shown.append("seed")
    told: list[str] = []
    for side, run in zip(SIDES, runs, strict=True):
        told.append(f"{side}: {name(shown, values(run, shown))} ({short(run.folder)})")
    told.append(
        f"A better: {np.sum(a > b):,}, B better: {np.sum(b > a):,}, equal: {np.sum(a == b):,} "
        f"(both without an error: {np.sum((a == 1) & (b == 1)):,}); of {a.size:,} "
        f"{difference.split} examples, by the {metric_title(runs[0], difference.metric)} of each"
    )
    if difference.note:
        told.append(difference.note)
    return told


def settings(runs: tuple[Run, Run]) -> Grid:
    """Return a table of the settings that differ and change figures, and of differing code."""
    a, b = runs
    keys = distinguishing(runs, [])
    keys.append("seed")
    keys += sorted(a.acting | b.acting)
    rows: list[list[str]] = []
    for key in dict.fromkeys(keys):
        rows.append([key, text(values(a, [key])[0]), text(values(b, [key])[0])])
    code_of_a = _code(a)
    code_of_b = _code(b)
    for key in code_of_a | code_of_b:
        rows.append([key, code_of_a.get(key) or NOTHING, code_of_b.get(key) or NOTHING])
    differing = [row for row in rows if row[1] != row[2]]
    return Grid("Settings that differ", ["setting", *SIDES], differing, 3, SETTINGS)


def _code(run: Run) -> dict[str, str | None]:
    return {"commit": run.commit, "device": run.device} | run.versions


def figures(difference: Difference) -> Grid:
    """Return a table of both runs' figures on the split: over all labels, then of each label."""
    a, b = difference.runs
    prefix = f"{difference.split}/"
    keys = [key for key in a.metrics if key in b.metrics and key.startswith(prefix)]
    rows: list[list[str]] = []
    for key in sorted(keys, key=lambda key: key.count("/") > 1):
        of_a = a.metrics[key]
        of_b = b.metrics[key]
        rows.append([key, points(of_a), points(of_b), points(of_b - of_a, signed=True)])
    return Grid("Scores, percent", ["score", *SIDES, "B − A"], rows, 1)


def examples(difference: Difference) -> Grid:
    """Return a table of the examples on which the two differ, largest difference first."""
    a, b = difference.scores
    texts = difference.texts
    rows: list[list[str]] = []
    for number in map(int, np.argsort(-abs(a - b), kind="stable")):
        if a[number] != b[number]:
            row = list(texts[number]) if texts else [f"{number + 1:,}"]
            row += [points(a[number]), points(b[number])]
            rows.append(row)
    if texts:
        heads = ["example", "words", "gold", "A says", "B says"]
        caption = EXAMPLES
    else:
        heads = ["example"]
        caption = "The number of an example, in the corpus's order."
    title = f"{counted_noun(len(rows), 'example')} on which A and B differ"
    return Grid(title, heads + list(SIDES), rows, len(heads), caption)


def show(console: Console, difference: Difference, limit: int | None = None) -> None:
    """Print tables of differing settings, of figures, and of differing examples, if not empty; with
    `limit` each has so many rows, and long texts are cut.
    """
    for line in (difference.title, *lines(difference), ""):
        console.print(Text(plain(line)), soft_wrap=True)  # paths stay whole
    for grid in (settings(difference.runs), figures(difference), examples(difference)):
        if limit is not None and limit < len(grid.rows):
            console.print(Terminal(_beginning(grid, limit)))
        elif grid.rows:
            console.print(Terminal(grid))


def _beginning(grid: Grid, limit: int) -> Grid:
    """Return the first rows of a table, with long texts cut."""
    rows = [list(map(_cut, row)) for row in grid.rows[:limit]]
    return grid._replace(title=f"{grid.title}: the first {limit:,}", rows=rows)


def _cut(cell: str) -> str:
    return cell if len(cell) <= LONGEST else f"{cell[:LONGEST].rstrip()} …"
