"""Write reports as Markdown and LaTeX tables, and as CSV and JSON with one record a cell."""

import csv
import io
import json
import re
import statistics
from collections.abc import Iterable, Sequence
from typing import Any

from elmo_bench.runs import text

from . import escape
from .grid import Grid
from .grids import grids, tables, tests
from .methods import NOWHERE, Origin, checklist, methods, provenance
from .names import metric_title
from .table import Cell, Report

ABOUT = (
    "Interval and p: of the difference on new examples and with new seeds together, from the "
    "variance between runs and what the choice of examples adds (Obuchowski and Rockette 1995; "
    "Hillis 2007); examples that belong together, such as the questions on one article, are drawn "
    "together. p (Holm): corrected for all comparisons of its split (Holm 1979); the interval and "
    "p are not."
)


# Shrinks a table that is wider than the line to its width.
SHRINK = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
LONG = 60  # characters; longer cells are sentences, not figures
WORD = 20  # characters; LaTeX may break longer words
BREAK = "\u200b"  # marks where LaTeX may break a word


def markdown(reports: Sequence[Report], origin: Origin = NOWHERE) -> str:
    """Return the tables as GitHub Markdown, with notes, methods, checklist and provenance."""
    parts = [markdown_table(grid) for report in reports for grid in grids(report)]
    parts += map(escape.markdown, footnotes(reports))
    parts += ["## Methods", escape.markdown(methods(reports, origin))]
    parts += [markdown_table(ask(reports, origin)) for ask in (checklist, provenance)]
    return "\n\n".join(parts) + "\n"


def block(grids: Iterable[Grid], notes: Iterable[str]) -> str:
    """Return the tables and notes as Markdown, for a block of a hand-written file."""
    shown = dict.fromkeys(map(escape.markdown, notes))
    return "\n\n".join([*map(markdown_table, grids), *shown])


def markdown_table(grid: Grid) -> str:
    """Return a grid's title, table and caption as Markdown."""
    heads, *rows = ([escape.markdown(text) for text in row] for row in (grid.heads, *grid.rows))
    shown = [
        [f"**{text}**" if (r, c) in grid.bold else text for c, text in enumerate(row)]
        for r, row in enumerate(rows)
    ]
    figures = "---" if _is_prose(grid) else "--:"
    rule = ["---"] * grid.left + [figures] * (len(heads) - grid.left)
    lines = (f"| {' | '.join(row)} |" for row in (heads, rule, *shown))
    caption = f"\n\n{escape.markdown(grid.about)}" if grid.about else ""
    return "\n".join([f"{escape.markdown(grid.title)}\n", *lines]) + caption


def _is_prose(grid: Grid) -> bool:
    """Whether the grid's columns hold sentences instead of figures."""
    return any(len(text) > LONG for row in grid.rows for text in row[grid.left :])


def latex(reports: Sequence[Report], origin: Origin = NOWHERE) -> str:
    r"""Return booktabs tables with captions and labels, methods, checklist and provenance as LaTeX.

    The document needs \usepackage{booktabs,graphicx}.
    """
    parts, labels = [], set()
    for report in reports:
        for kind, grid in tables(report).items():
            label = "-".join(filter(None, (_label(report.title), kind)))
            while label in labels:
                label += "-"
            labels.add(label)
            parts.append(_table(grid, label))
    parts += [f"% {escape.plain(line)}" for line in footnotes(reports)]
    about = methods(reports, origin)
    parts.append(_part("Methods", [r"\begin{sloppypar}", _broken(about), r"\end{sloppypar}"]))
    # Lists, because tables would be higher than a page.
    parts.append(_part("Reproducibility", _items(checklist(reports, origin))))
    parts.append(_part("Provenance", _items(provenance(reports, origin))))
    return "\n\n".join(parts) + "\n"


def _table(grid: Grid, label: str) -> str:
    caption = f"{grid.title}. {grid.about}".strip()
    return "\n".join(
        [
            f"% {escape.plain(grid.title)}",
            r"\begin{table*}",  # over both columns, where a page has two
            r"\centering",
            r"\small",
            rf"\caption{{{escape.latex(caption[:1].upper() + caption[1:])}}}",
            rf"\label{{tab:{label}}}",
            r"\medskip",
            *_figures(grid),
            r"\end{table*}",
        ]
    )


def _part(title: str, lines: Sequence[str]) -> str:
    return "\n".join([rf"\paragraph{{{title}}}", *lines])


def _items(grid: Grid) -> list[str]:
    """Return a grid of two columns as a list, which may span several pages."""
    items = [rf"\item[{{{_tex(term)}}}] {_broken(text)}" for term, text in grid.rows]
    begin = [r"\begin{description}", r"\footnotesize", r"\raggedright"]
    return [*begin, *items, r"\end{description}"]


def _broken(text: str) -> str:
    """Escape a text and allow line breaks inside long words, such as a command's overrides."""
    words = (
        re.sub(r"(?<=[,=.:/-])(?=\w)", BREAK, word) if len(word) > WORD else word
        for word in text.split(" ")
    )
    return escape.latex(" ".join(words)).replace(BREAK, r"\allowbreak{}")


def _figures(grid: Grid) -> list[str]:
    kinds = "l" * grid.left + "r" * (len(grid.heads) - grid.left)
    return [SHRINK, rf"\begin{{tabular}}{{{kinds}}}", *_rows(grid), "}"]


