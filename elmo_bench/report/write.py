"""Reports as text: one or two tables each for the terminal, Markdown and LaTeX, one record a cell
for CSV and JSON.
"""

import csv
import io
import json
from collections.abc import Sequence
from typing import Any, Literal

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from . import escape
from .grid import Grid
from .table import Cell, Key, Report, base_row, order

LEVEL = 0.05
ABOUT = (
    "Interval and p: of new examples and new seeds together (Obuchowski and Rockette 1995; Hillis "
    "2007); p (Holm): corrected for all comparisons of its table, * below 0.05. The interval is "
    "not corrected."
)


def grids(report: Report) -> list[Grid]:
    """Means side by side and, where there is a baseline, each cell with its comparison."""
    return [overview(report), *([details(report)] if report.baseline is not None else [])]


def overview(report: Report) -> Grid:
    """Percent: mean ± standard deviation over seeds (runs), a row's best bold."""
    keys = list(dict.fromkeys(cell.row for cell in report.cells))
    columns = heads(report)
    rows, bold = [[*row, *([""] * len(columns))] for row in keys], set()
    for cell in report.cells:
        row, column = keys.index(cell.row), len(report.rows) + columns.index(cell.column)
        rows[row][column] = score(cell)
        bold |= {(row, column)} if cell.best else set()
    figure = report.metric or "figure that each task monitors"
    title = f"{report.split} {figure}, percent: mean ± standard deviation (runs)"
    title = f"{report.title}; {title}" if report.title else title
    names = [settings(report.columns, column) for column in columns]
    return Grid(title, [*map(short, report.rows), *names], rows, bold, len(report.rows))


def heads(report: Report) -> list[Key]:
    """The columns in their order, the baseline first."""
    return sorted(
        {cell.column for cell in report.cells},
        key=lambda column: (column != report.baseline, order(column)),
    )


def details(report: Report) -> Grid:
    """A row for each cell: its mean, its difference to the baseline, what the paper has."""
    keys = [*report.rows, *report.columns]
    heads = [
        *map(short, keys),
        "mean",
        "diff.",
        "95 % interval",
        "p (Holm)",
        "errors less",
        "paper",
        "paper's errors less",
    ]
    bases = {cell.row: cell.published for cell in report.cells if cell.column == report.baseline}
    rows = []
    for cell in report.cells:
        serving = base_row(bases, cell.row, report.rows) if cell.comparison else None
        base = None if serving is None else bases[serving]
        gone = (
            None if base is None or cell.published is None else (cell.published - base) / (1 - base)
        )
        rows.append(
            [
                *cell.row,
                *cell.column,
                score(cell),
                *comparison(cell),
                percent(cell.published),
                percent(gone),
            ]
        )
    bold = {(number, len(keys)) for number, cell in enumerate(report.cells) if cell.best}
    return Grid(
        "cell by cell, percent; paper: its published figures, on its own data",
        heads,
        rows,
        bold,
        len(keys),
    )


def short(key: str) -> str:
    return key.removesuffix(".name")


def settings(keys: Sequence[str], values: Sequence[str]) -> str:
    """As on the command line: `encoder=mini elmo.mix=all`."""
    return " ".join(f"{short(key)}={value}" for key, value in zip(keys, values, strict=True))


def score(cell: Cell) -> str:
    spread = "" if cell.deviation is None else f" ± {100 * cell.deviation:.2f}"
    return f"{100 * cell.mean:.2f}{spread} ({len(cell.runs)})"


def comparison(cell: Cell) -> list[str]:
    """Difference, interval, corrected p, error reduction."""
    compared = cell.comparison
    if compared is None:
        return [""] * 4
    interval = ""
    if compared.test is not None:
        interval = "{:+.2f} to {:+.2f}".format(*(100 * end for end in compared.test.interval))
    star = "*" if compared.p_holm is not None and compared.p_holm < LEVEL else ""
    return [
        f"{100 * compared.difference:+.2f}",
        interval,
        p_value(compared.p_holm) + star,
        percent(compared.error_reduction),
    ]


def percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.2f}"


def p_value(p: float | None) -> str:
    return "" if p is None else "<0.001" if p < 0.001 else f"{p:.3f}"


