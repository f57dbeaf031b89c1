"""Comparison of two runs, A and B: settings, figures, and the examples on which they differ.

Axes: N examples, S scores.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.text import Text

from elmo_bench.files import counted_noun, plain
from elmo_bench.runs import Run, distinguishing, portable, short, text, values

from . import escape
from .grid import Grid
from .grids import points
from .names import metric_title, name, task_titles
from .page import html
from .writers import Terminal, html_table, markdown_table

SIDES = ("A", "B")
ABSENT, NOTHING, UNKNOWN = "-", "nothing", "?"  # no such setting; no label; no prediction
GENERATOR = "elmo-bench diff"  # job=diff overwrites only files with this mark
ABOUT = ": where two runs differ"  # ends a title
LONG = 300  # characters; the terminal cuts longer sentences and lists of labels
HEADS = ("example", "words", "gold", "A says", "B says", *SIDES)


class ExampleText(NamedTuple):
    """The text of an example: its sentences, and gold and predicted labels as texts.

    `a` and `b` are None if the run's prediction is missing.
    """

    source: str  # file and position
    sentences: list[str]
    gold: list[str]
    a: list[str] | None
    b: list[str] | None


class Difference(NamedTuple):
    """The two runs with the scores and texts of their examples.

    `scores` has each run's score of each example, in fractions of 1. `texts` covers all examples or
    is empty. `notes` lists missing information.
    """

    runs: tuple[Run, Run]
    split: str
    metric: str
    scores: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]
    texts: Sequence[ExampleText]
    notes: Sequence[str]

    @property
    def is_right_or_wrong(self) -> bool:
        """Whether every score is 0 or 1."""
        return all(bool(np.isin(scores, (0.0, 1.0)).all()) for scores in self.scores)

    @property
    def examples(self) -> list[int]:
        """The numbers, from 0, of the examples whose scores differ, largest difference first."""
        change = abs(self.scores[0] - self.scores[1])
        order = np.argsort(-change, kind="stable")
        return [int(number) for number in order if change[number] > 0]


def scores(rows: Float[np.ndarray, "N S 4"]) -> Float[np.ndarray, " N"]:
    """Return the figure of each example: the mean over its scores of F1.

    Recall is 1 if there is nothing to find, precision is 1 if nothing is predicted. The last axis
    of `rows` holds numerator and denominator of recall, then of precision.

    >>> scores(np.array([[[0.0, 0, 0, 0]], [[0, 0, 0, 2]], [[1, 2, 1, 1]]])).round(2).tolist()
    [1.0, 0.0, 0.67]
    """
    numerators, denominators = rows[..., ::2], rows[..., 1::2]
    ratios = np.divide(
        numerators, denominators, out=np.ones_like(numerators), where=denominators > 0
    )
    both = ratios.sum(-1)
    harmonic = np.divide(2 * ratios.prod(-1), both, out=np.zeros_like(both), where=both > 0)
    return np.asarray(harmonic.mean(-1))


def shared(difference: Difference) -> Difference:
    """Remove this machine's folders from the texts, for files that may be shared."""
    a, b = (replace(run, settings=portable(run.settings)) for run in difference.runs)
    return difference._replace(runs=(a, b), notes=portable([*difference.notes]))


def lines(difference: Difference) -> list[str]:
    """Return lines that name the runs, count the examples each is better on, and list notes."""
    runs = difference.runs
    keys = [*distinguishing(runs, ["task.name", "data.name"]), "seed"]
    shown = [key for key in keys if not key.startswith("inputs.")]
    about = [
        f"{side}: {name(shown, values(run, shown))} ({short(run.folder)})"
        for side, run in zip(SIDES, runs, strict=True)
    ]
    return [*about, _summary(difference), *difference.notes]


def title(difference: Difference) -> str:
    """Return a title with the task and corpus."""
    run = difference.runs[0]
    task = task_titles([run])[run.task]
    return f"{task} on {run.settings.get('data.name', 'a corpus')}{ABOUT}"


