"""Column files of the CoNLL shared tasks: a token a line, an empty line after a sentence."""

from collections.abc import Iterator
from pathlib import Path
from reprlib import repr as shown
from typing import NamedTuple

from .lines import read_lines


class Row(NamedTuple):
    """The columns of a token, its line in the file, and its document, both numbered from 1.

    The document is 0 before the first line that begins one.
    """

    line: int
    columns: list[str]
    document: int = 0


def read_blocks(path: str | Path) -> Iterator[list[Row]]:
    """Yield each block of lines between empty lines, without empty blocks.

    A line that starts with `-DOCSTART-` begins another document and is no block.

    A line of only spaces and tabs is empty. If a line has a tab, tabs separate its columns, so that
    a word may be empty or contain a space; otherwise spaces do. Raises ValueError, with file and
    line, for a line of fewer than two columns, or of another number than the first line.
    """
    width, document = 0, 0
    block: list[Row] = []
    for number, line in read_lines(path):
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            if block:
                yield block
            block = []
            document += line.startswith("-DOCSTART-")
            continue
        columns = line.split("\t") if "\t" in line else [*filter(None, line.split(" "))]
        width = width or len(columns)
        if width < 2:
            raise ValueError(
                f"{path}:{number}: one column, but a line must have a word and a tag: {shown(line)}"
            )
        if len(columns) != width:
            raise ValueError(
                f"{path}:{number}: {len(columns)} columns, but the lines before have {width}: "
                f"{shown(line)}"
            )
        block.append(Row(number, columns, document))
    if block:
        yield block
