"""A table on the terminal: whatever its width, no figure is cut."""

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

NAME = 12  # a name's column is never narrower, but for shorter names
SHORTEST = 4  # a column of names that is narrower says nothing
GAP = 2  # between columns: the table's own and the padding


class Fitted(NamedTuple):
    """A grid for rich's console: names are broken and shortened first; then all names but the last
    stand above their rows; what is still too wide stands in several tables below each other.
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
        # What is bold is not so in a file or a pipe.
        caption = grid.about if console.color_system else grid.caption
        if left_out:
            caption += f" Left out of {options.max_width} columns: {', '.join(left_out)}."
        if caption:
            yield Text(escape.plain(caption), style="table.caption")
        yield Text()


def grouped(grid: Grid) -> tuple[list[tuple[str, list[int]]], Grid]:
    """Which rows agree in all names but the last, by these names, and the grid without them."""
    others = grid.left - 1
    names = [escape.plain(", ".join(row[:others])) for row in grid.rows]
    groups = groupby(range(len(names)), key=names.__getitem__)
    return [(name, [*rows]) for name, rows in groups], grid._replace(
        heads=grid.heads[others:],
        rows=[row[others:] for row in grid.rows],
        bold={(r, c - others) for r, c in grid.bold},
        left=1,
        hover={},
    )


def merged(grid: Grid) -> Grid:
    """A grid with all names of a row in one column, a repeated one once."""
    more = grid.left - 1
    return grid._replace(
        heads=[", ".join(filter(None, grid.heads[: grid.left])), *grid.heads[grid.left :]],
        rows=[[", ".join(dict.fromkeys(r[: grid.left])), *r[grid.left :]] for r in grid.rows],
        bold={(r, c - more) for r, c in grid.bold},
        left=1,
        hover={},
    )


def terminal(grid: Grid) -> Fitted:
    """For rich's console."""
    return Fitted(grid)


class Part(NamedTuple):
    """Which columns stand side by side, and how wide each is."""

    columns: list[int]
    widths: list[int]


class Layout(NamedTuple):
    """A grid as it is shown: names above groups of its rows, and how its columns are divided."""

    grid: Grid
    groups: list[tuple[str, list[int]]]
    divided: list[Part]


def fitting(grid: Grid, width: int) -> Layout:
    """The layout with as few spare columns left out as make one table of it; if none does, the one
    with all.
    """
    smaller, spare = grid, [head for head in grid.spare if head in grid.heads]
    whole = found = layout(grid, width)
    while len(found.divided) > 1 and spare:
        smaller = without(smaller, {smaller.heads.index(spare.pop(0))})
        found = layout(smaller, width)
    return found if len(found.divided) == 1 else whole


def layout(grid: Grid, width: int) -> Layout:
    """The layout with all columns of figures."""
    groups, divided = [("", [*range(len(grid.rows))])], parts(grid, width)
    if grid.left < 2 or len(divided) == 1:
        return Layout(grid, groups, divided)
    above, fewer = grouped(grid)
    if 2 * len(above) > len(grid.rows):
        above, fewer = groups, merged(grid)
    other = parts(fewer, width)
    is_cut = min(divided[0].widths[: grid.left]) < SHORTEST
    if is_cut or len(other[0].columns) - 1 > len(divided[0].columns) - grid.left:
        return Layout(fewer, above, other)
    return Layout(grid, groups, divided)


def parts(grid: Grid, width: int) -> list[Part]:
    """How a grid is divided for a terminal of so many characters."""
    columns = [
        [escape.plain(text) for text in texts] for texts in zip(grid.heads, *grid.rows, strict=True)
    ]
    names, figures = columns[: grid.left], columns[grid.left :]
    # A head is broken between its words, a figure never is.
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
    """Widths from least to most that fill a room as far as they can, the narrowest first."""
    widths = [*least]
    left = room - sum(widths)
    while left > 0 and (open_ := [k for k, width in enumerate(widths) if width < most[k]]):
        widths[min(open_, key=widths.__getitem__)] += 1
        left -= 1
    return widths


def _table(
    grid: Grid, rows: Collection[int], columns: Sequence[int], widths: Sequence[int]
) -> Table:
    """The head, or some rows without it."""
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
    """A text whose words are not wider than its column."""
    words = text.split(" ")
    return " ".join(
        word if cell_len(word) <= width else f"{set_cell_size(word, max(1, width - 1))}…"
        for word in words
    )
