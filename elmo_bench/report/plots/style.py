"""The one style of a report's plots, and their files: SVG and PDF."""

import io
import logging
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator

from elmo_bench.files import plain

from .. import names
from ..escape import xml
from ..labels import labels_of
from ..table import Cell, Key, Report

GENERATOR = "elmo-bench report"  # job=report overwrites only pictures with this mark
STYLE = Path(__file__).with_name("style.mplstyle")
WIDTH = 7.2  # inches
LINE = 0.2  # inches; the height of a line of text
INK, SOFT, PAPER = "#1b1f24", "#555d66", "#ffffff"
# After Okabe and Ito (2008), dark enough for a contrast of 3:1 on white.
COLORS = ("#0072b2", "#c14f00", "#00805c", "#b3508c", "#8a6d00", "#5b5bd6")
MARKERS = ("o", "s", "^", "D", "v", "P", "p")
FONTS = "system-ui, -apple-system, 'Segoe UI', Arial, 'DejaVu Sans', sans-serif"

Look = dict[str, Any]  # arguments of Axes.plot
BASELINE: Look = {"color": SOFT, "marker": "X"}
DOTS: Look = {"linestyle": "none", "alpha": 0.7, "markeredgewidth": 0}  # single runs


class Plot(NamedTuple):
    """A plot that is drawn into a part of a figure, which is `height` inches high."""

    title: str  # a sentence: what is shown
    caption: str  # how to read it
    height: float
    draw: Callable[[SubFigure], None]


def looks(columns: Iterable[Key], baseline: Key | None) -> dict[Key, Look]:
    """Return the colour and the mark of each column; the baseline is grey."""
    others = (column for column in columns if column != baseline)
    pairs = {
        column: {
            "color": COLORS[number % len(COLORS)],
            "marker": MARKERS[number % len(MARKERS)],
        }
        for number, column in enumerate(others)
    }
    return pairs if baseline is None else {baseline: BASELINE} | pairs


def figure(plots: Sequence[Plot], headings: Sequence[str] = ()) -> Figure:
    """Draw the plots below each other, each with its heading, if there are any."""
    with styled():
        heights = [plot.height + (LINE if headings else 0) for plot in plots]
        drawn = Figure(figsize=(WIDTH, sum(heights)), layout=ConstrainedLayoutEngine(w_pad=0.07))
        parts = drawn.subfigures(len(plots), 1, height_ratios=heights, squeeze=False)[:, 0]
        for number, (part, plot) in enumerate(zip(parts, plots, strict=True)):
            if headings:
                part.suptitle(plain(headings[number]), x=0.01, ha="left", weight="bold", size=10)
            plot.draw(part)
            legend(part)
    return drawn


@contextmanager
def styled(hashsalt: str | None = None) -> Iterator[None]:
    """Use the report's style instead of the user's matplotlibrc."""
    with matplotlib.rc_context({"svg.hashsalt": hashsalt}, fname=STYLE), warnings.catch_warnings():
        # The font lacks some scripts, but SVG uses the browser's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def svg(plots: Sequence[Plot], headings: Sequence[str] = ()) -> bytes:
    """Return the plots as an SVG file on white; the same plots give the same bytes."""
    mark = f'<svg data-generator="{GENERATOR}" xmlns="http://www.w3.org/2000/svg" '
    return _svg(plots, headings).replace("<svg ", mark, 1).encode()


def inline(plot: Plot) -> str:
    """Return a plot as an SVG element for a page, without links and scripts."""
    return re.sub(r' (width|height)="[\d.]+pt"', "", _svg([plot]), count=2)


def _svg(plots: Sequence[Plot], headings: Sequence[str] = ()) -> str:
    """Return matplotlib's SVG without namespaces, with a title and a description.

    No two plots of a page have the same ids.
    """
    title = xml(" ".join(plot.title for plot in plots))
    description = xml(" ".join(plot.caption for plot in plots))
    file = io.StringIO()
    with styled(title):
        about = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure(plots, headings).savefig(file, format="svg", metadata=about)
    text = file.getvalue()
    text = re.sub(r' (xmlns(:\w+)?|version)="[^"]*"', "", text[text.index("<svg ") :])
    text = re.sub('<g id="[^"]*"', "<g", text)
    text = text.replace("xlink:href", "href").replace("'DejaVu Sans'", FONTS)
    start = text.index(">") + 1
    said = f"<title>{title}</title><desc>{description}</desc>"
    return f'<svg role="img"{text[4:start]}{said}{text[start:]}'


def pdf(plots: Sequence[Plot], headings: Sequence[str] = ()) -> bytes:
    """Return the plots as a PDF page of their size; the same plots give the same bytes."""
    file = io.BytesIO()
    about = {"Creator": GENERATOR, "Producer": GENERATOR, "CreationDate": None}
    logging.getLogger("fontTools.subset").setLevel(logging.WARNING)  # it logs each omitted glyph
    with styled():
        about |= {"Title": plain(plots[0].title)}
        figure(plots, headings).savefig(file, format="pdf", metadata=about)
    return file.getvalue()


def legend(part: SubFigure) -> None:
    """Add a legend below the axes with what has a label there, each label once."""
    shown: dict[str, Any] = {}
    for axes in part.axes:
        handles, labels = axes.get_legend_handles_labels()
        shown = dict(zip(labels, handles, strict=True)) | shown
    columns = max(1, min(len(shown), 110 // (max(map(len, shown), default=0) + 8)))
    part.legend(shown.values(), shown, loc="outside lower left", ncols=columns, borderaxespad=0)


def panel_axes(part: SubFigure, titles: Sequence[str], across: int) -> list[Axes]:
    """Return axes with these titles, so many side by side; places without axes stay empty."""
    across = min(len(titles), across)
    axes = [*part.subplots(-(-len(titles) // across), across, squeeze=False).flat]
    for spare in axes[len(titles) :]:
        spare.set_axis_off()
    for one, title in zip(axes, titles, strict=False):
        one.set_title(short(title, 40))
    return axes[: len(titles)]


def short(text: str, width: int = 28) -> str:
    """Return a name on lines of about so many characters, without control characters."""
    return "\n".join(textwrap.wrap(plain(text), width)) or ""


def percent_axis(axis: Axis) -> None:
    """Give an axis of percentages round ticks; it spans at least 1 and does not leave 0 to 100."""
    low, high = axis.get_view_interval()
    least, most = axis.get_data_interval()
    more = max(1 - (high - low), 0) / 2
    low, high = max(low - more, min(least, 0)), min(high + more, max(most, 100))
    axis.set_view_interval(low, high, ignore=True)
    axis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))


def metric(report: Report, split: str | None = None, cells: Iterable[Cell] | None = None) -> str:
    """Return the axis title of the figures of cells (default: all), such as "test entity F1, %".

    Cells with different metrics give "test figure, %".
    """
    runs = [run for cell in cells or report.cells for run in cell.runs]
    titles = {names.metric_title(run, report.metric) for run in runs}
    return f"{split or report.split} {min(titles) if len(titles) == 1 else 'figure'}, %"


def row_title(report: Report, row: Key) -> str:
    return names.name(report.rows, row, names.task_titles(report.runs)) if row else ""


def column_titles(report: Report) -> dict[Key, str]:
    """Return the titles of the columns in order, the baseline first."""
    titles = labels_of(report).columns
    return {column: titles[column] for column in report.heads}


def percents(cell: Cell) -> list[float]:
    """Return each run's figure in percent."""
    return [100 * figure for figure in cell.figures]
