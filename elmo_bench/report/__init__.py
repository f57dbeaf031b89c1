from elmo_bench.runs import Run, collect, where

from .choice import answers
from .costs import cost
from .epochs import course
from .grid import Grid
from .grids import grids, tables
from .mixes import weights
from .page import GENERATOR, page
from .probes import probes_grid, read_probe
from .provenance import Origin, typed
from .published import stands_in
from .table import Correction, Report, comparable, comparisons_of, corrected, families, report
from .write import Tables, as_csv, as_json, block, footnotes, latex, markdown, show
from .writers import Terminal, markdown_table

__all__ = [
    "GENERATOR",
    "Correction",
    "Grid",
    "Origin",
    "Report",
    "Run",
    "Tables",
    "Terminal",
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
    "probes_grid",
    "read_probe",
    "report",
    "show",
    "stands_in",
    "tables",
    "typed",
    "weights",
    "where",
]
