"""Small line charts as SVG, their colours left to the page's style sheet."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from .escape import xml

WIDTH, HEIGHT = 420, 280
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 12, 44
KINDS = 6  # how many colours the style sheet has
DASHES = ("none", "6 3", "2 3", "8 3 2 3")


class Point(NamedTuple):
    """`spread` is half the height of the bar through it."""

    x: float
    y: float
    spread: float = 0.0


class Series(NamedTuple):
    """A name and its lines, which share colour and dashes."""

    name: str
    lines: list[list[Point]]


def chart(series: Sequence[Series], *, x: str, y: str, marks: Sequence[tuple[float, str]]) -> str:
    """An SVG element with a title to be read aloud; `marks` are the x axis's, with their texts."""
    points = [point for each in series for line in each.lines for point in line]
    xs = [*(mark for mark, _ in marks), *(point.x for point in points)]
    room = 0.06 * (max(xs) - min(xs)) or 1.0
    left, right = min(xs) - room, max(xs) + room
    up = _ticks(min(p.y - p.spread for p in points), max(p.y + p.spread for p in points))

    def at(px: float, py: float) -> tuple[float, float]:
        return (
            LEFT + (px - left) / (right - left) * (WIDTH - LEFT - RIGHT),
            TOP + (up[-1] - py) / (up[-1] - up[0]) * (HEIGHT - TOP - BOTTOM),
        )

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img"><title>{xml(f"{y} by {x}")}</title>']
    for tick in up:
        _, height = at(left, tick)
        parts.append(f'<path class="grid" d="M{LEFT} {height:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{height + 4:.1f}" text-anchor="end">{tick:g}</text>')
    for mark, text in marks:
        parts.append(
            f'<text x="{at(mark, up[0])[0]:.1f}" y="{HEIGHT - BOTTOM + 18}" '
            f'text-anchor="middle">{xml(text)}</text>'
        )
    parts.append(
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - 6}" '
        f'text-anchor="middle">{xml(x)}</text>'
    )
    for number, each in enumerate(series):
        parts.append(
            f'<g class="line{number % KINDS}" '
            f'stroke-dasharray="{dashes(number)}"><title>{xml(each.name)}</title>'
        )
        for line in each.lines:
            corners = [at(point.x, point.y) for point in line]
            parts.append(
                f'<polyline points="{" ".join(f"{px:.1f},{py:.1f}" for px, py in corners)}"/>'
            )
            for point, (px, py) in zip(line, corners, strict=True):
                if point.spread:
                    ends = [at(point.x, point.y + sign * point.spread)[1] for sign in (1, -1)]
                    parts.append(
                        f'<path d="M{px:.1f} {ends[0]:.1f}V{ends[1]:.1f}" stroke-dasharray="none"/>'
                    )
                parts.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.5"/>')
        parts.append("</g>")
    return "".join([*parts, "</svg>"])


def arrange(plots: Sequence[tuple[str, str, Sequence[Series]]], style: str) -> str:
    """Charts with their titles and legends, two side by side, as an SVG that needs nothing else."""
    lines = max(len(series) for _, _, series in plots)
    width, height = WIDTH + 20, HEIGHT + 30 + 20 * lines
    across = min(2, len(plots))
    whole = across * width, -(-len(plots) // 2) * height
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{whole[0]}" height="{whole[1]}" '
        f'viewBox="0 0 {whole[0]} {whole[1]}" '
        'style="font: 14px system-ui, sans-serif">'
        f'<style>{style}</style><rect width="100%" height="100%" style="fill: var(--paper)"/>'
    ]
    for number, (title, drawn, series) in enumerate(plots):
        parts.append(f'<g transform="translate({number % 2 * width + 10} {number // 2 * height})">')
        parts.append(f'<text x="{LEFT}" y="20" font-weight="600">{xml(title)}</text>')
        parts.append(drawn.replace("<svg", f'<svg y="30" width="{WIDTH}" height="{HEIGHT}"', 1))
        for k, each in enumerate(series):
            y = HEIGHT + 30 + 20 * k
            line = f'class="line{k % KINDS}" stroke-dasharray="{dashes(k)}"'
            parts.append(
                f'<path {line} d="M{LEFT} {y + 10}h36"/><text x="{LEFT + 46}" '
                f'y="{y + 15}">{xml(each.name)}</text>'
            )
        parts.append("</g>")
    return "".join([*parts, "</svg>\n"])


def dashes(number: int) -> str:
    """How a series is dashed: two of one colour, and neighbours in print, look different."""
    return DASHES[(number + number // KINDS) % len(DASHES)]


def _ticks(low: float, high: float) -> list[float]:
    """Four to seven round numbers that span low to high."""
    reach = high - low or abs(high) or 1.0
    step = 10.0 ** math.floor(math.log10(reach / 4))
    step *= next(factor for factor in (1, 2, 2.5, 5, 10) if reach / (step * factor) <= 5)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(step * k, 12) for k in range(first, max(last, first + 1) + 1)]
