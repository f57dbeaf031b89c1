"""Two runs beside each other, A and B: settings, figures, and the examples on which they differ.

Axes: N examples, S scores.
"""

import csv
import io
import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from rich.console import Console
from rich.table import Table
from rich.text import Text

from elmo_bench.runs import Run, choice, distinguishing, portable, short

from . import escape
from .grid import Grid
from .grids import points
from .markup import table
from .names import metric_title, name, task_titles
from .page import html
from .table import SPLITS
from .terminal import terminal
from .write import markdown_table

SIDES = ("A", "B")
ABSENT, NOTHING, UNKNOWN = "-", "nothing", "?"  # no such setting; no label; no prediction
GENERATOR = "elmo-bench diff"  # the mark by which job=diff knows its own files
ABOUT = ": where two runs differ"  # ends a title
LONG = 300  # characters of a sentence, or of an example's labels: the terminal has no more
WIDE = 160  # characters of a line in a text file
HEADS = ("example", "words", "gold", "A says", "B says", *SIDES)


class ExampleText(NamedTuple):
    """An example as words: its sentences, what is right and what the two runs say, a text for each
    label; None where a run's prediction is not there.
    """

    source: str  # its place in the file
    sentences: list[str]
    gold: list[str]
    a: list[str] | None
    b: list[str] | None


class Difference(NamedTuple):
    """`scores` are those of each example by itself, fractions of 1; `texts` are of all examples, or
    there are none; `notes` say what is missing.
    """

    runs: tuple[Run, Run]
    split: str
    metric: str
    scores: tuple[Float[np.ndarray, " N"], Float[np.ndarray, " N"]]
    texts: Sequence[ExampleText]
    notes: Sequence[str]

    @property
    def is_right_or_wrong(self) -> bool:
        """Whether no example has a score between 0 and 1."""
        return all(bool(np.isin(one, (0.0, 1.0)).all()) for one in self.scores)

    @property
    def examples(self) -> list[int]:
        """The numbers, from 0, of the examples whose scores differ: by the most, first."""
        change = abs(self.scores[0] - self.scores[1])
        order = np.argsort(-change, kind="stable")
        return [int(number) for number in order if change[number] > 0]


def scores(rows: Float[np.ndarray, "N S 4"]) -> Float[np.ndarray, " N"]:
    """The figure of each example by itself: the mean over its scores of the harmonic mean of recall
    and precision. Where there is nothing to find, or nothing is predicted, that one is 1.

    >>> scores(np.array([[[0.0, 0, 0, 0]], [[0, 0, 0, 2]], [[1, 2, 1, 1]]])).round(2).tolist()
    [1.0, 0.0, 0.67]
    """
    parts, wholes = rows[..., ::2], rows[..., 1::2]
    ratios = np.divide(parts, wholes, out=np.ones_like(parts), where=wholes > 0)
    both = ratios.sum(-1)
    harmonic = np.divide(2 * ratios.prod(-1), both, out=np.zeros_like(both), where=both > 0)
    return np.asarray(harmonic.mean(-1))


def shared(difference: Difference) -> Difference:
    """As a file shows it, which may be for others: without where things are on this machine."""
    a, b = (run | {"choices": portable(run["choices"])} for run in difference.runs)
    return difference._replace(runs=(a, b), notes=portable([*difference.notes]))


def lines(difference: Difference) -> list[str]:
    """Which runs these are, how many examples each has alone, and what is missing."""
    runs = difference.runs
    keys = [*distinguishing(runs, ["task.name", "data.name"]), "seed"]
    shown = [key for key in keys if not key.startswith("inputs.")]
    about = [
        f"{side}: {name(shown, choice(run, shown))} ({short(run['folder'])})"
        for side, run in zip(SIDES, runs, strict=True)
    ]
    return [*about, _summary(difference), *difference.notes]


def title(difference: Difference) -> str:
    """Of which task and corpus they are."""
    run = difference.runs[0]
    task = task_titles([run])[run["config"]["task"]["name"]]
    return f"{task} on {run['choices'].get('data.name', 'a corpus')}{ABOUT}"


