"""Fit tables to the width of the terminal without cutting figures."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby
from typing import Literal, NamedTuple

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from . import escape
from .grid import Grid, without
from .write import repeated_left_out

NAME = 12  # minimum width of a column of names, unless its names are shorter
SHORTEST = 4  # narrower columns of names are unreadable
GAP = 2  # characters between columns: the table's own and the padding


class Fitted(NamedTuple):
    """A grid that rich's console renders at any width.

    Names are wrapped and shortened first. If that is not enough, all names except the last move
    above their rows. A grid that is still too wide is split into several tables.
    """

    grid: Grid

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        grid, groups, divided = fitting(self.grid, options.max_width)
        figures = self.grid.heads[self.grid.left :]
        left_out = [head for head in figures if head not in grid.heads]
        yield Text(escape.plain(grid.title), style="table.title")
        for number, part in enumerate(divided):
            if number:
                yield Text()
            yield _table(grid, (), *part)
            for names, rows in groups:
                if names:
                    yield Text(names, style="italic")
                yield _table(grid, rows, *part)
        # Files and pipes show no bold text, so the caption must not explain it.
        caption = grid.about if console.color_system else grid.caption
        if left_out:
            caption += f" Left out of {options.max_width} columns: {', '.join(left_out)}."
        if caption:
            yield Text(escape.plain(caption), style="table.caption")
        yield Text()


def grouped(grid: Grid) -> tuple[list[tuple[str, list[int]]], Grid]:
    """Group consecutive rows by all names except the last; return the groups and the grid without
    these names.
    """
    num_leading = grid.left - 1
    names = [escape.plain(", ".join(row[:num_leading])) for row in grid.rows]
    groups = groupby(range(len(names)), key=names.__getitem__)
    return [(name, [*rows]) for name, rows in groups], grid._replace(
        heads=grid.heads[num_leading:],
        rows=[row[num_leading:] for row in grid.rows],
        bold={(r, c - num_leading) for r, c in grid.bold},
        left=1,
        hover={},
    )


def merged(grid: Grid) -> Grid:
    """Join all names of a row in one column, without repetitions."""
    num_merged = grid.left - 1
    return grid._replace(
        heads=[", ".join(filter(None, grid.heads[: grid.left])), *grid.heads[grid.left :]],
        rows=[[", ".join(dict.fromkeys(r[: grid.left])), *r[grid.left :]] for r in grid.rows],
        bold={(r, c - num_merged) for r, c in grid.bold},
        left=1,
        hover={},
    )


def terminal(grid: Grid) -> Fitted:
    """Return a renderable for rich's console."""
    return Fitted(grid)


class Part(NamedTuple):
    """The columns of one table of a split grid, and their widths in characters."""

    columns: list[int]
    widths: list[int]


class Layout(NamedTuple):
    """A fitted grid: groups of rows with a name above each, and the division of its columns."""

    grid: Grid
    groups: list[tuple[str, list[int]]]
    divided: list[Part]


def fitting(grid: Grid, width: int) -> Layout:
    """Return the layout that omits the fewest spare columns to fit in one table.

    If no omission suffices, the layout has all columns, in several tables.
    """
    smaller, spare = grid, [head for head in grid.spare if head in grid.heads]
    full = candidate = layout(grid, width)
    while len(candidate.divided) > 1 and spare:
        smaller = without(smaller, {smaller.heads.index(spare.pop(0))})
        candidate = layout(smaller, width)
    return candidate if len(candidate.divided) == 1 else full


def layout(grid: Grid, width: int) -> Layout:
    """Return the layout with all columns of figures."""
    groups, divided = [("", [*range(len(grid.rows))])], parts(grid, width)
    if grid.left < 2 or len(divided) == 1:
        return Layout(grid, groups, divided)
    named_groups, narrower = grouped(grid)
    if 2 * len(named_groups) > len(grid.rows):
        named_groups, narrower = groups, merged(grid)
    other = parts(narrower, width)
    is_cut = min(divided[0].widths[: grid.left]) < SHORTEST
    if is_cut or len(other[0].columns) - 1 > len(divided[0].columns) - grid.left:
        return Layout(narrower, named_groups, other)
    return Layout(grid, groups, divided)


def parts(grid: Grid, width: int) -> list[Part]:
    """Divide the columns of a grid for a terminal of this width, in characters."""
    columns = [
        [escape.plain(text) for text in texts] for texts in zip(grid.heads, *grid.rows, strict=True)
    ]
    names, figures = columns[: grid.left], columns[grid.left :]
    # Heads wrap between words; figures never wrap.
    wide = [max(_word(head), *map(cell_len, texts)) for head, *texts in figures]
    narrow = (width - max(wide, default=0)) // max(1, len(names)) - GAP
    cap = max(1, min(NAME, narrow))
    least = [max(1, min(max(map(_word, texts)), cap)) for texts in names]
    most = [max(1, *map(cell_len, texts)) for texts in names]
    blocks: list[list[int]] = [[]]
    for k, size in enumerate(wide):
        used = sum(least) + sum(wide[j] for j in blocks[-1]) + size
        if blocks[-1] and used + GAP * (len(least) + len(blocks[-1]) + 1) > width:
            blocks.append([])
        blocks[-1].append(k)
    divided = []
    for block in blocks:
        room = width - GAP * (len(names) + len(block)) - sum(wide[k] for k in block)
        sizes = [*_shares(least, most, room), *(wide[k] for k in block)]
        divided.append(Part([*range(len(names)), *(len(names) + k for k in block)], sizes))
    return divided


def _word(text: str) -> int:
    return max(map(cell_len, text.split()), default=0)


def _shares(least: Sequence[int], most: Sequence[int], room: int) -> list[int]:
    """Return widths between `least` and `most` that fill `room`; narrow columns grow first."""
    widths = [*least]
    remaining = room - sum(widths)
    while remaining > 0 and (open_ := [k for k, width in enumerate(widths) if width < most[k]]):
        widths[min(open_, key=widths.__getitem__)] += 1
        remaining -= 1
    return widths


def _table(
    grid: Grid, rows: Collection[int], columns: Sequence[int], widths: Sequence[int]
) -> Table:
    """Return a table of these rows without heads, or of the heads if `rows` is empty."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    table.show_header = not rows
    for column, width in zip(columns, widths, strict=True):
        justify: Literal["left", "right"] = "left" if column < grid.left else "right"
        title = _shortened(escape.plain(grid.heads[column]), width)
        table.add_column(Text(title), justify=justify, width=width)
    shown = repeated_left_out(grid)
    for row in rows:
        table.add_row(*_cells(grid, row, shown[row], columns, widths))
    return table


def _cells(
    grid: Grid, r: int, row: Sequence[str], columns: Sequence[int], widths: Sequence[int]
) -> Iterator[Text]:
    for column, width in zip(columns, widths, strict=True):
        text = _shortened(escape.plain(row[column]), width)
        yield Text(text, "bold" if (r, column) in grid.bold else "")


def _shortened(text: str, width: int) -> str:
    """Shorten each word to the width of its column."""
    words = text.split(" ")
    return " ".join(
        word if cell_len(word) <= width else f"{set_cell_size(word, max(1, width - 1))}…"
        for word in words
    )
