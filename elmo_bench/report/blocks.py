"""Generated tables in a hand-written Markdown file.

Each table replaces the lines of one block; text outside blocks is unchanged.

<!-- table: TITLE -->
... the generated table ...
<!-- end -->
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

BEGIN = re.compile(r"<!-- table: (.+?) -->\s*")
END = "<!-- end -->"


class Block(NamedTuple):
    """Lines `first` up to, but not including, `last` (from 0), between the marks of a block."""

    title: str
    first: int
    last: int


def refreshed(text: str, tables: Mapping[str, str], path: object) -> str:
    """Return the text with the Markdown tables, given by title, inserted into its blocks.

    Raises ValueError, with the file and line, if a block has no table or no end mark, or a table
    has no block.
    """
    lines, parts, next_line = text.split("\n"), [], 0
    for block in _blocks(lines, tables, path):
        end = "\r" * lines[block.first - 1].endswith("\r")  # a file of Windows stays one
        parts += lines[next_line : block.first]
        parts += [f"{line}{end}" for line in tables[block.title].splitlines()]
        next_line = block.last
    return "\n".join([*parts, *lines[next_line:]])


def differences(text: str, tables: Mapping[str, str], path: object) -> list[str]:
    """Return one message for each outdated block, with the file, line and first difference.

    Raises the same errors as `refreshed`.
    """
    lines, messages = text.split("\n"), []
    for block in _blocks(lines, tables, path):
        current = [line.removesuffix("\r") for line in lines[block.first : block.last]]
        expected = tables[block.title].splitlines()
        for op, start, end, first, last in difflib.SequenceMatcher(
            None, current, expected, autojunk=False
        ).get_opcodes():
            if op != "equal":
                old, new = "\n".join(current[start:end]), "\n".join(expected[first:last])
                line = block.first + start + 1
                messages.append(
                    f"{path}:{line}: {block.title}: not what the runs give\n- {old}\n+ {new}"
                )
                break
    return messages


def _blocks(lines: list[str], tables: Mapping[str, str], path: object) -> Iterator[Block]:
    """Yield the blocks of a file in order."""
    line_numbers: dict[str, int] = {}
    title, first = "", None
    for number, line in enumerate(lines):
        location = f"{path}:{number + 1}"
        if begin := BEGIN.fullmatch(line):
            if first is not None:
                raise ValueError(f"{location}: the block {title!r} above has no {END}")
            title, first = begin[1], number + 1
            if title not in tables:
                raise ValueError(
                    f"{location}: unknown table {title!r}; the tables are {', '.join(tables)}"
                )
            if title in line_numbers:
                raise ValueError(
                    f"{location}: the block {title!r} is also in line {line_numbers[title]}"
                )
            line_numbers[title] = number + 1
        elif line.strip() == END:
            if first is None:
                raise ValueError(f"{location}: {END} without a preceding <!-- table: TITLE -->")
            yield Block(title, first, number)
            first = None
    if first is not None:
        raise ValueError(f"{path}:{first}: the block {title!r} has no {END}")
    if missing := [title for title in tables if title not in line_numbers]:
        raise ValueError(
            f"{path}: no block for the table {missing[0]!r}: write <!-- table: {missing[0]} "
            f"--> and {END} where it should be"
        )
