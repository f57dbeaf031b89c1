"""CoNLL-U (Universal Dependencies): one word a line, ten columns, empty lines between sentences."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from elmo_bench.files import counted_noun

from .conll import Row
from .lines import read_lines

COLUMNS = 10
FORM = 1
_DOCUMENT = re.compile(r"#\s*newdoc\b")
# A word, a multiword token, which begins at the next word, or an empty node after the last word.
_ID = re.compile(r"(?P<word>[0-9]{1,9})(?:-[0-9]+|(?P<node>\.[0-9]+))?")


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
