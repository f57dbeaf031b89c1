"""Runs side by side: rows and columns by config keys, mean and standard deviation over the runs of a cell."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from .collect import Run, choice, distinguishing

Key = tuple[str, ...]


class Cell(NamedTuple):
    """The figures of the runs that agree on row and column; fractions of 1. `deviation` is None for a single run."""

    mean: float
    deviation: float | None
    runs: int

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {100 * self.deviation:.2f}"
        return f"{100 * self.mean:.2f}{spread} ({self.runs})"


def cells(runs: Sequence[Run], rows: Sequence[str], columns: Sequence[str], metric: str | None) -> dict[Key, dict[Key, Cell]]:
    """Row values -> column values -> cell; `metric` None is what each run's task monitors."""
    groups: dict[Key, dict[Key, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        name = f"test/{metric or run['config']['task']['monitor']}"
        if name not in run["metrics"]:
            raise ValueError(f"metric={metric}: a run of {run['task']} has {sorted(run['metrics'])}")
        row, column = choice(run, rows), choice(run, columns)
        # The same experiment twice, with the same seed, counts once: the later one.
        groups[row][column][str(run["seed"])] = run["metrics"][name]
    return {row: {column: _cell(list(values.values())) for column, values in group.items()} for row, group in groups.items()}


def _cell(values: list[float]) -> Cell:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Cell(statistics.fmean(values), deviation, len(values))


def table(runs: Sequence[Run], rows: Sequence[str] | None, columns: Sequence[str], metric: str | None = None) -> Table:
    """A terminal table: percent, mean ± standard deviation over seeds, (number of runs); a row's best is bold.

    Without `rows` there is a row for whatever differs between the runs beside the columns and the seed; with them, runs that
    differ in anything else are an error: their mean would mean nothing.
    """
    rows = distinguishing(runs, columns) if rows is None else rows
    if hidden := [key for key in distinguishing(runs, [*rows, *columns]) if key != "task.name"]:
        raise ValueError(f"rows={list(rows)} columns={list(columns)}: some runs in a cell differ in {hidden}; add it to one")
    body = cells(runs, rows, columns, metric)
    heads = sorted({column for row in body.values() for column in row})
    shown = Table(title=f"test {metric or 'figure that each task monitors'}, percent: mean ± standard deviation (runs)")
    for key in rows:
        shown.add_column(key)
    for head in heads:
        shown.add_column("\n".join(f"{key}={value}" for key, value in zip(columns, head, strict=True)), justify="right")
    for row, group in sorted(body.items()):
        best = max(cell.mean for cell in group.values())
        texts = ["" if head not in group else str(group[head]) for head in heads]
        bold = [len(group) > 1 and head in group and group[head].mean == best for head in heads]
        shown.add_row(*row, *(f"[bold]{text}[/bold]" if b else text for text, b in zip(texts, bold, strict=True)))
    return shown
