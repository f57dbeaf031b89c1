"""The sheet, axes and style of a report's figures.

Lengths are inches from the top left, sizes of fonts and marks points.
"""

import math
import textwrap
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from ..escape import plain

GENERATOR = "elmo-bench report"  # job=report overwrites only pictures with this mark
WIDE, SCREEN, NARROW = 7.2, 8.0, 3.5  # a page of paper, a screen, a phone
INK, SOFT, FAINT, PAPER = "#1b1f24", "#555d66", "#d5d9de", "#ffffff"
# After Okabe and Ito (2008), dark enough for a contrast of 3:1 on white, even if FADED.
COLORS = ("#0072b2", "#c14f00", "#00805c", "#b3508c", "#8a6d00", "#5b5bd6")
FADED = 0.75  # opacity of the marks of single runs
MARKERS = ("o", "s", "^", "D", "v", "P", "p")
DASHES = ((), (6, 2), (6, 2, 1.5, 2), (6, 1.5, 1.5, 1.5, 1.5, 1.5))
SIZE, HEADING = 8, 10  # of text
# Inches: gap between panels, left margin for the y axis, right margin for half of the last x label.
GUTTER, NUMBERS, EDGE = 0.16, 0.33, 0.06
LINE = 0.155  # height of a line of text
SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # part of matplotlib, so the layout is the same everywhere
    "font.size": SIZE,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a name is not mathematics
    "axes.edgecolor": SOFT,
    "axes.facecolor": "none",
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
    "xtick.major.pad": 3,
    "ytick.major.pad": 3,
    "lines.linewidth": 1.4,
    "lines.markersize": 4,
    "lines.solid_capstyle": "round",
    "lines.dash_capstyle": "butt",
    "svg.fonttype": "none",
    "svg.hashsalt": GENERATOR,
    "pdf.fonttype": 42,  # TrueType, for searchable text
}


class Look(NamedTuple):
    """The style of a series, distinct in colour and in black and white."""

    color: str
    marker: str
    dashes: tuple[float, ...]

    def line(self, **others: Any) -> dict[str, Any]:
        """Return arguments of `Axes.plot` for a line without marks."""
        return {"color": self.color, "dashes": self.dashes or (None, None)} | others

    def marks(self, size: float, **others: Any) -> dict[str, Any]:
        """Return arguments of `Axes.plot` for marks without a line; `size` is in points."""
        style = {"linestyle": "none", "marker": self.marker, "markersize": size}
        return style | {"color": self.color, "markeredgewidth": 0.9} | others


PLAIN = Look(SOFT, "X", (1.2, 1.2))  # style of a baseline


def look(number: int) -> Look:
    """Return the style of a series; neighbours and equal colours differ in mark and dashes."""
    dashes = DASHES[(number + number // len(COLORS)) % len(DASHES)]
    return Look(COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)], dashes)


