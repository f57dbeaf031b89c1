from elmo_bench.runs import collect as collect, where as where

from .aggregate import cost as cost, weights as weights
from .build import (
    OWN as OWN,
    Built as Built,
    as_list as as_list,
    build_tables as build_tables,
    checked_outputs as checked_outputs,
    write_files as write_files,
)
from .comparison import families as families
from .grid import Grid as Grid
from .grids import tables as tables
from .page import as_page as as_page
from .probes import probes_grid as probes_grid, read_probe as read_probe
from .provenance import typed as typed
from .published import stands_in as stands_in
from .selection import select as select
from .table import (
    Report as Report,
    comparisons_of as comparisons_of,
    corrected as corrected,
    report as report,
)
from .write import (
    Tables as Tables,
    as_csv as as_csv,
    as_json as as_json,
    latex as latex,
    markdown as markdown,
    show as show,
)
from .writers import Terminal as Terminal, markdown_table as markdown_table