def terminal(grid: Grid) -> Table:
    """For rich's console; a column is as wide as its longest word."""
    title = Text(escape.plain(grid.title), style="table.title", justify="center")
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for number, texts in enumerate(zip(grid.heads, *grid.rows, strict=True)):
        width = max(len(word) for text in texts for word in escape.plain(text).split() or [""])
        justify: Literal["left", "right"] = "left" if number < grid.left else "right"
        table.add_column(Text(escape.plain(texts[0])), justify=justify, min_width=width)
    for r, row in enumerate(grid.rows):
        styles = ("bold" if (r, c) in grid.bold else "" for c in range(len(row)))
        table.add_row(
            *(Text(escape.plain(text), style) for text, style in zip(row, styles, strict=True))
        )
    return table


def markdown(reports: Sequence[Report]) -> str:
    """GitHub's tables."""
    parts = []
    for grid in (grid for report in reports for grid in grids(report)):
        heads, *rows = ([escape.markdown(text) for text in row] for row in (grid.heads, *grid.rows))
        shown = [
            [f"**{text}**" if (r, c) in grid.bold else text for c, text in enumerate(row)]
            for r, row in enumerate(rows)
        ]
        rule = ["---"] * grid.left + ["--:"] * (len(heads) - grid.left)
        lines = (f"| {' | '.join(row)} |" for row in (heads, rule, *shown))
        parts.append("\n".join([f"{escape.markdown(grid.title)}\n", *lines]))
    return "\n\n".join([*parts, *map(escape.markdown, footnotes(reports))]) + "\n"


def latex(reports: Sequence[Report]) -> str:
    r"""Tables with the rules of booktabs: the document says \usepackage{booktabs}."""
    parts = []
    for grid in (grid for report in reports for grid in grids(report)):
        kinds = "l" * grid.left + "r" * (len(grid.heads) - grid.left)
        lines = [f"% {escape.plain(grid.title)}", rf"\begin{{tabular}}{{{kinds}}}", r"\toprule"]
        lines += [" & ".join(map(_tex, grid.heads)) + r" \\", r"\midrule"]
        for r, row in enumerate(grid.rows):
            cells = (
                rf"\textbf{{{_tex(text)}}}" if (r, c) in grid.bold else _tex(text)
                for c, text in enumerate(row)
            )
            lines.append(" & ".join(cells) + r" \\")
        parts.append("\n".join([*lines, r"\bottomrule", r"\end{tabular}"]))
    return "\n\n".join([*parts, *(f"% {escape.plain(line)}" for line in footnotes(reports))]) + "\n"


def _tex(text: str) -> str:
    # Or the \\ or rule above takes it for its own argument.
    start = "{}" if text.startswith(("[", "*")) else ""
    return start + escape.latex(text)


def footnotes(reports: Sequence[Report]) -> list[str]:
    """How differences were tested, and why some were not."""
    tested = any(report.baseline is not None for report in reports)
    return [*([ABOUT] if tested else []), *(note for report in reports for note in report.notes)]


def records(report: Report) -> list[dict[str, Any]]:
    """A flat record for each cell; figures are fractions of 1."""
    cells = []
    for cell in report.cells:
        keys = dict(zip([*report.rows, *report.columns], [*cell.row, *cell.column], strict=True))
        compared = cell.comparison._asdict() if cell.comparison else {}
        test = compared.pop("test", None)
        low, high = test.interval if test else (None, None)
        compared |= {"p": test.p if test else None}
        cells.append(
            ({"table": report.title} if report.title else {})
            | keys
            | {
                "mean": cell.mean,
                "deviation": cell.deviation,
                "runs": len(cell.runs),
                "best": cell.best,
            }
            | (compared | {"low": low, "high": high} if cell.comparison else {})
            | {"published": cell.published, "baseline": cell.column == report.baseline}
        )
    return cells


def as_json(reports: Sequence[Report]) -> str:
    """What was asked, and the records; of reports with titles, an object of these."""
    content = {
        report.title: {
            "split": report.split,
            "metric": report.metric,
            "rows": report.rows,
            "columns": report.columns,
            "baseline": report.baseline,
            "cells": records(report),
            "notes": report.notes,
        }
        for report in reports
    }
    return json.dumps(content.get("", content), indent=2) + "\n"


def as_csv(reports: Sequence[Report]) -> str:
    """The records, all with all columns."""
    rows: Sequence[dict[str, Any]] = [
        {
            escape.csv(key): escape.csv(value) if isinstance(value, str) else value
            for key, value in row.items()
        }
        for report in reports
        for row in records(report)
    ]
    file = io.StringIO()
    writer = csv.DictWriter(
        file, list(dict.fromkeys(key for row in rows for key in row)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()