def _rows(grid: Grid) -> list[str]:
    columns = zip(grid.heads, *grid.rows, strict=True)
    heads = (_head(*column, side="l" if c < grid.left else "r") for c, column in enumerate(columns))
    lines = [r"\toprule", " & ".join(heads) + r" \\", r"\midrule"]
    for r, row in enumerate(repeated_left_out(grid)):
        if r and grid.left > 1 and row[0]:
            lines.append(r"\addlinespace")
        cells = (
            rf"\textbf{{{_tex(text)}}}" if (r, c) in grid.bold else _tex(text)
            for c, text in enumerate(row)
        )
        lines.append(" & ".join(cells) + r" \\")
    return [*lines, r"\bottomrule", r"\end{tabular}"]


def _head(head: str, *texts: str, side: str) -> str:
    """Wrap a head to the width of its column's texts, or of its longest word."""
    width = max(map(len, [*texts, *head.split()]), default=0)
    lines: list[str] = []
    for word in head.split(" "):
        if lines and len(lines[-1]) + 1 + len(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines.append(word)
    if len(lines) == 1:
        return _tex(head)
    return rf"\shortstack[{side}]{{{(chr(92) * 2).join(map(_tex, lines))}}}"


def _label(title: str) -> str:
    """Return a title as part of a LaTeX label.

    >>> _label("Table 1: without and with ELMo")
    'table-1-without-and-with-elmo'
    """
    return "-".join(re.findall("[a-z0-9]+", title.lower()))


def _tex(text: str) -> str:
    # Otherwise the \\ or rule before it reads [ or * as its own argument.
    start = "{}" if text.startswith(("[", "*")) else ""
    return start + escape.latex(text)


def repeated_left_out(grid: Grid) -> list[list[str]]:
    """Return the rows without leading names that repeat the row above; the last name is kept."""
    rows = []
    for above, row in zip([None, *grid.rows], grid.rows, strict=False):
        repeated = 0
        while above is not None and repeated < grid.left - 1 and above[repeated] == row[repeated]:
            repeated += 1
        rows.append([*([""] * repeated), *row[repeated:]])
    return rows


def footnotes(reports: Sequence[Report]) -> list[str]:
    """Return notes on how differences were tested, and on missing tests."""
    tested = any(test.p is not None for report in reports for _, test in tests(report))
    notes = dict.fromkeys(note for report in reports for note in report.remarks)
    return [*([ABOUT] if tested else []), *notes]


def records(report: Report) -> list[dict[str, Any]]:
    """Return a flat record for each cell, all with the same keys; figures are fractions of 1."""
    cells = []
    for cell in report.cells:
        values = map(text, [*cell.row, *cell.column])
        keys = dict(zip([*report.rows, *report.columns], values, strict=True))
        cells.append(
            ({"table": report.title} if report.title else {})
            | keys
            | {
                "metric": metric_title(cell.runs[0], report.metric),
                "split": report.split,
                "dev": _dev(cell, report),
                "mean": cell.mean,
                "deviation": cell.deviation,
                "runs": len(cell.runs),
                "best": cell.best,
                "baseline": cell.column == report.baseline,
                "figures": [*cell.figures],
                "seeds": [run.seed for run in cell.runs],
            }
            | (_comparison(cell) if report.baseline is not None else {})
            | {"published": cell.published}
        )
    return cells


def _dev(cell: Cell, report: Report) -> float | None:
    """Return the mean of the runs' figures on dev; None if a run has none."""
    name = f"val/{report.metric or cell.runs[0].config['task']['monitor']}"
    figures = [run.metrics[name] for run in cell.runs if name in run.metrics]
    return statistics.fmean(figures) if len(figures) == len(cell.runs) else None


def _comparison(cell: Cell) -> dict[str, Any]:
    """Return all values of a comparison as a flat record; None for missing values."""
    compared = cell.comparison
    test = compared.test if compared else None
    values = {} if test is None else test._asdict()
    shares = values.get("shares")
    low, high = values.get("interval") or (None, None)
    ours, theirs = values.get("runs") or (None, None)
    flat = {
        "difference": compared.difference if compared else None,
        "error": test.error if test else None,
        "freedom": test.freedom if test else None,
        "low": low,
        "high": high,
        "p": values.get("p"),
        "p_holm": compared.p_holm if compared else None,
        "family": compared.family or None if compared else None,
        "error_reduction": compared.error_reduction if compared else None,
        "equal": compared.equal if compared else None,
    }
    flat |= {key: values.get(key) for key in TESTED}
    flat |= {f"share_{key}": getattr(shares, key, None) for key in ("seeds", "examples", "both")}
    return flat | {"runs_tested": ours, "runs_baseline": theirs}


TESTED = (
    "detectable",
    "examples",
    "clusters",
    "unit",
)


def as_json(reports: Sequence[Report], origin: Origin = NOWHERE) -> str:
    """Return reports as JSON, figures as fractions of 1.

    A report without a title is one object: options, cells, comparisons, notes, methods and
    provenance. Several reports are an object of such objects, by title.
    """
    if len(reports) > 1:  # `failed` counts the runs of all reports together
        origin = origin._replace(failed=None)
    content = {
        report.title: {
            "split": report.split,
            "metric": report.metric,
            "rows": report.rows,
            "columns": report.columns,
            "baseline": report.baseline,
            "equal_within": report.equal_within,
            "cells": records(report),
            "notes": report.remarks,
            "methods": methods([report], origin),
            "checklist": dict(checklist([report], origin).rows),
            "provenance": provenance([report], origin).rows,
        }
        for report in reports
    }
    return json.dumps(content.get("", content), indent=2) + "\n"


def as_csv(reports: Sequence[Report]) -> str:
    """Return the records as CSV, all with all columns; items of a list are separated by spaces."""
    rows: Sequence[dict[str, Any]] = [
        {escape.csv(key): _field(value) for key, value in row.items()}
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


def _field(value: Any) -> Any:
    if isinstance(value, list):
        return escape.csv(" ".join(map(str, value)))
    return escape.csv(value) if isinstance(value, str) else value
