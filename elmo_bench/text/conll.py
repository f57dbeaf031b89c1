"""Column files of the CoNLL shared tasks, a token a line, an empty line after a sentence; and the
ten columns of CoNLL-U (Universal Dependencies).
"""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from reprlib import repr as shown
from typing import NamedTuple

from elmo_bench.files import counted_noun

from .lines import read_lines
from .spans import is_tag

COLUMNS, FORM = 10, 1  # of CoNLL-U: how many there are, and which is the word
_DOCUMENT = re.compile(r"#\s*newdoc\b")
# A word, a multiword token, which begins at the next word, or an empty node after the last word.
_ID = re.compile(r"(?P<word>[0-9]{1,9})(?:-[0-9]+|(?P<node>\.[0-9]+))?")


class Row(NamedTuple):
    """The columns of a token, its line in the file, and its document, both numbered from 1.

    The document is 0 before the first line that begins one.
    """

    line: int
    columns: list[str]
    document: int = 0


def read_blocks(path: str | Path) -> Iterator[list[Row]]:
    """Yield each block of lines between empty lines, without empty blocks.

    A line of only spaces and tabs is empty; one that starts with `-DOCSTART-` begins another
    document. A line before the first token of a block that starts with # is a comment, unless it
    has as many columns as other lines, and behind a # alone a tag in the last (or _ or -). If a
    line has a tab, tabs separate its columns, so that a word may be empty or contain a space;
    otherwise spaces do. Raises ValueError, with file and line, for a line of fewer than two
    columns, or of another number than the first line of a token.
    """
    document, width = 0, _width(path)
    block: list[Row] = []
    for number, line in chain(read_lines(path), [(0, "")]):
        begins = line.startswith("-DOCSTART-")
        if begins or not line.strip(" \t"):
            if block:
                yield block
            block, document = [], document + begins
            continue
        columns = _columns(line)
        has_tag = is_tag(columns[-1]) or columns[-1] in ("_", "-")
        is_token = len(columns) == width and (columns[0] != "#" or has_tag)
        if line.startswith("#") and not block and not is_token:
            continue
        if not 2 <= len(columns) == width:
            must = f"the lines before have {width}" if width > 1 else "there must be word and tag"
            came = counted_noun(len(columns), "column")
            raise ValueError(f"{path}:{number}: {came}, but {must}: {shown(line)}")
        block.append(Row(number, columns, document))


def _width(path: str | Path) -> int:
    """Return the number of columns of a file, by its first line that is surely a token."""
    lines = (line for _, line in read_lines(path) if line.strip(" \t"))
    return len(_columns(next((x for x in lines if not x.startswith(("#", "-DOCSTART-"))), "")))


def _columns(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else [*filter(None, line.split(" "))]


class Sentence(NamedTuple):
    """The words of a sentence, and all its lines: comments, multiword tokens (such as 3-4) and
    empty nodes (such as 5.1), too.
    """

    rows: list[Row]
    lines: list[str]

    @property
    def words(self) -> tuple[str, ...]:
        """The forms, which may contain spaces."""
        return tuple(row.columns[FORM] for row in self.rows)


def read_conllu(path: str | Path) -> Iterator[Sentence]:
    """Yield the sentences of a file, plain or .gz; `# newdoc` begins another document.

    Raises ValueError, with file and line, for a line without exactly ten columns, with an ID out of
    turn, or without a form.
    """
    sentence, document = Sentence([], []), 0
    for number, line in chain(read_lines(path), [(0, "")]):
        if not line.strip(" \t"):
            if sentence.rows:
                yield sentence
            sentence = Sentence([], [])
            continue
        sentence.lines.append(line)
        if line.startswith("#"):
            document += _DOCUMENT.match(line) is not None
            continue
        columns = line.split("\t")
        if len(columns) != COLUMNS or not columns[FORM].strip():
            raise ValueError(
                f"{path}:{number}: {counted_noun(len(columns), 'column')}, but CoNLL-U has "
                f"{COLUMNS}, separated by tabs, and a form in the second: {line[:60]!r}"
            )
        parts = _ID.fullmatch(columns[0])
        expected = str(len(sentence.rows) + (parts is None or not parts["node"]))
        if parts is None or parts["word"] != expected:
            raise ValueError(
                f"{path}:{number}: ID {columns[0]!r}, but {expected} must come next (or a span "
                "such as 3-4, or an empty node such as 5.1): a line is missing or repeated"
            )
        if columns[0] == parts["word"]:
            sentence.rows.append(Row(number, columns, document))
