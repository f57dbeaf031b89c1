"""A table as every format shows it."""

from collections.abc import Mapping
from typing import NamedTuple


class Grid(NamedTuple):
    """`bold` has (row, column), `left` counts the columns of names. `hover` has the config keys
    behind a text, by (row, column), row -1 the heads; `caption` says what a row and its marks are.
    """

    title: str
    heads: list[str]
    rows: list[list[str]]
    bold: set[tuple[int, int]]
    left: int
    hover: Mapping[tuple[int, int], str] = {}
    caption: str = ""
