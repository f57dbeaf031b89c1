"""Column files of the CoNLL shared tasks: a token a line, an empty line after a sentence."""

from collections.abc import Iterator
from pathlib import Path
from reprlib import repr as shown
from typing import NamedTuple

from .lines import read_lines


class Row(NamedTuple):
    """The columns of a token and its line in the file, from 1."""

    line: int
    columns: list[str]


def read_blocks(path: str | Path) -> Iterator[list[Row]]:
    """Yield each block of lines between empty lines, without `-DOCSTART-` and empty blocks.

    A line of only spaces and tabs is empty. If a line has a tab, tabs separate its columns, so that
    a word may be empty or contain a space; otherwise spaces do. Raises ValueError, with file and
    line, for a line of fewer than two columns, or of another number than the first line, or with a
    carriage return before its end.
    """
    width = None
    block: list[Row] = []
    for number, line in read_lines(path):
        if not line.strip(" \t") or line.startswith("-DOCSTART-"):
            if block:
                yield block
            block = []
            continue
        if "\r" in line:
            raise ValueError(
                f"{path}:{number}: a carriage return within the line {shown(line)}, but lines must "
                "end with a line feed, alone or after a carriage return"
            )
        columns = line.split("\t") if "\t" in line else line.split(" ")
        columns = columns if "\t" in line else [column for column in columns if column]
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
        block.append(Row(number, columns))
    if block:
        yield block
