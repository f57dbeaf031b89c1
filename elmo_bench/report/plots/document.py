"""Draw reports as one figure for a document, SVG or PDF."""

import logging
from collections.abc import Iterator, Sequence

from elmo_bench.runs import MIX

from ..table import Report
from . import style
from .comparison import comparison
from .curves import QUANTITIES, curve, shares
from .style import Plot

log = logging.getLogger(__name__)


def svg(reports: Sequence[Report]) -> bytes:
    return style.svg(*_plots(reports, "svg"))


def pdf(reports: Sequence[Report]) -> bytes:
    return style.pdf(*_plots(reports, "pdf"))


def _plots(reports: Sequence[Report], kind: str) -> tuple[list[Plot], list[str]]:
    """Return the plots of the reports and, if several reports have some, their headings.

    Raises ValueError if there is nothing to draw.
    """
    drawn = {report.title: plots for report in reports if (plots := [*_telling(report)])}
    for title in {report.title for report in reports} - drawn.keys():
        log.info("only in tables, not plotted: %s", title)
    if not drawn:
        raise ValueError(
            f"output=FILE.{kind}: nothing to plot: the report has a single cell; add runs, "
            "or choose other rows and columns"
        )
    headings = [
        text for title, plots in drawn.items() for text in (title, *[""] * (len(plots) - 1))
    ]
    return [plot for plots in drawn.values() for plot in plots], headings if len(drawn) > 1 else []


def _telling(report: Report) -> Iterator[Plot]:
    """Yield the layers with their shares, else a curve over a quantity in the rows, else the
    comparison.
    """
    if layers := curve(report, MIX):
        yield from filter(None, (layers, shares(report)))
        return
    curves = (curve(report, key) for key in QUANTITIES if key in report.rows)
    if plot := next(filter(None, curves), None) or comparison(report):
        yield plot
