"""Reports as text, Markdown, LaTeX and notebook HTML, and in files; a suffix is a format."""

import io
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from elmo_bench.files import atomic, begins, check_output
from elmo_bench.terminal import listed, plain

from . import escape
from .build import as_list
from .grids import tables
from .methods import methods
from .page import GENERATOR, as_page, footnotes
from .provenance import provenance
from .records import as_csv, records
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


def _tables_of(reports: Sequence[Report]) -> list[Grid]:
    """Return the tables of all reports, in their order."""
    grids: list[Grid] = []
    for report in reports:
        grids += tables(report).values()
    return grids


def show(reports: Sequence[Report], console: Console) -> None:
    """Print the tables and their notes."""
    for grid in _tables_of(reports):
        console.print(Terminal(grid))
    for note in footnotes(reports):
        console.print(Text(plain(note)))


def markdown(reports: Sequence[Report], command: str = "") -> str:
    """Return the tables as GitHub Markdown, with notes, methods and provenance."""
    parts = list(map(markdown_table, _tables_of(reports)))
    parts += map(escape.markdown, footnotes(reports))
    parts.append("## Methods")
    parts.append(escape.markdown(methods(reports)))
    parts.append(markdown_table(provenance(reports, command)))
    return "\n\n".join(parts) + "\n"


def latex(reports: Sequence[Report]) -> str:
    r"""Return booktabs tables with captions and labels, and methods, as LaTeX.

    The document needs \usepackage{booktabs,graphicx}.
    """
    parts = []
    for report in reports:
        for kind, grid in tables(report).items():
            label = "-".join(re.findall("[a-z0-9]+", f"{report.title} {kind}".lower()))
            parts.append(latex_table(grid, label))
    parts += [f"% {plain(note)}" for note in footnotes(reports)]
    parts.append(f"\\paragraph{{Methods}}\n{escape.latex(methods(reports))}\n")
    return "\n\n".join(parts)


def checked_outputs(output: Any) -> list[Path]:
    """Return the files of `output`; ValueError for an unknown format or a file of others."""
    outputs = list(map(Path, as_list(output)))
    for path in outputs:
        if path.suffix not in OWN:
            formats = listed([f"FILE{suffix}" for suffix in OWN], "or")
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
    if suffix == ".html":
        content = as_page(reports, title, command)
    elif suffix == ".md":
        content = markdown(reports, command)
    elif suffix == ".tex":
        content = latex(reports)
    else:
        content = as_csv(reports)
    return content.encode(errors="backslashreplace")


@dataclass(frozen=True)
class Tables:
    """The tables of one comparison: HTML in a notebook, text elsewhere."""

    reports: Sequence[Report]

    def records(self) -> list[dict[str, Any]]:
        """Return a flat record for each cell of the tables; scores are fractions of 1.

        The keys are those of FILE.csv, which docs/statistics.md explains.
        """
        return records(self.reports)

    def __repr__(self) -> str:
        console = Console(file=io.StringIO(), emoji=False, color_system=None, force_jupyter=False)
        with console.capture() as capture:
            show(self.reports, console)
        return capture.get()

    def _repr_html_(self) -> str:
        parts = list(map(html_table, _tables_of(self.reports)))
        parts.append(as_html("notes", footnotes(self.reports)))
        return "\n".join(parts)