def _summary(difference: Difference) -> str:
    a, b = difference.scores
    better = [int(np.count_nonzero(is_better)) for is_better in (a > b, b > a)]
    right = int(np.count_nonzero((a == 1) & (b == 1)))
    equal, total = a.size - sum(better), f"{a.size:,} {difference.split} examples"
    if difference.is_right_or_wrong:
        return (
            f"A alone right: {better[0]:,}, B alone right: {better[1]:,}, both: {right:,}, "
            f"neither: {equal - right:,}; of {total}"
        )
    figure = metric_title(difference.runs[0], difference.metric)
    return (
        f"A better: {better[0]:,}, B better: {better[1]:,}, equal: {equal:,} (both without an "
        f"error: {right:,}); of {total}, by the {figure} of each"
    )


def tables(difference: Difference, limit: int | None = None) -> list[Grid]:
    """Return tables of differing settings, of figures, and of differing examples, if not empty.

    `limit` caps the number of examples and of figures by label.
    """
    parts = settings(difference), figures(difference, limit), examples(difference, limit)
    return [grid for grid in parts if grid.rows]


def settings(difference: Difference) -> Grid:
    """Return a table of the settings that differ; settings that change figures come first."""
    rows = [[key, *texts, acts] for key, texts, acts in _settings(difference.runs)]
    return Grid(
        "Settings that differ",
        ["setting", *SIDES, "changes figures"],
        rows,
        set(),
        4,
        caption=f"{ABSENT}: not there, or without effect in this run. inputs.*: the hash of a file "
        "that the run read.",
    )


def _settings(runs: tuple[Run, Run]) -> Iterator[tuple[str, list[str], str]]:
    """Yield each differing key, both values, and whether it changes figures: yes, maybe or no.

    "maybe" marks different versions of code and another device.
    """
    keys = dict.fromkeys([*distinguishing(runs, []), "seed"])
    keys |= dict.fromkeys(sorted({key for run in runs for key in run.settings}))
    differing = [key for key in keys if len({run.settings.get(key) for run in runs}) > 1]
    acting = runs[0].acting | runs[1].acting
    for key in filter(acting.__contains__, differing):
        yield key, [text(values(run, [key])[0]) for run in runs], "yes"
    code = [
        {"commit": run.commit, "device": run.device}
        | {f"versions.{package}": version for package, version in run.versions.items()}
        for run in runs
    ]
    for key in dict.fromkeys(key for versions in code for key in versions):
        texts = [str(versions.get(key) or ABSENT) for versions in code]
        if len({*texts}) > 1:
            yield key, texts, "maybe"
    for key in differing:
        if key not in acting:
            yield key, [text(run.settings.get(key, ABSENT)) for run in runs], "no"


def figures(difference: Difference, limit: int | None = None) -> Grid:
    """Return a table of both runs' figures: of the split before others, over all labels before
    those of single labels. With `limit` it has so many of single labels.
    """
    ours, theirs = (run.metrics for run in difference.runs)
    split = f"{difference.split}/"
    keys = dict.fromkeys([f"{split}{difference.metric}", *ours, *theirs])
    whole = [key for key in keys if key.count("/") == 1]
    of_labels = [key for key in keys if key.count("/") > 1]
    shown = [*sorted(whole, key=lambda key: not key.startswith(split))]
    shown += sorted(of_labels, key=lambda key: not key.startswith(split))[:limit]
    rows = []
    for key in shown:
        a, b = ours.get(key), theirs.get(key)
        change = None if a is None or b is None else b - a
        rows.append([key, points(a), points(b), points(change, signed=True)])
    missing = len(keys) - len(rows)
    caption = f"{missing:,} more figures of single labels are not shown." if missing else ""
    return Grid("Figures, percent", ["figure", *SIDES, "B − A"], rows, set(), 1, {}, caption)


