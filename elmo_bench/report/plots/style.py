"""The one style of a report's plots, and their files: SVG and PDF."""

import html
import io
import logging
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axis import Axis
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from elmo_bench.terminal import plain

from ..names import metric_title, names
from ..page import GENERATOR
from ..table import Cell, Key, Report

STYLE = Path(__file__).with_name("style.mplstyle")
WIDTH = 7.2  # inches
LINE = 0.2  # inches; the height of a line of text
INK = "#1b1f24"
SOFT = "#555d66"
PAPER = "#ffffff"
# After Okabe and Ito (2008), dark enough for a contrast of 3:1 on white.
COLORS = ("#0072b2", "#c14f00", "#00805c", "#b3508c", "#8a6d00", "#5b5bd6")
MARKERS = ("o", "s", "^", "D", "v", "P", "p")
FONTS = "system-ui, -apple-system, 'Segoe UI', Arial, 'DejaVu Sans', sans-serif"

Look = dict[str, Any]  # arguments of Axes.plot
Looks = dict[Key, Look]  # by column
BASELINE: Look = {"color": SOFT, "marker": "X"}
DOTS: Look = {"linestyle": "none", "alpha": 0.7, "markeredgewidth": 0}  # single runs


class Plot(NamedTuple):
    """A plot that is drawn into a part of a figure, which is `height` inches high."""

    title: str  # a sentence: what is shown
    caption: str  # how to read it
    height: float
    draw: Callable[[SubFigure], None]
    heading: str = ""  # above it, among several plots


def looks(columns: Iterable[Key], baseline: Key | None) -> dict[Key, Look]:
    """Return the colour and the mark of each column; the baseline is grey."""
    colors = cycle(COLORS)
    markers = cycle(MARKERS)
    look_of: dict[Key, Look] = {}
    for column in columns:
        if column == baseline:
            look_of[column] = BASELINE
        else:
            look_of[column] = {"color": next(colors), "marker": next(markers)}
    return look_of


def figure(plots: Sequence[Plot]) -> Figure:
    """Draw the plots below each other, each with its legend below it."""
    with styled():
        heights = [plot.height + (LINE if plot.heading else 0) for plot in plots]
        drawn = Figure(figsize=(WIDTH, sum(heights)), layout=ConstrainedLayoutEngine(w_pad=0.07))
        parts = drawn.subfigures(len(plots), 1, height_ratios=heights, squeeze=False)[:, 0]
        for part, plot in zip(parts, plots, strict=True):
            if plot.heading:
                part.suptitle(plain(plot.heading), x=0.01, ha="left", weight="bold", size=10)
            plot.draw(part)
            _legend(part)
    return drawn


def _legend(part: SubFigure) -> None:
    """Draw one legend for all axes of a part, below it."""
    handle_of: dict[str, Any] = {}  # by label
    for axes in part.axes:
        handles, labels = axes.get_legend_handles_labels()
        handle_of |= zip(labels, handles, strict=True)
    widest = max(map(len, handle_of), default=0)
    part.legend(
        handle_of.values(),
        handle_of,
        loc="outside lower left",
        ncols=110 // (widest + 8) or 1,
        borderaxespad=0,
    )


@contextmanager
def styled(hashsalt: str | None = None) -> Iterator[None]:
    """Use the report's style instead of the user's matplotlibrc."""
    with matplotlib.rc_context({"svg.hashsalt": hashsalt}, fname=STYLE), warnings.catch_warnings():
        # The font lacks some scripts, but SVG uses the browser's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def svg(plots: Sequence[Plot]) -> str:
    """Return the plots as an SVG element for a page, with a title and a description, without links
    and scripts; the same plots give the same text, and no two plots have the same ids.
    """
    titles = " ".join(plot.title for plot in plots)
    captions = " ".join(plot.caption for plot in plots)
    title = html.escape(plain(titles))
    description = html.escape(plain(captions))
    file = io.StringIO()
    with styled(title):
        about = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure(plots).savefig(file, format="svg", metadata=about)
    whole = file.getvalue()
    element = whole[whole.index("<svg ") :]
    element = re.sub(r' (xmlns(:\w+)?|version)="[^"]*"', "", element)
    element = re.sub('<g id="[^"]*"', "<g", element)
    element = element.replace("xlink:href", "href").replace("'DejaVu Sans'", FONTS)
    start = element.index(">") + 1
    attributes = element[len("<svg") : start]  # with the > that ends them
    return (
        f'<svg data-generator="{GENERATOR}" role="img"{attributes}'
        f"<title>{title}</title><desc>{description}</desc>{element[start:]}"
    )


def pdf(plots: Sequence[Plot]) -> bytes:
    """Return the plots as a PDF page of their size; the same plots give the same bytes."""
    file = io.BytesIO()
    about = {"Creator": GENERATOR, "Producer": GENERATOR, "CreationDate": None}
    logging.getLogger("fontTools.subset").setLevel(logging.WARNING)  # it logs each omitted glyph
    with styled():
        about |= {"Title": plain(plots[0].title)}
        figure(plots).savefig(file, format="pdf", metadata=about)
    return file.getvalue()


def short(text: str, width: int = 28) -> str:
    """Return a name on lines of about so many characters, without control characters."""
    return "\n".join(textwrap.wrap(plain(text), width))


def percent_axis(axis: Axis) -> None:
    """Move an axis of percentages so that it does not leave 0 to 100; cut it if it is longer."""
    low, high = axis.get_view_interval()
    least, most = axis.get_data_interval()
    bottom = min(least, 0)
    top = max(most, 100)
    move = max(0, bottom - low) or min(0, top - high)
    axis.set_view_interval(max(low + move, bottom), min(high + move, top), ignore=True)


def figure_title(report: Report, cells: Iterable[Cell], split: str = "") -> str:
    """Return what the scores of cells are, such as "test entity F1"; of several metrics, "test
    score".
    """
    titles = set[str]()
    for cell in cells:
        titles.update(metric_title(run, report.metric) for run in cell.runs)
    title = titles.pop() if len(titles) == 1 else "score"
    return f"{split or report.split_title} {title}"


def row_titles(report: Report) -> dict[Key, str]:
    return names(report.rows, report.by_row, report.task_titles)


def percents(cell: Cell) -> list[float]:
    """Return each run's figure in percent."""
    return [100 * figure for figure in cell.figures]
