"""What a report's figures are drawn on, and how they become SVG and PDF.

Lengths are inches from the top left, sizes of fonts and marks points.
"""

import io
import logging
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any, NamedTuple
from xml.etree import ElementTree

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.textpath import text_to_path
from matplotlib.ticker import MaxNLocator

from .escape import plain

GENERATOR = "elmo-bench report"  # the mark by which job=report knows its own pictures
WIDE, SCREEN, NARROW = 7.2, 8.0, 3.5  # a page of paper, a screen, a phone
INK, SOFT, FAINT, PAPER = "#1b1f24", "#555d66", "#d5d9de", "#ffffff"
# After Okabe and Ito (2008), dark enough for a contrast of 3:1 on white.
COLORS = ("#0072b2", "#c14f00", "#00805c", "#b3508c", "#8a6d00", "#5b5bd6")
# What the page's style sheet calls them, which has others for the dark.
VARIABLES = {color: f"--c{k}" for k, color in enumerate(COLORS)}
VARIABLES |= {INK: "--ink", SOFT: "--soft", FAINT: "--faint", PAPER: "--paper"}
MARKERS = ("o", "s", "^", "D", "v", "P", "p")
DASHES = ((), (6, 2), (6, 2, 1.5, 2), (6, 1.5, 1.5, 1.5, 1.5, 1.5))
SIZE, HEADING = 8, 10  # of text
MARGIN = 6  # points around a file's picture
# Inches between panels, left of one for the numbers of its y axis, right for half of its last x.
GUTTER, NUMBERS, EDGE = 0.16, 0.33, 0.06
LINE = 0.155  # from a line of text to the next
SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",  # comes with matplotlib: the same layout everywhere
    "font.size": SIZE,
    "text.color": INK,
    "text.parse_math": False,  # a $ in a name is a $
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
    "hatch.linewidth": 0.5,
    "svg.fonttype": "none",
    "svg.hashsalt": GENERATOR,
    "pdf.fonttype": 42,  # TrueType: text that can be searched
}
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
FONT = "system-ui, -apple-system, 'Segoe UI', Arial, 'DejaVu Sans', sans-serif"


class Look(NamedTuple):
    """How a series is drawn: told apart in colour as in black and white."""

    color: str
    marker: str
    dashes: tuple[float, ...]

    def line(self, **others: Any) -> dict[str, Any]:
        """For `Axes.plot`: a line without marks."""
        return {"color": self.color, "dashes": self.dashes or (None, None)} | others

    def marks(self, size: float, **others: Any) -> dict[str, Any]:
        """For `Axes.plot`: marks without a line."""
        style = {"linestyle": "none", "marker": self.marker, "markersize": size}
        return style | {"color": self.color, "markeredgewidth": 0.9} | others


PLAIN = Look(SOFT, "X", (1.2, 1.2))  # of a baseline


def look(number: int) -> Look:
    """Of a series by its number; neighbours, and two of one colour, differ in mark and dashes."""
    dashes = DASHES[(number + number // len(COLORS)) % len(DASHES)]
    return Look(COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)], dashes)


