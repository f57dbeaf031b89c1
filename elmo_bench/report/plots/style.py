"""The one style of a report's plots, and their files: SVG and PDF."""

import io
import logging
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure, SubFigure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from elmo_bench.files import plain

from .. import names
from ..escape import xml
from ..grids import heads
from ..labels import labels_of
from ..table import Cell, Key, Report

GENERATOR = "elmo-bench report"  # job=report overwrites only pictures with this mark
WIDTH = 7.2  # inches
LINE = 0.2  # inches; the height of a line of text
NAME = 28  # characters; longer names are wrapped
INK, SOFT, FAINT, PAPER = "#1b1f24", "#555d66", "#d5d9de", "#ffffff"
# After Okabe and Ito (2008), dark enough for a contrast of 3:1 on white.
COLORS = ("#0072b2", "#c14f00", "#00805c", "#b3508c", "#8a6d00", "#5b5bd6")
MARKERS = ("o", "s", "^", "D", "v", "P", "p")
DASHES = ("-", "--", "-.", (0, (6, 1.5, 1.5, 1.5, 1.5, 1.5)))
FADED = 0.7  # opacity of the marks of single runs
DOT = 4  # points across
FONTS = "system-ui, -apple-system, 'Segoe UI', Arial, 'DejaVu Sans', sans-serif"
SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # part of matplotlib, so the layout is the same everywhere
    "font.size": 8,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a name is not mathematics
    "axes.titlesize": 8,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": SOFT,
    "axes.linewidth": 0.7,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.6,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "lines.linewidth": 1.4,
    "lines.markersize": DOT,
    "lines.markeredgewidth": 0.9,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,  # TrueType, for searchable text
}


class Look(NamedTuple):
    """The style of a series, distinct in colour and in black and white."""

    color: str
    marker: str
    dashes: Any

    def line(self, **others: Any) -> dict[str, Any]:
        """Return arguments of `Axes.plot` for a line without marks."""
        return {"color": self.color, "linestyle": self.dashes} | others

    def marks(self, **others: Any) -> dict[str, Any]:
        """Return arguments of `Axes.plot` for marks without a line."""
        return {"color": self.color, "linestyle": "none", "marker": self.marker} | others


PLAIN = Look(SOFT, "X", (0, (1.2, 1.2)))  # style of a baseline
RUN = Look(INK, "o", "-")  # style of what all series share, in legends


def look(number: int) -> Look:
    """Return the style of a series; neighbours and equal colours differ in mark and dashes."""
    dashes = DASHES[(number + number // len(COLORS)) % len(DASHES)]
    return Look(COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)], dashes)


class Plot(NamedTuple):
    """A plot that is drawn into a part of a figure, which is `height` inches high."""

    title: str  # a sentence: what is shown
    caption: str  # how to read it
    height: float
    draw: Callable[[SubFigure], None]


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
    return drawn


