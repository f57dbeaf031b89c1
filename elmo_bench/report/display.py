"""Display of reports in notebooks."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

from rich.console import Console
from rich.text import Text

from . import markup, write
from .escape import plain, xml
from .grids import grids
from .table import Report
from .terminal import terminal


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
        return [record for report in self.reports for record in write.records(report)]

    def __repr__(self) -> str:
        console = Console(file=StringIO(), emoji=False, color_system=None, force_jupyter=False)
        with console.capture() as capture:
            for grid in (grid for report in self.reports for grid in grids(report)):
                console.print(terminal(grid))
            for note in write.footnotes(self.reports):
                console.print(Text(plain(note)))
        return capture.get()

    def _repr_html_(self) -> str:
        shown = [
            f"<p>{markup.about(grid)}</p>{markup.cells(grid)}"
            for report in self.reports
            for grid in grids(report)
        ]
        notes = [f"<p>{xml(note)}</p>" for note in write.footnotes(self.reports)]
        return "\n".join([*shown, *notes])