class Sheet:
    """A figure of a given width that is filled from top to bottom: what is placed at `top` and
    below moves it on, and `finish` gives the figure its height.
    """

    def __init__(self, width: float) -> None:
        self.width, self.top = width, 0.03
        self.figure = Figure(figsize=(width, 1))
        self._panels: list[tuple[Axes, float, float, float, float]] = []
        self._texts: list[tuple[Any, float]] = []

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        """An empty one: what it is to have, a grid say, is for the caller."""
        axes = self.figure.add_axes((0, 0, 1, 1), label=str(len(self._panels)))
        self._panels.append((axes, left, top, width, height))
        return axes

    def text(self, left: float, top: float, text: str, **style: Any) -> None:
        """A line of text whose middle is half a line below `top`."""
        style = {"transform": self.figure.dpi_scale_trans} | style
        placed = self.figure.text(left, 0, plain(text), va="center_baseline", **style)
        self._texts.append((placed, top + LINE / 2))

    def lines(self, left: float, text: str, width: float, **style: Any) -> None:
        """A paragraph at `top`, and `top` below it."""
        for line in wrapped(text, width, weight=style.get("weight", "normal")):
            self.text(left, self.top, line, **style)
            self.top += LINE

    def name(self, right: float, middle: float, lines: Sequence[str]) -> None:
        """What a line of a panel is called: lines of text that end left of it."""
        for number, line in enumerate(lines):
            self.text(right, middle + LINE * (number - len(lines) / 2), line, ha="right")

    def legend(self, entries: Sequence[tuple[Sequence[Line2D], str]]) -> None:
        """Marks and what they mean, in lines across, and `top` below them."""
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
        """Of the axes of so many panels side by side."""
        return (self.width - GUTTER * (across - 1)) / across - NUMBERS - EDGE

    def panels(
        self, titles: Sequence[tuple[str, str]], *, across: int, height: float
    ) -> list[Axes]:
        """Panels in rows of so many, each below its title (bold) and that of its y axis."""
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
        """The figure, as high as what is on it."""
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
    """What stands in a legend for what was drawn with these styles: lines across, marks amid."""
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
    """A figure that is drawn when its width is known."""

    title: str  # a sentence: what is shown
    description: str  # its main figures
    caption: str  # how to read it
    draw: Callable[[Sheet], None]


def figure(plots: Sequence[Plot], width: float = WIDE, headings: Sequence[str] = ()) -> Figure:
    """The plots below each other, each below its heading if there are any."""
    with styled():
        sheet = Sheet(width)
        for number, plot in enumerate(plots):
            sheet.top += 0.3 if number else 0.0
            if headings:
                sheet.lines(0.0, headings[number], width, weight="bold", size=HEADING)
                sheet.top += 0.08
            plot.draw(sheet)
        return sheet.finish()


def inline(plot: Plot) -> str:
    """A plot for a page, twice: for a screen (`class="wide"`) and for a phone (`class="narrow"`).

    The page's style sheet shows one of them, and has the variables for their colours.
    """
    alternative = f"{plot.title} {plot.description}"
    drawn = {"wide": figure([plot], SCREEN), "narrow": figure([plot], NARROW)}
    return "".join(
        f'<div class="{name}">{inline_svg(each, alternative)}</div>' for name, each in drawn.items()
    )


def inline_svg(figure: Figure, alternative_text: str) -> str:
    """An SVG element for a page, as wide as its place there, without ids, scripts and references.

    Colours are variables of the page's style sheet. The first sentence of the alternative text is
    the title, the rest the description.
    """
    root = _svg(figure, alternative_text)
    for element in root.iter():
        if style := element.get("style"):
            element.set("style", re.sub("#[0-9a-f]{6}", _variable, style))
    return ElementTree.tostring(root, encoding="unicode")


def _variable(match: re.Match[str]) -> str:
    return f"var({VARIABLES[match[0]]})" if match[0] in VARIABLES else match[0]


def standalone_svg(plots: Sequence[Plot], headings: Sequence[str] = ()) -> bytes:
    """The plots as an SVG file for a document, on white; the same bytes for the same plots."""
    drawn = figure(plots, WIDE, headings)
    root = _svg(drawn, " ".join(f"{plot.title} {plot.description}" for plot in plots))
    width, height = (f"{72 * inches + 2 * MARGIN:.4g}" for inches in drawn.get_size_inches())
    corner = {"x": f"-{MARGIN}", "y": f"-{MARGIN}"}
    paper = ElementTree.Element("rect", corner, width=width, height=height, fill=PAPER)
    root.insert(2, paper)  # below all but the title and the description
    root.attrib = {"xmlns": SVG, "width": f"{width}pt", "height": f"{height}pt"} | root.attrib
    root.set("viewBox", f"-{MARGIN} -{MARGIN} {width} {height}")
    root.set("data-generator", GENERATOR)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=False) + b"\n"


