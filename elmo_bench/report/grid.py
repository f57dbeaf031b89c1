"""A table as every format shows it."""

from collections.abc import Collection, Mapping
from typing import NamedTuple


class Grid(NamedTuple):
    """`bold` has (row, column), `left` counts the columns of names. `hover` has the config keys
    behind a text, by (row, column), row -1 the heads; `caption` says what a row and its marks are,
    `bold_is` what is bold. The columns of the heads `spare`, the first first, are what a terminal
    leaves out that is too narrow for all.
    """

    title: str
    heads: list[str]
    rows: list[list[str]]
    bold: set[tuple[int, int]]
    left: int
    hover: Mapping[tuple[int, int], str] = {}
    caption: str = ""
    bold_is: str = ""
    spare: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """The caption, of a format that shows what is bold."""
        bold = f"Bold: {self.bold_is}." if self.bold and self.bold_is else ""
        return " ".join(filter(None, (self.caption, bold)))


def without(grid: Grid, columns: Collection[int]) -> Grid:
    """A grid without some of its columns."""
    kept = [c for c in range(len(grid.heads)) if c not in columns]
    places = {c: place for place, c in enumerate(kept)}
    return grid._replace(
        heads=[grid.heads[c] for c in kept],
        rows=[[row[c] for c in kept] for row in grid.rows],
        bold={(r, places[c]) for r, c in grid.bold if c in places},
        hover={(r, places[c]): text for (r, c), text in grid.hover.items() if c in places},
    )
