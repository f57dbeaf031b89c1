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
    plots: list[style.Plot] = []
    for report in reports:
        of_report = [plot for plot in (telling(report), tuning(report)) if plot]
        if not of_report:
            log.info("only in tables, not plotted: %s", report.title)
        for plot in of_report:
            plots.append(plot._replace(heading=report.title))
    if not plots:
        raise ValueError(
            f"output=FILE.{kind}: nothing to plot: the report has a single cell; add runs, "
            "or choose other rows and columns"
        )
    if len(plots) == 1:
        plots = [plots[0]._replace(heading="")]
    if kind == "pdf":
        return style.pdf(plots)
    file = style.svg(plots).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return file.encode()


def telling(report: Report) -> style.Plot | None:
    """Return the plot of layers, else a curve over the rows, else the comparison; else None."""
    for key in QUANTITIES:
        if key == MIX or key in report.rows:
            plot = curve(report, key)
            if plot:
                return plot
    return comparison(report)
