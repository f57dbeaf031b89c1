"""Reports as one picture for a document, SVG or PDF."""

import logging
from collections.abc import Sequence

from ..table import Report
from . import rendering
from .comparison import comparison
from .curves import SCALES, curve
from .drawing import Plot
from .profiles import layers

log = logging.getLogger(__name__)


def svg(reports: Sequence[Report]) -> bytes:
    return rendering.standalone_svg(*_plots(reports, "svg"))


def pdf(reports: Sequence[Report]) -> bytes:
    return rendering.pdf(*_plots(reports, "pdf"))


def _plots(reports: Sequence[Report], kind: str) -> tuple[list[Plot], list[str]]:
    """A plot of each report, and what stands above each where there are several.

    Raises ValueError where there is nothing to draw.
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
    """A profile where single layers were read, a curve where a row is a quantity, else the
    comparison.
    """
    quantities = [key for key in SCALES if key in report.rows]
    curves = (curve(report, key) for key in quantities)
    return layers(report) or next(filter(None, curves), None) or comparison(report)
