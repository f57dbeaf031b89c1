from .build import SETTINGS as SETTINGS, as_list as as_list, build_tables as build_tables
from .cost import cost as cost
from .grids import tables as tables
from .mixes import weights as weights
from .probes import probes_grid as probes_grid
from .provenance import typed as typed
from .table import Report as Report, comparisons_of as comparisons_of
from .tabulate import corrected as corrected, report as report
from .write import (
    Tables as Tables,
    checked_outputs as checked_outputs,
    show as show,
    write_files as write_files,
)
from .writers import Grid as Grid, Terminal as Terminal, markdown_table as markdown_table