def _summary(difference: Difference) -> str:
    a, b = difference.scores
    better = [int(np.count_nonzero(one)) for one in (a > b, b > a)]
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


def tables(difference: Difference) -> list[Grid]:
    """Settings, figures, all examples on which the two differ, and the figures of labels."""
    parts = [settings(difference), figures(difference), examples(difference), by_label(difference)]
    return [grid for grid in parts if grid.rows]


def settings(difference: Difference) -> Grid:
    """The settings that differ, those first that change figures."""
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
    """Keys and both values, and whether they change figures: yes, maybe (other code), no."""
    keys = dict.fromkeys([*distinguishing(runs, []), "seed"])
    keys |= dict.fromkeys(sorted({key for run in runs for key in run["choices"]}))
    differing = [key for key in keys if len({run["choices"].get(key) for run in runs}) > 1]
    acting = runs[0]["acting"] | runs[1]["acting"]
    for key in filter(acting.__contains__, differing):
        yield key, [choice(run, [key])[0] for run in runs], "yes"
    code = [
        {"commit": run.get("commit"), "device": run.get("device")}
        | {f"versions.{key}": text for key, text in run.get("versions", {}).items()}
        for run in runs
    ]
    for key in dict.fromkeys(key for one in code for key in one):
        texts = [str(one.get(key) or ABSENT) for one in code]
        if len({*texts}) > 1:
            yield key, texts, "maybe"
    for key in differing:
        if key not in acting:
            yield key, [run["choices"].get(key, ABSENT) for run in runs], "no"


def figures(difference: Difference) -> Grid:
    """The figures of both runs over all labels, the one that is compared first."""
    return _figures(difference, "Figures, percent", lambda key: key.count("/") == 1)


def by_label(difference: Difference) -> Grid:
    """Those of single labels, or scores, those of the split first."""
    return _figures(difference, "Figures by label, percent", lambda key: key.count("/") > 1)


def _figures(difference: Difference, title: str, is_shown: Callable[[str], bool]) -> Grid:
    metrics = [run["metrics"] for run in difference.runs]
    split = SPLITS.get(difference.split, difference.split)
    names = dict.fromkeys([f"{split}/{difference.metric}", *metrics[0], *metrics[1]])
    rows = []
    for key in sorted(names, key=lambda key: not key.startswith(f"{split}/")):
        if is_shown(key):
            a, b = (one.get(key) for one in metrics)
            change = None if a is None or b is None else b - a
            rows.append([key, points(a), points(b), points(change, signed=True)])
    return Grid(title, ["figure", *SIDES, "B − A"], rows, set(), 1)


def examples(difference: Difference) -> Grid:
    """All examples on which the two differ, those first on which they differ most."""
    rows = [_row(difference, number) for number in difference.examples]
    heads, left = (HEADS, 5) if difference.texts else (("example", *SIDES), 1)
    return Grid(
        f"{len(rows):,} examples on which A and B differ",
        [*heads],
        rows,
        set(),
        left,
        caption=CAPTION if difference.texts else "The number of an example, in the corpus's order.",
    )


CAPTION = (
    "An example's words, with | between its sentences; what is right (gold) and what each run "
    "says, first what not all three have; and how well each run does on it."
)


def _row(difference: Difference, number: int, long: int | None = None) -> list[str]:
    """An example in the order of `HEADS`, texts cut after so many characters."""
    values = [float(one[number]) for one in difference.scores]
    if difference.is_right_or_wrong:
        figures = ["right" if value else "wrong" for value in values]
    else:
        figures = [points(value) for value in values]
    if not difference.texts:
        return [f"{number + 1:,}", *figures]
    text = difference.texts[number]
    said = [labels for labels in text[2:] if labels is not None]
    shared = set(text.gold).intersection(*said)
    cells = [text.source, " | ".join(_cut(sentence, long) for sentence in text.sentences)]
    for labels in text[2:]:
        ordered = "; ".join(sorted(labels or (), key=shared.__contains__))
        cells.append(UNKNOWN if labels is None else _cut(ordered, long) or NOTHING)
    return [*cells, *figures]


