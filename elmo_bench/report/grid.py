"""A table of texts, independent of the output format."""

from collections.abc import Collection
from typing import NamedTuple


class Grid(NamedTuple):
    """A table of texts."""

    title: str
    heads: list[str]
    rows: list[list[str]]
    left: int  # the number of leading columns that hold names; the others hold figures
    caption: str = ""  # explains the rows and marks
    bold: Collection[tuple[int, int]] = ()  # row and column of each bold cell
    bold_is: str = ""  # the meaning of bold
    spare: tuple[str, ...] = ()  # heads of the columns that a narrow terminal omits, in this order

    @property
    def about(self) -> str:
        """The caption for formats with bold text, including the meaning of bold."""
        bold = f"Bold: {self.bold_is}." if self.bold and self.bold_is else ""
        return " ".join(filter(None, (self.caption, bold)))


def without(grid: Grid, columns: Collection[int]) -> Grid:
    """Return the grid without these columns."""
    remaining = [c for c in range(len(grid.heads)) if c not in columns]
    positions = {c: place for place, c in enumerate(remaining)}
    return grid._replace(
        heads=[grid.heads[c] for c in remaining],
        rows=[[row[c] for c in remaining] for row in grid.rows],
        bold={(r, positions[c]) for r, c in grid.bold if c in positions},
    )
