"""Write reports as text, Markdown, LaTeX and CSV (a record a cell), show them in notebooks, and
write them to files, each in the format of its suffix.
"""

import csv
import io
import logging
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from elmo_bench.files import atomic, begins, check_output, plain
from elmo_bench.runs import text

from . import escape
from .build import as_list
from .grids import tables
from .names import metric_title
from .page import GENERATOR, as_page, footnotes
from .provenance import NOWHERE, Origin, methods, provenance
from .table import Cell, Report
from .writers import Terminal, html_table, latex_table, markdown_table

log = logging.getLogger(__name__)
TITLE = "[^\\n]*mean ± standard deviation \\(runs"  # in the first line
OWN = {  # the beginning of a report of ours, which may be overwritten
    ".html": f'<!DOCTYPE html>.*<meta name="generator" content="{GENERATOR}"/>',
    ".svg": f'<svg [^>]*data-generator="{GENERATOR}"',
    ".pdf": f"%PDF-.*/Creator \\({GENERATOR}\\)",
    ".md": TITLE,
    ".tex": TITLE,
    ".csv": "[^\\n]*mean,deviation,runs,best",
}


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
    parts = {}
    for report in reports:
        for kind, grid in tables(report).items():
            label = "-".join(re.findall("[a-z0-9]+", f"{report.title} {kind}".lower()))
            while label in parts:
                label += "-"
            parts[label] = latex_table(grid, label)
    notes = [f"% {plain(line)}" for line in footnotes(reports)]
    said = f"\\paragraph{{Methods}}\n{escape.latex(methods(reports))}"
    return "\n\n".join([*parts.values(), *notes, said]) + "\n"


def records(report: Report) -> list[dict[str, Any]]:
    """Return a flat record for each cell, all with the same keys; figures are fractions of 1."""
    return [
        ({"table": report.title} if report.title else {})
        | dict(zip(report.keys, map(text, cell.key), strict=True))
        | {
            "metric": metric_title(cell.runs[0], report.metric),
            "split": report.split,
            "dev": _dev(cell, report),
            "mean": cell.mean,
            "deviation": cell.deviation,
            "runs": len(cell.runs),
            "best": report.is_best(cell),
            "baseline": cell.column == report.baseline,
            "figures": [*cell.figures],
            "seeds": [run.seed for run in cell.runs],
        }
        | (_comparison(cell) if report.baseline is not None else {})
        | {"published": cell.published}
        for cell in report.cells
    ]


def _dev(cell: Cell, report: Report) -> float | None:
    """Return the mean of the runs' figures on dev; None if a run has none."""
    name = f"dev/{report.metric or cell.runs[0].config['task']['monitor']}"
    figures = [run.metrics[name] for run in cell.runs if name in run.metrics]
    return statistics.fmean(figures) if len(figures) == len(cell.runs) else None


def _comparison(cell: Cell) -> dict[str, Any]:
    """Return all values of a comparison as a flat record; None for missing values."""
    compared = cell.comparison
    test = compared.test if compared else None
    low, high = test.interval if test else (None, None)
    ours, theirs = test.runs if test else (None, None)
    flat = {key: getattr(compared, key, None) for key in ("difference", "error_reduction")}
    flat |= {
        "p_holm": compared and compared.p_holm,
        "family": (compared and compared.family) or None,
    }
    of_test = ("p", "error", "freedom", "detectable", "examples", "clusters", "unit")
    flat |= {key: getattr(test, key, None) for key in of_test}
    return flat | {"low": low, "high": high, "runs_tested": ours, "runs_baseline": theirs}


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


def checked_outputs(settings: Mapping[str, Any]) -> list[Path]:
    """Return the files of `output`; raises ValueError for one that must not be written."""
    outputs = [Path(path) for path in as_list(settings["output"])]
    for path in outputs:
        check_format(path, OWN)
    return outputs


def check_format(path: Path, own: Mapping[str, str]) -> None:
    """Raise ValueError for a file of no format, or a file of others.

    `own` has the beginning of each format's files of ours, by suffix.
    """
    if path.suffix not in own:
        formats = ", ".join(f"FILE{suffix}" for suffix in own)
        raise ValueError(f"output={path}: the formats are {formats}")
    check_output("output", path, {}, begins(own[path.suffix]))


def write_files(
    outputs: Sequence[Path], reports: Sequence[Report], origin: Origin, title: str | None
) -> None:
    """Write each file atomically, in the format of its suffix."""
    writers: dict[str, Callable[[Sequence[Report]], str | bytes]] = {
        ".html": partial(as_page, title=title, origin=origin),
        ".svg": partial(_picture, "svg"),
        ".pdf": partial(_picture, "pdf"),
        ".md": partial(markdown, origin=origin),
        ".tex": latex,
        ".csv": as_csv,
    }
    # Format everything before the first write, so that an error leaves no partial set of files.
    contents = {path: writers[path.suffix](reports) for path in outputs}
    for path, content in contents.items():
        if isinstance(content, str):
            content = content.encode(errors="backslashreplace")
        with atomic(path) as part:
            part.write_bytes(content)
        log.info("written: %s", path)


def _picture(kind: str, reports: Sequence[Report]) -> bytes:
    from .plots import document  # imports matplotlib, which is slow

    return document.picture(reports, kind)


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
        grids = [grid for report in self.reports for grid in tables(report).values()]
        notes = [f"<p>{escape.xml(note)}</p>" for note in footnotes(self.reports)]
        return "\n".join([*map(html_table, grids), *notes])
