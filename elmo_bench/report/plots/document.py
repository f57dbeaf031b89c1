"""Draw reports as one figure for a document, SVG or PDF."""

import logging
from collections.abc import Sequence

from elmo_bench.runs import MIX

from ..table import Report
from . import style
from .comparison import comparison
from .curves import QUANTITIES, curve
from .tuning import tuning

log = logging.getLogger(__name__)


def picture(reports: Sequence[Report], kind: str) -> bytes:
    """Return an SVG or PDF file with the plots of the reports; ValueError if there are none."""
    pairs = ((each.title, plot) for each in reports for plot in (telling(each), tuning(each)))
    drawn = [(title, plot) for title, plot in pairs if plot]
    for title in {report.title for report in reports} - {title for title, _ in drawn}:
        log.info("only in tables, not plotted: %s", title)
    if not drawn:
        raise ValueError(
            f"output=FILE.{kind}: nothing to plot: the report has a single cell; add runs, "
            "or choose other rows and columns"
        )
    plots = [plot for _, plot in drawn]
    if len(plots) > 1:
        plots = [plot._replace(heading=title) for title, plot in drawn]
    if kind == "pdf":
        return style.pdf(plots)
    file = style.svg(plots).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return file.encode()


def telling(report: Report) -> style.Plot | None:
    """Return the plot of layers, else a curve over the rows, else the comparison; else None."""
    quantities = [key for key in QUANTITIES if key == MIX or key in report.rows]
    curves = (curve(report, key) for key in quantities)
    return next(filter(None, curves), None) or comparison(report)
