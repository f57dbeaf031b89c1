"""Reports as one picture."""

import logging
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from elmo_bench.runs import number

from . import names
from .grids import heads
from .names import as_written as settings
from .page import STYLE
from .plot import Point, Series, arrange, chart
from .table import Cell, Report

log = logging.getLogger(__name__)
RESULTS = "Results"

# The keys that make a curve: what the axis is called, and where a value stands on it; None: one
# after the other.
CURVES: dict[str, tuple[str, str, Callable[[float], float] | None]] = {
    "fraction": (
        "Sample efficiency (the paper's Figure 1)",
        "share of the training set",
        math.log10,
    ),
    "elmo.l2": ("The penalty on the mix", "λ (elmo.l2)", None),
    "elmo.dropout": ("Dropout on ELMo's vectors", "elmo.dropout", float),
}


def by_row(report: Report) -> tuple[str, list[Series]]:
    """A plot of the overview: rows along the x axis, a mark and deviation for each column."""
    rows = list(dict.fromkeys(cell.row for cell in report.cells))
    columns = heads(report)
    step = 0.5 / len(columns)  # side by side
    series = []
    for k, column in enumerate(columns):
        shift = step * (k - (len(columns) - 1) / 2)
        points = [
            _point(rows.index(cell.row) + shift, cell)
            for cell in report.cells
            if cell.column == column
        ]
        series.append(Series(settings(report.columns, column), [[point] for point in points]))
    marks = [(float(k), " ".join(row)) for k, row in enumerate(rows)]
    return chart(
        series,
        x=" ".join(map(names.axis, report.rows)),
        y=f"{report.split} figure, percent",
        marks=marks,
    ), series


def picture(reports: Sequence[Report]) -> str:
    """A plot of each report, two side by side, as an SVG for a document: a curve where a row is a
    quantity, else the rows.

    A report without columns to compare, among others, is left out. ValueError where none has
    anything to draw.
    """
    plots = []
    for report in reports:
        curve = next(
            (
                (key, lines)
                for key in CURVES
                if key in report.rows and (lines := _lines(report, key))
            ),
            None,
        )
        if curve:
            plots.append((report.title, *_curve(report, *curve)))
        elif len(report.rows) == 1 and (len(heads(report)) > 1 or len(reports) == 1):
            plots.append((report.title, *by_row(report)))
        else:
            log.info("not in the picture, only in tables: %s", report.title or RESULTS)
    if not plots:
        raise ValueError(
            "output=FILE.svg: a picture has a single config key along its x axis: rows=task"
        )
    return arrange(plots, STYLE.read_text(encoding="utf-8"))


def _lines(report: Report, key: str) -> dict[str, dict[str, Cell]]:
    """For each setting of the other keys, the cells by the value of one; settings that have a
    single value are left out.
    """
    keys = [*report.rows, *report.columns]
    lines: dict[str, dict[str, Cell]] = defaultdict(dict)
    for cell in report.cells if key in keys else ():
        values = dict(zip(keys, [*cell.row, *cell.column], strict=True))
        value = values.pop(key)
        if number(value) is not None:
            lines[settings([*values], [*values.values()])][value] = cell
    return {setting: cells for setting, cells in lines.items() if len(cells) > 1}


def _values(lines: Mapping[str, Mapping[str, Cell]]) -> list[str]:
    return sorted({text for cells in lines.values() for text in cells}, key=float)


def _curve(
    report: Report, key: str, lines: Mapping[str, Mapping[str, Cell]]
) -> tuple[str, list[Series]]:
    _, axis, scale = CURVES[key]
    texts = _values(lines)
    xs = {text: scale(float(text)) if scale else float(rank) for rank, text in enumerate(texts)}
    series = [
        Series(name, [[_point(xs[text], cells[text]) for text in texts if text in cells]])
        for name, cells in lines.items()
    ]
    marks = [(x, text) for text, x in xs.items()]
    return chart(series, x=axis, y=f"{report.split} figure, percent", marks=marks), series


def _point(x: float, cell: Cell) -> Point:
    return Point(x, 100 * cell.mean, 100 * (cell.deviation or 0))