def _cut(text: str, long: int | None) -> str:
    return text if long is None or len(text) <= long else f"{text[:long].rstrip()} …"


def show(console: Console, difference: Difference, limit: int | None = None) -> None:
    """Print all tables; with a limit only so many examples, and figures of labels."""
    for line in (title(difference), *lines(difference)):
        console.print(Text(escape.plain(line)), soft_wrap=True)  # paths stay whole
    console.print()
    console.print(terminal(settings(difference)))
    console.print(terminal(figures(difference)))
    if difference.texts:
        chosen = difference.examples
        shown = f"The first {limit:,}" if limit is not None and limit < len(chosen) else "All"
        console.print(Text(f"{shown} of {len(chosen):,} examples on which A and B differ"))
        for number in islice(chosen, limit):
            console.print(_block(_row(difference, number, None if limit is None else LONG)))
        console.print()
    else:
        console.print(terminal(_first(examples(difference), limit)))
    if (labels := by_label(difference)).rows:
        console.print(terminal(_first(labels, limit)))


def _first(grid: Grid, count: int | None) -> Grid:
    """The first rows; the title says how many there are."""
    if count is None or count >= len(grid.rows):
        return grid
    title = f"{grid.title} (the first {count:,} of {len(grid.rows):,})"
    return grid._replace(title=title, rows=grid.rows[:count])


def _block(row: Sequence[str]) -> Table:
    """An example as lines: a terminal is too narrow for its columns."""
    source, words, *says, a, b = map(escape.plain, row)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("", "")
    table.add_row(Text("words", "bold"), Text(words, "bold"))
    for head, text in zip(HEADS[2:], says, strict=False):
        score = {"A says": f" ({a})", "B says": f" ({b})"}.get(head, "")
        table.add_row(Text(head), Text(f"{text}{score}"))
    table.add_row(Text("where"), Text(source))
    return table


def as_text(difference: Difference) -> str:
    """What the terminal shows, with all examples as they are."""
    console = Console(file=io.StringIO(), width=WIDE, emoji=False, color_system=None)
    with console.capture() as captured:
        show(console, difference)
    return captured.get()


def as_markdown(difference: Difference) -> str:
    """GitHub's tables."""
    about = [f"# {escape.markdown(title(difference))}"]
    about += ["\n".join(f"- {escape.markdown(line)}" for line in lines(difference))]
    return "\n\n".join([*about, *map(markdown_table, tables(difference))]) + "\n"


def as_page(difference: Difference) -> str:
    """A page of HTML that needs nothing else."""
    about = "".join(f'<p class="lead">{escape.xml(line)}</p>' for line in lines(difference))
    body = "".join(f'<div class="prose">{table(grid)}</div>' for grid in tables(difference))
    return html(GENERATOR, "Two runs of elmo-bench", title(difference), about, body)


def as_csv(difference: Difference) -> str:
    """The examples on which the two differ."""
    grid, file = examples(difference), io.StringIO()
    texts = ([escape.csv(text) for text in row] for row in (grid.heads, *grid.rows))
    csv.writer(file, lineterminator="\n").writerows(texts)
    return file.getvalue()


def as_json(difference: Difference) -> str:
    """All of it; figures are fractions of 1, examples are counted from 1."""
    a, b = difference.scores
    content = {
        "generator": GENERATOR,
        "a": short(difference.runs[0]["folder"]),
        "b": short(difference.runs[1]["folder"]),
        "split": difference.split,
        "metric": difference.metric,
        "notes": list(difference.notes),
        "settings": [
            {"key": key, "a": ours, "b": theirs, "changes_figures": acts}
            for key, (ours, theirs), acts in _settings(difference.runs)
        ],
        "metrics": {side: run["metrics"] for side, run in zip("ab", difference.runs, strict=True)},
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
