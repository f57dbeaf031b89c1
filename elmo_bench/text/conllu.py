"""CoNLL-U (Universal Dependencies): one word a line, ten columns, empty lines between sentences."""

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from .conll import Row
from .lines import read_lines

COLUMNS = 10
_DOCUMENT = re.compile(r"#\s*newdoc\b")
# A word, a multiword token, which begins at the next word, or an empty node after the last word.
_ID = re.compile(r"(?P<word>[0-9]{1,9})(?:-[0-9]+|(?P<node>\.[0-9]+))?")


def read_conllu(path: str | Path) -> Iterator[list[Row]]:
    """Yield the words of each sentence of a file, plain or .gz.

    `# newdoc` begins another document. Multiword tokens (such as 3-4) and empty nodes (such as 5.1)
    are skipped. Raises ValueError, with file and line, for a line without exactly ten columns or
    with an ID out of turn.
    """
    rows: list[Row] = []
    document = 0
    for number, line in chain(read_lines(path), [(0, "")]):
        if not line.strip(" \t"):
            if rows:
                yield rows
            rows = []
        elif line.startswith("#"):
            document += _DOCUMENT.match(line) is not None
        else:
            columns = line.split("\t")
            if len(columns) != COLUMNS:
                raise ValueError(
                    f"{path}:{number}: {len(columns)} columns, but CoNLL-U has {COLUMNS}, "
                    f"separated by tabs: {line[:60]!r}"
                )
            parts = _ID.fullmatch(columns[0])
            expected = str(len(rows) + (parts is None or not parts["node"]))
            if parts is None or parts["word"] != expected:
                raise ValueError(
                    f"{path}:{number}: ID {columns[0]!r}, but {expected} must come next (or a span "
                    "such as 3-4, or an empty node such as 5.1): a line is missing or repeated"
                )
            if columns[0] == parts["word"]:
                rows.append(Row(number, columns, document))
