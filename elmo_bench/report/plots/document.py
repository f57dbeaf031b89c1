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


def picture(reports: Sequence[Report], kind: str) -> bytes:
    """Return a file, svg or pdf, with the plots of the reports, below their titles if several have
    some; raises ValueError if there is nothing to draw.
    """
    drawn = {report.title: plots for report in reports if (plots := [*_telling(report)])}
    for title in {report.title for report in reports} - drawn.keys():
        log.info("only in tables, not plotted: %s", title)
    if not drawn:
        raise ValueError(
            f"output=FILE.{kind}: nothing to plot: the report has a single cell; add runs, "
            "or choose other rows and columns"
        )
    plots, headings = [], []
    for title, each in drawn.items():
        plots += each
        headings += [title, *[""] * (len(each) - 1)]
    write = style.svg if kind == "svg" else style.pdf
    return write(plots, headings if len(drawn) > 1 else [])


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
