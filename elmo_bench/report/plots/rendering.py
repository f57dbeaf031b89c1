"""Render a report's figures as SVG in a page, and as SVG and PDF files for documents."""

import io
import logging
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from xml.etree import ElementTree

from matplotlib.figure import Figure

from ..escape import plain
from .drawing import (
    COLORS,
    FAINT,
    GENERATOR,
    INK,
    NARROW,
    PAPER,
    SCREEN,
    SOFT,
    WIDE,
    Plot,
    figure,
    styled,
)

# Colour -> variable of the page's style sheet, which has other colours for the dark mode.
VARIABLES = {color: f"--c{number}" for number, color in enumerate(COLORS)}
VARIABLES |= {INK: "--ink", SOFT: "--soft", FAINT: "--faint", PAPER: "--paper"}
MARGIN = 6  # points around a file's picture
SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
FONT = "system-ui, -apple-system, 'Segoe UI', Arial, 'DejaVu Sans', sans-serif"


def inline(plot: Plot) -> str:
    """Return a plot for a page, twice: for screens (`class="wide"`) and phones (`class="narrow"`).

    The page's style sheet shows one of them, and defines the variables of their colours.
    """
    alternative = f"{plot.title} {plot.description}"
    drawn = {"wide": figure([plot], SCREEN), "narrow": figure([plot], NARROW)}
    return "".join(
        f'<div class="{name}">{inline_svg(each, alternative)}</div>' for name, each in drawn.items()
    )


def inline_svg(figure: Figure, alternative_text: str) -> str:
    """Return an SVG element for a page, scaled to its container, without ids, scripts and links.

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
    """Return the plots as an SVG file on white; the same plots give the same bytes."""
    drawn = figure(plots, WIDE, headings)
    root = _svg(drawn, " ".join(f"{plot.title} {plot.description}" for plot in plots))
    width, height = (f"{72 * inches + 2 * MARGIN:.4g}" for inches in drawn.get_size_inches())
    corner = {"x": f"-{MARGIN}", "y": f"-{MARGIN}"}
    paper = ElementTree.Element("rect", corner, width=width, height=height, fill=PAPER)
    root.insert(2, paper)  # after title and description, so that it is below the drawing
    root.attrib = {"xmlns": SVG, "width": f"{width}pt", "height": f"{height}pt"} | root.attrib
    root.set("viewBox", f"-{MARGIN} -{MARGIN} {width} {height}")
    root.set("data-generator", GENERATOR)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=False) + b"\n"


def pdf(plots: Sequence[Plot], headings: Sequence[str] = ()) -> bytes:
    """Return the plots as a PDF page of their size; the same plots give the same bytes."""
    file, drawn = io.BytesIO(), figure(plots, WIDE, headings)
    about = {"Creator": GENERATOR, "Producer": GENERATOR, "CreationDate": None}
    logging.getLogger("fontTools.subset").setLevel(logging.WARNING)  # it logs each omitted glyph
    with styled():
        drawn.savefig(file, format="pdf", metadata=about | {"Title": plain(plots[0].title)})
    return file.getvalue()


def _svg(figure: Figure, alternative_text: str) -> ElementTree.Element:
    """Return matplotlib's SVG, reduced to the drawing."""
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
    """Yield the drawn elements in order, without groups; runs of equal marks become one path."""
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
    """Return the path of a shape, moved from the origin: a circle if curved, else a polygon.

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
    """Round the numbers of a path to hundredths of a point, and remove blanks.

    >>> _short("M 1.23456 -2.0  L 3 4 ")
    'M1.23 -2L3 4'
    """
    text = re.sub(r"-?\d+\.\d+", lambda match: f"{round(float(match[0]), 2):g}", numbers)
    return re.sub(r"\s*([A-Za-z])\s*", r"\1", text).strip()


def _style(*elements: ElementTree.Element) -> str:
    """Merge the elements' style declarations; of fonts, only size and weight are kept."""
    declared: dict[str, str] = {}
    for element in elements:
        for one in filter(None, element.get("style", "").split(";")):
            name, _, value = one.partition(":")
            declared[name.strip()] = value.strip()
    declared.pop("font-family", None)  # the root element defines it
    if "stroke" in declared:
        declared.setdefault("stroke-width", "1")  # overrides the page's style of paths
    if font := declared.pop("font", None):
        size = re.search(r"[\d.]+px", font)
        declared |= {"font-size": size[0]} if size else {}
        declared |= {"font-weight": "600"} if re.match("bold|[6-9]00", font) else {}
    return ";".join(f"{name}:{value}" for name, value in declared.items())
