"""Generated tables in a hand-written Markdown file.

Each table replaces the lines of one block; text outside blocks is unchanged.

<!-- table: TITLE -->
... the generated table ...
<!-- end -->
"""

import re
from collections.abc import Mapping

BEGIN = re.compile(r"<!-- table: (.+?) -->\s*")
END = "<!-- end -->"


def refreshed(text: str, tables: Mapping[str, str], path: object) -> str:
    """Return the text with the Markdown tables, given by title, inserted into its blocks.

    Raises ValueError, with the file and line, if a block has no table or no end mark, or a table
    has no single block.
    """
    lines: list[str] = []
    seen: list[str] = []
    title = ""  # of the block that the line is in
    for number, line in enumerate(text.split("\n"), 1):
        if begin := BEGIN.fullmatch(line):
            if title or begin[1] in seen or begin[1] not in tables:
                raise ValueError(f"{path}:{number}: {_why(title, begin[1], seen, tables)}")
            title = begin[1]
            seen.append(title)
            lines += [line, *tables[title].split("\n")]
        elif line.strip() == END:
            if not title:
                raise ValueError(f"{path}:{number}: {END} without a preceding <!-- table: TITLE")
            title = ""
        if not title:
            lines.append(line)
    if title:
        raise ValueError(f"{path}: the block {title!r} has no {END}")
    if missing := [title for title in tables if title not in seen]:
        raise ValueError(f"{path}: no block <!-- table: {missing[0]} --> and {END}: add it")
    return "\n".join(lines)


def _why(open_block: str, title: str, seen: list[str], tables: Mapping[str, str]) -> str:
    """Return why a block with this title cannot begin."""
    if open_block:
        return f"the block {open_block!r} above has no {END}"
    if title in seen:
        return f"there is another block {title!r} above"
    return f"unknown table {title!r}; the tables are {', '.join(tables)}"
