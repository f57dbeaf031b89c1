from elmo_bench.runs import Run, as_text, collect, where

from .choice import answers
from .escape import plain
from .grid import Grid
from .grids import grids
from .methods import Origin
from .page import GENERATOR, page
from .provenance import typed
from .published import stands_in
from .table import Report, report
from .terminal import terminal
from .write import as_csv, as_json, footnotes, latex, markdown

__all__ = [
    "GENERATOR",
    "Grid",
    "Origin",
    "Report",
    "Run",
    "answers",
    "as_csv",
    "as_json",
    "as_text",
    "collect",
    "footnotes",
    "grids",
    "latex",
    "markdown",
    "page",
    "plain",
    "report",
    "stands_in",
    "terminal",
    "typed",
    "where",
]