def pdf(plots: Sequence[Plot], headings: Sequence[str] = ()) -> bytes:
    """The plots as a PDF of one page, as large as they are; the same bytes for the same plots."""
    file, drawn = io.BytesIO(), figure(plots, WIDE, headings)
    about = {"Creator": GENERATOR, "Producer": GENERATOR, "CreationDate": None}
    logging.getLogger("fontTools.subset").setLevel(logging.WARNING)  # says what it leaves out
    with styled():
        drawn.savefig(file, format="pdf", metadata=about | {"Title": plain(plots[0].title)})
    return file.getvalue()


@contextmanager
def styled() -> Iterator[None]:
    """Draw in the report's style, whatever the user's matplotlibrc says."""
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A name in a script that the font does not have: SVG leaves it to the browser's fonts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(SETTINGS)
        yield


def _svg(figure: Figure, alternative_text: str) -> ElementTree.Element:
    """Matplotlib's SVG, without what only it needs."""
    file = io.BytesIO()
    with styled():
        figure.patch.set_visible(False)
        figure.savefig(file, format="svg", metadata={"Date": None})
    drawn = ElementTree.fromstring(file.getvalue())
    for element in drawn.iter():
        element.tag = element.tag.rpartition("}")[2]
    shapes = {path.get("id"): path for defs in drawn.iter("defs") for path in defs.iter("path")}
    view_box = " ".join(f"{float(n):.4g}" for n in drawn.get("viewBox", "").split())
    root = ElementTree.Element("svg", {"viewBox": view_box, "role": "img"})
    root.set("style", f"font-family:{FONT};stroke-linejoin:round")
    title, stop, rest = plain(alternative_text).partition(". ")
    ElementTree.SubElement(root, "title").text = title + stop.strip()
    if rest:
        ElementTree.SubElement(root, "desc").text = rest
    root.extend(_marks(drawn, shapes))
    return root


def _marks(
    parent: ElementTree.Element, shapes: dict[str | None, ElementTree.Element]
) -> Iterator[ElementTree.Element]:
    """What is drawn, in order and without groups; marks of a kind that follow each other are one
    path.
    """
    marks: dict[tuple[str, str], list[str]] = {}
    for element in _leaves(parent):
        kind = None
        if element.tag == "use":
            shape = shapes[element.get(f"{{{XLINK}}}href", "").removeprefix("#")]
            kind = shape.get("d", ""), _style(shape, element)
        if marks and kind not in marks:
            ((_, style), drawn) = marks.popitem()
            yield ElementTree.Element("path", {"d": "".join(drawn), "style": style})
        if kind:
            x, y = (float(element.get(axis, 0)) for axis in "xy")
            marks.setdefault(kind, []).append(_mark(kind[0], x, y))
        elif element.tag == "path" and (style := _style(element)) != "fill:none":
            yield ElementTree.Element("path", {"d": _short(element.get("d", "")), "style": style})
        elif element.tag == "text":
            about = {axis: _short(element.get(axis, "0")) for axis in "xy"}
            text = ElementTree.Element("text", about | {"style": _style(element)})
            text.text = element.text
            yield text
    for (_, style), drawn in marks.items():
        yield ElementTree.Element("path", {"d": "".join(drawn), "style": style})


def _leaves(parent: ElementTree.Element) -> Iterator[ElementTree.Element]:
    for element in parent:
        if element.tag == "g":
            yield from _leaves(element)
        elif element.tag != "defs":
            yield element


