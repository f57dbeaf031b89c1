"""Write reports as text, Markdown, LaTeX, CSV and notebook HTML; a file's suffix is its format."""

import csv
import io
import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from elmo_bench.files import atomic, begins, check_output
from elmo_bench.runs import text
from elmo_bench.terminal import listed, plain

from . import escape
from .build import as_list
from .comparison import Comparison
from .grids import tables
from .names import metric_title
from .page import GENERATOR, as_page, footnotes
from .provenance import methods, provenance
from .table import Report
from .writers import Grid, Terminal, as_html, html_table, latex_table, markdown_table

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


def _grids(reports: Sequence[Report]) -> list[Grid]:
    return [grid for report in reports for grid in tables(report).values()]


def show(reports: Sequence[Report], console: Console) -> None:
    """Print the tables and their notes."""
    for grid in _grids(reports):
        console.print(Terminal(grid))
    for note in footnotes(reports):
        console.print(Text(plain(note)))


def markdown(reports: Sequence[Report], command: str = "") -> str:
    """Return the tables as GitHub Markdown, with notes, methods and provenance."""
    parts = [*map(markdown_table, _grids(reports)), *map(escape.markdown, footnotes(reports))]
    parts += ["## Methods", escape.markdown(methods(reports))]
    return "\n\n".join([*parts, markdown_table(provenance(reports, command))]) + "\n"


def latex(reports: Sequence[Report]) -> str:
    r"""Return booktabs tables with captions and labels, and methods, as LaTeX.

    The document needs \usepackage{booktabs,graphicx}.
    """
    parts = []
    for report in reports:
        for kind, grid in tables(report).items():
            label = "-".join(re.findall("[a-z0-9]+", f"{report.title} {kind}".lower()))
            parts.append(latex_table(grid, label))
    notes = [f"% {plain(line)}" for line in footnotes(reports)]
    said = f"\\paragraph{{Methods}}\n{escape.latex(methods(reports))}\n"
    return "\n\n".join([*parts, *notes, said])


def records(report: Report) -> list[dict[str, Any]]:
    """Return a flat record for each cell, all with the same keys; scores are fractions of 1."""
    return [
        ({"table": report.title} if report.title else {})
        | dict(zip(report.keys, map(text, cell.key), strict=True))
        | {
            "metric": metric_title(cell.runs[0], report.metric),
            "split": report.split,
            "mean": cell.mean,
            "deviation": cell.deviation,
            "runs": len(cell.runs),
            "best": report.is_best(cell),
            "baseline": cell.column == report.baseline,
            "figures": [*cell.figures],
            "seeds": [run.seed for run in cell.runs],
        }
        | (_comparison(cell.comparison) if report.baseline is not None else {})
        | {"published": cell.published}
        for cell in report.cells
    ]


def _comparison(compared: Comparison | None) -> dict[str, Any]:
    """Return the values of a comparison and of its test; None for missing values."""
    test = compared.test if compared else None
    low, high = test.interval if test else (None, None)
    of_comparison = ("difference", "error_reduction", "p_holm", "family")
    of_test = ("p", "detectable", "examples", "clusters", "unit")
    of_all = test.scales[0] if test else None
    flat = {key: getattr(compared, key, None) for key in of_comparison}
    flat |= {key: getattr(of_all, key, None) for key in ("error", "freedom")}
    flat |= {key: getattr(test, key, None) for key in of_test}
    return flat | {"low": low, "high": high}


def as_csv(reports: Sequence[Report]) -> str:
    """Return the records as CSV, all with all columns; items of a list are separated by spaces."""
    rows = [record for report in reports for record in records(report)]
    heads = dict.fromkeys(key for row in rows for key in row)
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(map(escape.csv, heads))
    writer.writerows([_field(row.get(head, "")) for head in heads] for row in rows)
    return file.getvalue()


def _field(value: Any) -> Any:
    if isinstance(value, list):  # of numbers, of which the first may be negative
        return " ".join(map(str, value))
    return escape.csv(value) if isinstance(value, str) else value


def checked_outputs(output: Any) -> list[Path]:
    """Return the files of `output`; ValueError for an unknown format or a file of others."""
    outputs = [Path(path) for path in as_list(output)]
    for path in outputs:
        if path.suffix not in OWN:
            formats = listed((f"FILE{suffix}" for suffix in OWN), "or")
            raise ValueError(f"output={path}: unknown ending; give {formats}")
        check_output("output", path, {}, begins(OWN[path.suffix]))
    return outputs


def write_files(
    outputs: Sequence[Path], reports: Sequence[Report], command: str, title: str | None
) -> None:
    """Write each file atomically, in the format of its suffix."""
    # Format everything before the first write, so that an error leaves no partial set of files.
    contents = {path: _content(path.suffix, reports, command, title) for path in outputs}
    for path, content in contents.items():
        with atomic(path) as part:
            part.write_bytes(content)
        log.info("written: %s", path)


def _content(suffix: str, reports: Sequence[Report], command: str, title: str | None) -> bytes:
    if suffix in (".svg", ".pdf"):
        from .plots import picture  # imports matplotlib, which is slow

        return picture(reports, suffix[1:])
    writers: dict[str, Callable[[], str]] = {
        ".html": lambda: as_page(reports, title, command),
        ".md": lambda: markdown(reports, command),
        ".tex": lambda: latex(reports),
        ".csv": lambda: as_csv(reports),
    }
    return writers[suffix]().encode(errors="backslashreplace")


@dataclass(frozen=True)
class Tables:
    """The tables of one comparison: HTML in a notebook, text elsewhere."""

    reports: Sequence[Report]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record for each cell of the tables; scores are fractions of 1.

        The keys are those of FILE.csv, which docs/statistics.md explains.
        """
        return [record for report in self.reports for record in records(report)]

    def __repr__(self) -> str:
        console = Console(file=io.StringIO(), emoji=False, color_system=None, force_jupyter=False)
        with console.capture() as capture:
            show(self.reports, console)
        return capture.get()

    def _repr_html_(self) -> str:
        notes = as_html("notes", footnotes(self.reports))
        return "\n".join([*map(html_table, _grids(self.reports)), notes])
