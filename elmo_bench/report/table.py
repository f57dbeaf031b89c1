"""Runs side by side: rows and columns by config keys, mean and standard deviation over the runs of a cell."""

import statistics
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from rich.table import Table

from .collect import Run, choice

Key = tuple[str, ...]


class Cell(NamedTuple):
    """The figures of the runs that agree on row and column; fractions of 1. `deviation` is None for a single run."""

    mean: float
    deviation: float | None
    count: int

    def __str__(self) -> str:
        spread = "" if self.deviation is None else f" ± {100 * self.deviation:.2f}"
        return f"{100 * self.mean:.2f}{spread} ({self.count})"


def cells(
    runs: Sequence[Run], rows: Sequence[str], columns: Sequence[str], metric: str | None
) -> dict[Key, dict[Key, Cell]]:
    """Row values -> column values -> cell; `metric` None is what each run's task monitors."""
    groups: dict[Key, dict[Key, dict[str, float]]] = defaultdict(lambda: defaultdict(dict))
    for run in runs:
        name = f"test/{metric or run['config']['task']['monitor']}"
        if name not in run["metrics"]:
            raise ValueError(f"metric={metric}: a run of {run['task']} has {sorted(run['metrics'])}")
        row, column = (tuple(choice(run, key) for key in keys) for keys in (rows, columns))
        # The same run twice (same seed, same cell) counts once: the later one.
        groups[row][column][str(run["seed"])] = run["metrics"][name]
    return {
        row: {column: _cell(list(values.values())) for column, values in group.items()} for row, group in groups.items()
    }


def _cell(values: list[float]) -> Cell:
    deviation = statistics.stdev(values) if len(values) > 1 else None
    return Cell(statistics.fmean(values), deviation, len(values))


def table(runs: Sequence[Run], rows: Sequence[str], columns: Sequence[str], metric: str | None = None) -> Table:
    """A terminal table: percent, mean ± standard deviation over seeds, (number of runs); a row's best is bold."""
    body = cells(runs, rows, columns, metric)
    heads = list(dict.fromkeys(column for row in body.values() for column in row))
    shown = Table(title=f"test {metric or 'figure that the task monitors'}, percent: mean ± deviation (runs)")
    for key in rows:
        shown.add_column(key)
    for head in heads:
        shown.add_column(", ".join(f"{key}={value}" for key, value in zip(columns, head, strict=True)), justify="right")
    for row, group in sorted(body.items()):
        best = max(cell.mean for cell in group.values())
        texts = []
        for head in heads:
            cell = group.get(head)
            texts.append("" if cell is None else f"[bold]{cell}[/bold]" if cell.mean == best and len(group) > 1 else str(cell))
        shown.add_row(*row, *texts)
    return shown
