from elmo_bench.runs import Run, collect, where

from .choice import answers
from .costs import cost
from .display import Tables
from .epochs import course
from .escape import plain
from .grid import Grid
from .grids import grids, tables
from .methods import Origin
from .mixes import weights
from .page import GENERATOR, page
from .probes import probes_grid, read_probe
from .provenance import typed
from .published import stands_in
from .table import Correction, Report, comparable, comparisons_of, corrected, families, report
from .terminal import terminal
from .write import as_csv, as_json, block, footnotes, latex, markdown, markdown_table

__all__ = [
    "GENERATOR",
    "Correction",
    "Grid",
    "Origin",
    "Report",
    "Run",
    "Tables",
    "answers",
    "as_csv",
    "as_json",
    "block",
    "collect",
    "comparable",
    "comparisons_of",
    "corrected",
    "cost",
    "course",
    "families",
    "footnotes",
    "grids",
    "latex",
    "markdown",
    "markdown_table",
    "page",
    "plain",
    "probes_grid",
    "read_probe",
    "report",
    "stands_in",
    "tables",
    "terminal",
    "typed",
    "weights",
    "where",
]