class Sheet:
    """A figure of fixed width that is filled from top to bottom.

    `top` is the position of the next element, in inches, and `finish` sets the figure's height.
    """

    def __init__(self, width: float) -> None:
        self.width, self.top = width, 0.03
        self.figure = Figure(figsize=(width, 1))
        self._panels: list[tuple[Axes, float, float, float, float]] = []
        self._texts: list[tuple[Any, float]] = []

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """Add empty axes; the caller adds grid lines and ticks."""
        place = left / self.width, 0.0, width / self.width, 1.0  # `finish` sets the final place
        axes = self.figure.add_axes(place, label=str(len(self._panels)))
        self._panels.append((axes, left, top, width, height))
        return axes

    def text(self, left: float, top: float, text: str, **style: Any) -> None:
        """Add a line of text, whose middle is half a line below `top`."""
        style = {"transform": self.figure.dpi_scale_trans} | style
        placed = self.figure.text(left, 0, plain(text), va="center_baseline", **style)
        self._texts.append((placed, top + LINE / 2))

    def lines(self, left: float, text: str, width: float, **style: Any) -> None:
        """Add a paragraph at `top`, and move `top` below it."""
        for line in wrapped(text, width, weight=style.get("weight", "normal")):
            self.text(left, self.top, line, **style)
            self.top += LINE

    def name(self, right: float, middle: float, lines: Sequence[str]) -> None:
        """Add the name of a panel's row: right-aligned lines of text, centred at `middle`."""
        for number, line in enumerate(lines):
            self.text(right, middle + LINE * (number - len(lines) / 2), line, ha="right")

    def legend(self, entries: Sequence[tuple[Sequence[Line2D], str]]) -> None:
        """Add a legend of marks and their meanings, and move `top` below it."""
        room, gap = 0.28, 0.18
        left = 0.0
        for marks, text in entries:
            reach = room + text_width(text) + gap
            if left and left + reach - gap > self.width:
                left, self.top = 0.0, self.top + LINE + 0.02
            box = self.axes(left, self.top, room - 0.06, LINE)
            box.set_axis_off()
            box.set(xlim=(0, 1), ylim=(0, 1))
            for mark in marks:
                box.add_line(mark)
            self.text(left + room, self.top, text)
            left += reach
        self.top += LINE + 0.02 if entries else 0

    def panel_width(self, across: int) -> float:
        """Return the width of axes for `across` panels side by side."""
        return (self.width - GUTTER * (across - 1)) / across - NUMBERS - EDGE

    def panels(
        self, titles: Sequence[tuple[str, str]], *, across: int, height: float
    ) -> list[Axes]:
        """Add panels in rows of `across`; above each are its title (bold) and its y axis title."""
        width = self.panel_width(across) + NUMBERS + EDGE
        panels = []
        for first in range(0, len(titles), across):
            row = titles[first : first + across]
            bold = [wrapped(title, width, weight="bold") if title else [] for title, _ in row]
            units = [wrapped(unit, width) for _, unit in row]
            depth, below = max(map(len, bold)), max(map(len, units))
            bottom = self.top + (depth + below) * LINE + 0.06
            for number, (title, unit) in enumerate(zip(bold, units, strict=True)):
                left = number * (width + GUTTER)
                for k, line in enumerate(title):
                    self.text(left, self.top + k * LINE, line, weight="bold")
                for k, line in enumerate(unit):
                    self.text(left, bottom - 0.06 + (k - len(unit)) * LINE, line)
                panels.append(self.axes(left + NUMBERS, bottom, self.panel_width(across), height))
            self.top = bottom + height + 0.19 + LINE + 0.08
        return panels

    def finish(self) -> Figure:
        """Return the figure, with the height of its content."""
        self.figure.set_size_inches(self.width, self.top)
        for axes, left, top, width, height in self._panels:
            below = self.top - top - height
            axes.set_position(
                (
                    left / self.width,
                    below / self.top,
                    width / self.width,
                    height / self.top,
                )
            )
        for text, top in self._texts:
            text.set_y(self.top - top)
        return self.figure


def key(*styles: Mapping[str, Any]) -> list[Line2D]:
    """Return the legend's lines and marks for these styles: full-width lines, centred marks."""
    marks = []
    for style in styles:
        ends = [0.5] if style.get("linestyle") == "none" else [0.0, 1.0]
        style = dict(style)
        dashes = style.pop("dashes", None)
        line = Line2D(ends, [0.5] * len(ends), clip_on=False, **style)
        if dashes and dashes[0] is not None:
            line.set_dashes(dashes)
        marks.append(line)
    return marks


class Plot(NamedTuple):
    """A plot that is drawn when its width is known."""

    title: str  # a sentence: what is shown
    description: str  # its main figures
    caption: str  # how to read it
    draw: Callable[[Sheet], None]


def figure(plots: Sequence[Plot], width: float = WIDE, headings: Sequence[str] = ()) -> Figure:
    """Draw the plots below each other, each with its heading, if there are any."""
    with styled():
        sheet = Sheet(width)
        for number, plot in enumerate(plots):
            sheet.top += 0.3 if number else 0.0
            if headings:
                sheet.lines(0.0, headings[number], width, weight="bold", size=HEADING)
                sheet.top += 0.08
            plot.draw(sheet)
        return sheet.finish()


