from elmo_bench.runs import Run, collect, where

from .aggregate import cost, course, weights
from .build import Built, as_list, build_tables
from .comparison import Correction, families
from .grid import Grid
from .grids import grids, tables
from .outputs import OWN, checked_outputs, write_files
from .page import GENERATOR, page
from .probes import probes_grid, read_probe
from .provenance import Origin, typed
from .published import stands_in
from .selection import select
from .table import Report, comparisons_of, corrected, report
from .write import Tables, as_csv, as_json, block, footnotes, latex, markdown, show
from .writers import Terminal, markdown_table

__all__ = [
    "GENERATOR",
    "OWN",
    "Built",
    "Correction",
    "Grid",
    "Origin",
    "Report",
    "Run",
    "Tables",
    "Terminal",
    "as_csv",
    "as_json",
    "as_list",
    "block",
    "build_tables",
    "checked_outputs",
    "collect",
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
    "select",
    "show",
    "stands_in",
    "tables",
    "typed",
    "weights",
    "where",
    "write_files",
]