def examples(difference: Difference, limit: int | None = None) -> Grid:
    """Return a table of the examples on which the two differ, largest difference first.

    With `limit` it has so many of them, and long texts are cut.
    """
    numbers = difference.examples
    count = f"{counted_noun(len(numbers), 'example')} on which A and B differ"
    few = limit is not None and limit < len(numbers)
    return Grid(
        f"The first {limit:,} of {count}" if few else count,
        [*(HEADS if difference.texts else ("example", *SIDES))],
        [_row(difference, number, limit and LONG) for number in numbers[:limit]],
        set(),
        5 if difference.texts else 1,
        caption=CAPTION if difference.texts else "The number of an example, in the corpus's order.",
    )


CAPTION = (
    "An example's words, with | between its sentences; what is right (gold) and what each run "
    "says, first what not all three have; and how well each run does on it."
)


def _row(difference: Difference, number: int, long: int | None) -> list[str]:
    """Return the cells of an example, in the order of `HEADS`; `long` caps texts, in characters."""
    scores = [float(scores[number]) for scores in difference.scores]
    if difference.is_right_or_wrong:
        figures = ["right" if score else "wrong" for score in scores]
    else:
        figures = [points(score) for score in scores]
    if not difference.texts:
        return [f"{number + 1:,}", *figures]
    example = difference.texts[number]
    answers = (example.gold, example.a, example.b)
    shared = set.intersection(*(set(labels) for labels in answers if labels is not None))
    cells = [example.source, " | ".join(_cut(sentence, long) for sentence in example.sentences)]
    for labels in answers:
        ordered = "; ".join(sorted(labels or (), key=shared.__contains__))
        cells.append(UNKNOWN if labels is None else _cut(ordered, long) or NOTHING)
    return [*cells, *figures]


def _cut(text: str, long: int | None) -> str:
    return text if long is None or len(text) <= long else f"{text[:long].rstrip()} …"


def show(console: Console, difference: Difference, limit: int | None = None) -> None:
    """Print all tables; `limit` caps the number of examples and of figures by label."""
    for line in (title(difference), *lines(difference), ""):
        console.print(Text(plain(line)), soft_wrap=True)  # paths stay whole
    for grid in tables(difference, limit):
        console.print(Terminal(grid))


def as_markdown(difference: Difference) -> str:
    """Return the tables as GitHub Markdown."""
    about = [f"# {escape.markdown(title(difference))}"]
    about += ["\n".join(f"- {escape.markdown(line)}" for line in lines(difference))]
    return "\n\n".join([*about, *map(markdown_table, tables(difference))]) + "\n"


def as_page(difference: Difference) -> str:
    """Return the tables as one self-contained HTML page."""
    about = "".join(f'<p class="lead">{escape.xml(line)}</p>' for line in lines(difference))
    body = "".join(map(html_table, tables(difference)))
    return html(GENERATOR, "Two runs of elmo-bench", title(difference), about, body)


def as_json(difference: Difference) -> str:
    """Return everything as JSON; figures are fractions of 1, examples are counted from 1."""
    a, b = difference.scores
    content = {
        "generator": GENERATOR,
        "a": short(difference.runs[0].folder),
        "b": short(difference.runs[1].folder),
        "split": difference.split,
        "metric": difference.metric,
        "notes": list(difference.notes),
        "settings": [
            {"key": key, "a": ours, "b": theirs, "changes_figures": acts}
            for key, (ours, theirs), acts in _settings(difference.runs)
        ],
        "metrics": {side: run.metrics for side, run in zip("ab", difference.runs, strict=True)},
        "examples": a.size,
        "a_better": int(np.count_nonzero(a > b)),
        "b_better": int(np.count_nonzero(b > a)),
        "both_right": int(np.count_nonzero((a == 1) & (b == 1))),
        "differing": [
            {"example": number + 1, "a_score": float(a[number]), "b_score": float(b[number])}
            | (difference.texts[number]._asdict() if difference.texts else {})
            for number in difference.examples
        ],
    }
    return json.dumps(content, indent=2) + "\n"
