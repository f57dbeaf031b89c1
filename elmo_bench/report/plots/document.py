"""Draw reports as one figure for a document, SVG or PDF."""

import logging
from collections.abc import Sequence

from ..table import Report
from . import style
from .comparison import comparison
from .curves import SCALES, curve
from .layers import layers
from .style import Plot

log = logging.getLogger(__name__)


def svg(reports: Sequence[Report]) -> bytes:
    return style.svg(*_plots(reports, "svg"))


def pdf(reports: Sequence[Report]) -> bytes:
    return style.pdf(*_plots(reports, "pdf"))


def _plots(reports: Sequence[Report], kind: str) -> tuple[list[Plot], list[str]]:
    """Return the plots of the reports and, if there are several, their headings.

    Raises ValueError if there is nothing to draw.
    """
    drawn = {number: plot for number, report in enumerate(reports) if (plot := _telling(report))}
    for number, report in enumerate(reports):
        if number not in drawn and len(reports) > 1:
            log.info("only in tables, not plotted: %s", report.title)
    if not drawn:
        raise ValueError(
            f"output=FILE.{kind}: nothing to plot: the report has a single cell; add runs, "
            "or choose other rows and columns"
        )
    return [*drawn.values()], [reports[number].title for number in drawn if len(drawn) > 1]


def _telling(report: Report) -> Plot | None:
    """Return a layer profile, a curve over a quantity in the rows, or the comparison.

    The first of these that the report supports is drawn; None if it supports none.
    """
    quantities = [key for key in SCALES if key in report.rows]
    curves = (curve(report, key) for key in quantities)
    return layers(report) or next(filter(None, curves), None) or comparison(report)