@contextmanager
def styled() -> Iterator[None]:
    """Use the report's style instead of the user's matplotlibrc."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The font lacks some scripts, but SVG uses the browser's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def svg(plots: Sequence[Plot], headings: Sequence[str] = ()) -> bytes:
    """Return the plots as an SVG file on white; the same plots give the same bytes."""
    text = _svg(plots, headings).replace(
        "<svg ", f'<svg data-generator="{GENERATOR}" xmlns="http://www.w3.org/2000/svg" ', 1
    )
    return text.encode()


def inline(plot: Plot) -> str:
    """Return a plot as an SVG element for a page, without links and scripts."""
    return re.sub(r' (width|height)="[\d.]+pt"', "", _svg([plot]), count=2)


def _svg(plots: Sequence[Plot], headings: Sequence[str] = ()) -> str:
    """Return matplotlib's SVG without namespaces, with a title and a description.

    No two plots of a page have the same ids.
    """
    file = io.StringIO()
    with styled():
        matplotlib.rcParams["svg.hashsalt"] = plain(" ".join(plot.title for plot in plots))
        about = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        figure(plots, headings).savefig(file, format="svg", metadata=about)
    text = file.getvalue()
    text = re.sub(r' (xmlns(:\w+)?|version)="[^"]*"', "", text[text.index("<svg ") :])
    text = re.sub('<g id="[^"]*"', "<g", text)
    text = text.replace("xlink:href", "href").replace("'DejaVu Sans'", FONTS)
    title = f"<title>{xml(' '.join(plot.title for plot in plots))}</title>"
    description = f"<desc>{xml(' '.join(plot.caption for plot in plots))}</desc>"
    start = text.index(">") + 1
    return f'<svg role="img"{text[4:start]}{title}{description}{text[start:]}'


def pdf(plots: Sequence[Plot], headings: Sequence[str] = ()) -> bytes:
    """Return the plots as a PDF page of their size; the same plots give the same bytes."""
    file = io.BytesIO()
    about = {"Creator": GENERATOR, "Producer": GENERATOR, "CreationDate": None}
    logging.getLogger("fontTools.subset").setLevel(logging.WARNING)  # it logs each omitted glyph
    with styled():
        figure(plots, headings).savefig(
            file, format="pdf", metadata=about | {"Title": plain(plots[0].title)}
        )
    return file.getvalue()


def legend(part: SubFigure, entries: Sequence[tuple[Mapping[str, Any], str]]) -> None:
    """Add a legend of styles and their meanings below the axes."""
    handles = [Line2D([], [], label=plain(text), **style) for style, text in entries]
    longest = max((len(text) for _, text in entries), default=1)
    columns = max(1, min(len(entries), 110 // (longest + 8)))
    part.legend(handles=handles, loc="outside lower left", ncols=columns, borderaxespad=0)


def legend_height(entries: int) -> float:
    """Return the room for a legend in inches, if it has few long entries."""
    return LINE * -(-entries // 2)


def grid_axes(part: SubFigure, count: int, across: int) -> list[Axes]:
    """Return axes in rows of `across`; places without axes stay empty."""
    down = -(-count // across)
    axes = [*part.subplots(down, across, squeeze=False).flat]
    for spare in axes[count:]:
        spare.set_axis_off()
    return axes[:count]


def short(text: str, width: int = NAME) -> str:
    """Return a name on lines of about so many characters, without control characters."""
    return "\n".join(textwrap.wrap(plain(text), width)) or ""


def value_axis(axis: Any, ticks: int) -> None:
    """Set a grid with at most `ticks` round intervals; the axis spans at least 1, and where all
    values are percentages it does not leave 0 to 100.
    """
    low, high = axis.get_view_interval()
    least, most = axis.get_data_interval()
    more = max(1 - (high - low), 0) / 2
    low, high = low - more, high + more
    if 0 <= least <= most <= 100:
        low, high = max(low, 0.0), min(high, 100.0)
    axis.set_view_interval(low, high, ignore=True)
    axis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 5, 10]))
    axis.grid(True)


def metric(report: Report, split: str | None = None, cells: Sequence[Cell] | None = None) -> str:
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
    return {column: titles[column] for column in heads(report)}


def column_looks(report: Report) -> dict[Key, Look]:
    """Return the style of each column; the baseline is grey."""
    others = [column for column in heads(report) if column != report.baseline]
    plain_look = {} if report.baseline is None else {report.baseline: PLAIN}
    return plain_look | {column: look(number) for number, column in enumerate(others)}


def percents(cell: Cell) -> list[float]:
    """Return each run's figure in percent."""
    return [100 * figure for figure in cell.figures]


def runs_each(counts: set[int]) -> str:
    """Return a phrase with the number of runs of each mean.

    >>> runs_each({3}), runs_each({3, 1, 2})
    ('3 each', '1 to 3 each')
    """
    low, high = min(counts), max(counts)
    return f"{low} each" if low == high else f"{low} to {high} each"
