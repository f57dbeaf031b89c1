"""Flat records of the cells of reports, for data frames, and as CSV."""

import csv
import io
from collections.abc import Sequence
from typing import Any

from elmo_bench.runs import text

from . import escape
from .comparison import Comparison
from .names import metric_title
from .table import Cell, Report


def records(reports: Sequence[Report]) -> list[dict[str, Any]]:
    """Return a record for each cell, those of a report with the same keys; scores are fractions of
    1.
    """
    rows: list[dict[str, Any]] = []
    for report in reports:
        for cell in report.cells:
            rows.append(_record(report, cell))
    return rows


def _record(report: Report, cell: Cell) -> dict[str, Any]:
    record: dict[str, Any] = {"table": report.title} if report.title else {}
    record |= zip(report.keys, map(text, cell.key), strict=True)
    record |= {
        "metric": metric_title(cell.runs[0], report.metric),
        "split": report.split,
        "mean": cell.mean,
        "deviation": cell.deviation,
        "runs": len(cell.runs),
        "best": report.is_best(cell),
        "baseline": cell.column == report.baseline,
        "figures": list(cell.figures),
        "seeds": [run.seed for run in cell.runs],
    }
    if report.baseline is not None:
        record |= _comparison(cell.comparison)
    record["published"] = cell.published
    return record


def _comparison(compared: Comparison | None) -> dict[str, Any]:
    """Return the values of a comparison and of its test; None for missing values."""
    test = compared.test if compared else None
    scale = test.scales[0] if test else None  # of all variances
    low, high = test.interval if test else (None, None)
    return {
        "difference": compared.difference if compared else None,
        "error_reduction": compared.error_reduction if compared else None,
        "p_holm": compared.p_holm if compared else None,
        "family": compared.family if compared else None,
        "error": scale.error if scale else None,
        "freedom": scale.freedom if scale else None,
        "p": test.p if test else None,
        "detectable": test.detectable if test else None,
        "examples": test.examples if test else None,
        "clusters": test.clusters if test else None,
        "unit": test.unit if test else None,
        "folds": test.folds if test else None,
        "low": low,
        "high": high,
    }


def as_csv(reports: Sequence[Report]) -> str:
    """Return the records as CSV, all with all columns; items of a list are separated by spaces."""
    rows = records(reports)
    heads: dict[str, None] = {}
    for row in rows:
        heads |= dict.fromkeys(row)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(escape.csv, heads))
    for row in rows:
        writer.writerow([_field(row.get(head, "")) for head in heads])
    return file.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, list):  # of numbers, of which the first may be negative
        return " ".join(map(str, value))
    return escape.csv(value) if isinstance(value, str) else value