@contextmanager
def styled() -> Iterator[None]:
    """Use the report's style instead of the user's matplotlibrc."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # The font lacks some scripts, but SVG uses the browser's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def text_width(text: str, *, size: float = SIZE, weight: str = "normal") -> float:
    """Return a line's width in matplotlib's font, in inches; browsers' fonts are rarely wider."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    points, _, _ = text_to_path.get_text_width_height_descent(plain(text), font, ismath=False)
    return points / 72


def wrapped(text: str, width: float, *, weight: str = "normal") -> list[str]:
    """Wrap a text to lines of about this width, in inches, between words if possible."""
    text = plain(text)
    per_character = max(text_width(text, weight=weight) / max(1, len(text)), 0.03)
    return textwrap.wrap(text, max(4, int(width / per_character))) or [""]


def per_inch(axes: Axes) -> float:
    """Return the length of an inch in units of the x axis, whose limits must be set."""
    low, high = axes.get_xlim()
    return float((high - low) * axes.figure.dpi / axes.bbox.width)


def beside(values: Sequence[float], step: float) -> list[float]:
    """Return a shift for each mark, so that equal values do not hide each other.

    >>> beside([0.5, 0.7, 0.5], 1.0)
    [-0.5, 0.0, 0.5]
    """
    met: Counter[float] = Counter()
    shifts = []
    for value in values:
        shifts.append((met[value] - (values.count(value) - 1) / 2) * step)
        met[value] += 1
    return shifts


UNLIMITED = (-math.inf, math.inf)


def value_axis(axis: Any, ticks: int, limits: tuple[float, float] = UNLIMITED) -> None:
    """Set a grid with at most `ticks` round intervals; the axis spans at least 1, in the unit of
    its values, and stays within the limits.
    """
    low, high = axis.get_view_interval()
    more = max(1 - (high - low), 0) / 2
    axis.set_view_interval(*within((low - more, high + more), limits), ignore=True)
    axis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 5, 10]))
    axis.grid(True)


def percent_axis(axis: Any, ticks: int) -> None:
    """Set a value axis for percentages, within 0 to 100 unless values lie beyond."""
    value_axis(axis, ticks, percent_limits(axis.get_data_interval()))


def percent_limits(values: Iterable[float]) -> tuple[float, float]:
    """Return 0 and 100, extended to include all values.

    >>> percent_limits([3.0, 120.0])
    (0.0, 120.0)
    """
    values = [*values]
    return min(0.0, *values), max(100.0, *values)


def within(span: tuple[float, float], limits: tuple[float, float]) -> tuple[float, float]:
    """Shift an interval of an axis into its limits; a longer one becomes the limits.

    >>> within((-2.0, 10.0), (0.0, 100.0)), within((-5.0, 105.0), (0.0, 100.0))
    ((0.0, 12.0), (0.0, 100.0))
    """
    length = min(span[1] - span[0], limits[1] - limits[0])
    low = min(max(span[0], limits[0]), limits[1] - length)
    return low, low + length


def category_axis(axes: Axes, marks: Mapping[float, str], title: str) -> None:
    """Set the x axis with a text at each position, omitting texts that would overlap."""
    inch = per_inch(axes)

    def fit(left: float, right: float) -> bool:
        texts = text_width(marks[left]) + text_width(marks[right])
        return (right - left) / inch > texts / 2 + 0.06

    positions = sorted(marks)
    shown = positions[:1]
    if len({round(right - left, 9) for left, right in pairwise(positions)}) == 1:
        steps = (positions[::step] for step in range(1, len(positions) + 1))
        shown = next(each for each in steps if all(fit(*pair) for pair in pairwise(each)))
    else:
        for place in positions[1:]:
            shown += [place] if fit(shown[-1], place) else []
    axes.set_xticks(shown, [plain(marks[place]) for place in shown])
    axes.set_xlabel(plain(title), labelpad=3)
