"""Write reports as text, Markdown, LaTeX, CSV and JSON (a record a cell), and show them in
notebooks.
"""

import csv
import io
import json
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import Console
from rich.text import Text

from elmo_bench.files import plain
from elmo_bench.runs import text

from . import escape
from .grids import tables, tests
from .names import metric_title
from .provenance import NOWHERE, Origin, methods, provenance
from .table import Cell, Report
from .writers import Terminal, html_cells, html_title, latex_table, markdown_table

ABOUT = (
    "Interval and p: of the difference on new examples and with new seeds together, from the "
    "variance between runs and what the choice of examples adds (Obuchowski and Rockette 1995; "
    "Hillis 2007); examples that belong together, such as the questions on one article, are drawn "
    "together. p (Holm): corrected for all comparisons of its split (Holm 1979); the interval and "
    "p are not."
)


def show(reports: Sequence[Report], console: Console) -> None:
    """Print the tables and their notes."""
    for grid in (grid for report in reports for grid in tables(report).values()):
        console.print(Terminal(grid))
    for note in footnotes(reports):
        console.print(Text(plain(note)))


def markdown(reports: Sequence[Report], origin: Origin = NOWHERE) -> str:
    """Return the tables as GitHub Markdown, with notes, methods and provenance."""
    parts = [markdown_table(grid) for report in reports for grid in tables(report).values()]
    parts += map(escape.markdown, footnotes(reports))
    parts += ["## Methods", escape.markdown(methods(reports))]
    return "\n\n".join([*parts, markdown_table(provenance(reports, origin))]) + "\n"


def latex(reports: Sequence[Report]) -> str:
    r"""Return booktabs tables with captions and labels, and methods, as LaTeX.

    The document needs \usepackage{booktabs,graphicx}.
    """
    parts, labels = [], set()
    for report in reports:
        for kind, grid in tables(report).items():
            label = "-".join(filter(None, (_label(report.title), kind)))
            while label in labels:
                label += "-"
            labels.add(label)
            parts.append(latex_table(grid, label))
    parts += [f"% {plain(line)}" for line in footnotes(reports)]
    parts.append(f"\\paragraph{{Methods}}\n{escape.latex(methods(reports))}")
    return "\n\n".join(parts) + "\n"


def _label(title: str) -> str:
    """Return a title as part of a LaTeX label.

    >>> _label("Table 1: without and with ELMo")
    'table-1-without-and-with-elmo'
    """
    return "-".join(re.findall("[a-z0-9]+", title.lower()))


def footnotes(reports: Sequence[Report]) -> list[str]:
    """Return notes on how differences were tested, and on missing tests."""
    tested = any(test.p is not None for report in reports for _, test in tests(report))
    notes = dict.fromkeys(note for report in reports for note in report.remarks)
    return [*([ABOUT] if tested else []), *notes]


def records(report: Report) -> list[dict[str, Any]]:
    """Return a flat record for each cell, all with the same keys; figures are fractions of 1."""
    cells = []
    for cell in report.cells:
        keys = dict(zip(report.keys, map(text, cell.key), strict=True))
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
    name = f"dev/{report.metric or cell.runs[0].config['task']['monitor']}"
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
    flat |= {key: values.get(key) for key in ("detectable", "examples", "clusters", "unit")}
    flat |= {f"share_{key}": getattr(shares, key, None) for key in ("seeds", "examples", "both")}
    return flat | {"runs_tested": ours, "runs_baseline": theirs}


def as_json(reports: Sequence[Report], origin: Origin = NOWHERE) -> str:
    """Return reports as JSON, figures as fractions of 1.

    A report without a title is one object: options, cells, notes, methods and provenance. Several
    are an object of such objects, by title.
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
            "methods": methods([report]),
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


@dataclass(frozen=True)
class Tables:
    """The tables of one comparison: HTML in a notebook, text elsewhere.

    `reports` has one report or, if the runs differ in settings of ELMo, two: one of all settings on
    dev, and one of the setting chosen on dev, on test.
    """

    reports: Sequence[Report]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record for each cell of the tables; figures are fractions of 1.

        The keys are the config keys of rows and columns, `mean`, `deviation` (None for one run),
        `runs` (their number), `figures` and `seeds` (of each run). With a baseline, the record also
        has `difference`, `low` and `high` (its 95 % interval), `p` and `p_holm`.
        `pandas.DataFrame(tables.records())` makes a data frame.
        """
        return [record for report in self.reports for record in records(report)]

    def __repr__(self) -> str:
        console = Console(file=io.StringIO(), emoji=False, color_system=None, force_jupyter=False)
        with console.capture() as capture:
            show(self.reports, console)
        return capture.get()

    def _repr_html_(self) -> str:
        shown = [
            f"<p>{html_title(grid)}</p>{html_cells(grid)}"
            for report in self.reports
            for grid in tables(report).values()
        ]
        notes = [f"<p>{escape.xml(note)}</p>" for note in footnotes(self.reports)]
        return "\n".join([*shown, *notes])