def _mark(shape: str, x: float, y: float) -> str:
    """A path of a shape around the origin, moved: a circle where it is curved, else a polygon.

    >>> _mark("M 0 -4 L 0 4", 10.0, 20.0)
    'M10 16l0 8'
    """
    numbers = [float(one) for one in re.findall(r"-?[\d.]+(?:e-?\d+)?", shape)]
    if "C" in shape:
        r = max(numbers)
        arc = f"a{r:.2f} {r:.2f} 0 1 0"
        return _short(f"M{x - r:.2f} {y:.2f}{arc} {2 * r:.2f} 0{arc} {-2 * r:.2f} 0z")
    points = list(zip(numbers[::2], numbers[1::2], strict=True))
    steps = "".join(
        f"l{there[0] - here[0]:.2f} {there[1] - here[1]:.2f}" for here, there in pairwise(points)
    )
    end = "z" if shape.strip().endswith("z") else ""
    return _short(f"M{x + points[0][0]:.2f} {y + points[0][1]:.2f}{steps}{end}")


def _short(numbers: str) -> str:
    """Hundredths of a point are enough.

    >>> _short("M 1.23456 -2.0  L 3 4 ")
    'M1.23 -2L3 4'
    """
    text = re.sub(r"-?\d+\.\d+", lambda match: f"{round(float(match[0]), 2):g}", numbers)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", text).strip()


def _style(*elements: ElementTree.Element) -> str:
    """The elements' declarations together; of fonts size and weight alone."""
    declared: dict[str, str] = {}
    for element in elements:
        for one in filter(None, element.get("style", "").split(";")):
            name, _, value = one.partition(":")
            declared[name.strip()] = value.strip()
    declared.pop("font-family", None)  # as of the whole
    if "stroke" in declared:
        declared.setdefault("stroke-width", "1")  # whatever the page says of paths
    if font := declared.pop("font", None):
        size = re.search(r"[\d.]+px", font)
        declared |= {"font-size": size[0]} if size else {}
        declared |= {"font-weight": "600"} if re.match("bold|[6-9]00", font) else {}
    return ";".join(f"{name}:{value}" for name, value in declared.items())


def text_width(text: str, *, size: float = SIZE, weight: str = "normal") -> float:
    """Of a line as matplotlib's own font sets it; those of browsers are hardly ever wider."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    points, _, _ = text_to_path.get_text_width_height_descent(plain(text), font, ismath=False)
    return points / 72


def wrapped(text: str, width: float, *, weight: str = "normal") -> list[str]:
    """The text in lines of about this width, broken between words where it can be."""
    text = plain(text)
    per_character = max(text_width(text, weight=weight) / max(1, len(text)), 0.03)
    return textwrap.wrap(text, max(4, int(width / per_character))) or [""]


def value_axis(axis: Any, ticks: int) -> None:
    """Round numbers and a faint grid, from a point on where all values are nearly one."""
    low, high = axis.get_view_interval()
    if high - low < 1:
        axis.set_view_interval((low + high - 1) / 2, (low + high + 1) / 2, ignore=True)
    axis.set_major_locator(MaxNLocator(nbins=ticks, steps=[1, 2, 5, 10]))
    axis.grid(True)


def category_axis(axes: Axes, width: float, marks: Mapping[float, str], title: str) -> None:
    """The x axis of a panel of this width, with a text at each place, as far as there is room."""
    low, high = map(float, axes.get_xlim())

    def fit(left: float, right: float) -> bool:
        room = (right - left) / (high - low) * width
        return room > (text_width(marks[left]) + text_width(marks[right])) / 2 + 0.06

    places = sorted(marks)
    shown = places[:1]
    if len({round(right - left, 9) for left, right in pairwise(places)}) == 1:
        steps = (places[::step] for step in range(1, len(places) + 1))
        shown = next(each for each in steps if all(fit(*pair) for pair in pairwise(each)))
    else:
        for place in places[1:]:
            shown += [place] if fit(shown[-1], place) else []
    axes.set_xticks(shown, [plain(marks[place]) for place in shown])
    axes.set_xlabel(plain(title), labelpad=3)
