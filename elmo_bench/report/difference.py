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
from elmo_bench.terminal import counted_noun, plain

from .names import metric_title, name, points, task_titles
from .writers import Grid, Terminal

SIDES = ("A", "B")
LONG = 300  # characters; longer texts are cut, unless all rows are asked for
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
        gold, predicted = rows[..., 1::6], rows[..., 2::6]
        distances = abs(predicted - gold) / np.where((wide := np.ptp(gold, axis=0)) > 0, wide, 1)
        return np.asarray(1 - distances.max(-1).mean(-1))
    is_counted = rows[..., 1::2].any(-1)
    return np.asarray(np.where(is_counted, figure(rows[..., None, :]), 1.0).mean(-1))


def lines(difference: Difference) -> list[str]:
    """Return lines that name the runs and count the examples each is better on, and the note."""
    runs, (a, b) = difference.runs, difference.scores
    keys = [*distinguishing(runs, ["task.name", "data.name"]), "seed"]
    shown = [key for key in keys if not key.startswith("inputs.")]
    about = [
        f"{side}: {name(shown, values(run, shown))} ({short(run.folder)})"
        for side, run in zip(SIDES, runs, strict=True)
    ]
    summary = (
        f"A better: {np.sum(a > b):,}, B better: {np.sum(b > a):,}, equal: {np.sum(a == b):,} "
        f"(both without an error: {np.sum((a == 1) & (b == 1)):,}); of {a.size:,} "
        f"{difference.split} examples, by the {metric_title(runs[0], difference.metric)} of each"
    )
    return [*about, summary, *filter(None, [difference.note])]


def settings(runs: tuple[Run, Run]) -> Grid:
    """Return a table of the settings that differ and change figures, and of differing code."""
    keys = [*distinguishing(runs, []), "seed", *sorted(runs[0].acting | runs[1].acting)]
    rows = [[key, *(text(values(run, [key])[0]) for run in runs)] for key in dict.fromkeys(keys)]
    code = [{"commit": run.commit, "device": run.device, **run.versions} for run in runs]
    rows += [[key, *(each.get(key) or NOTHING for each in code)] for key in code[0] | code[1]]
    differing = [row for row in rows if row[1] != row[2]]
    return Grid("Settings that differ", ["setting", *SIDES], differing, 3, SETTINGS)


def figures(difference: Difference) -> Grid:
    """Return a table of both runs' figures on the split: over all labels, then of each label."""
    ours, theirs = (run.metrics for run in difference.runs)
    keys = [key for key in ours if key in theirs and key.startswith(f"{difference.split}/")]
    rows = [
        [key, points(ours[key]), points(theirs[key]), points(theirs[key] - ours[key], signed=True)]
        for key in sorted(keys, key=lambda key: key.count("/") > 1)
    ]
    return Grid("Scores, percent", ["score", *SIDES, "B − A"], rows, 1)


def examples(difference: Difference) -> Grid:
    """Return a table of the examples on which the two differ, largest difference first."""
    (a, b), texts = difference.scores, difference.texts
    rows = [
        [*(texts[number] if texts else [f"{number + 1:,}"]), points(a[number]), points(b[number])]
        for number in map(int, np.argsort(-abs(a - b), kind="stable"))
        if a[number] != b[number]
    ]
    about = ["example", *["words", "gold", "A says", "B says"] * bool(texts)]
    title = f"{counted_noun(len(rows), 'example')} on which A and B differ"
    caption = EXAMPLES if texts else "The number of an example, in the corpus's order."
    return Grid(title, [*about, *SIDES], rows, len(about), caption)


def show(console: Console, difference: Difference, limit: int | None = None) -> None:
    """Print tables of differing settings, of figures, and of differing examples, if not empty; with
    `limit` each has so many rows, and long texts are cut.
    """
    for line in (difference.title, *lines(difference), ""):
        console.print(Text(plain(line)), soft_wrap=True)  # paths stay whole
    tables = settings(difference.runs), figures(difference), examples(difference)
    for grid in (table for table in tables if table.rows):
        if limit is not None and limit < len(grid.rows):
            rows = [
                [text if len(text) <= LONG else f"{text[:LONG].rstrip()} …" for text in row]
                for row in grid.rows[:limit]
            ]
            grid = grid._replace(title=f"{grid.title}: the first {limit:,}", rows=rows)
        console.print(Terminal(grid))
