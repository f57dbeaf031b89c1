"""Reads corpora for probing: sentences with labels of words for each property."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmo_bench.text import (
    Row,
    bracket_spans,
    read_blocks,
    read_conllu,
    read_documents,
    read_lines,
    spans_to_iob2,
    tags_to_spans,
)

FORM, UPOS = 1, 3  # columns of CoNLL-U
WORD, POS, LEMMA, FRAME, NAME = 3, 4, 6, 7, 10  # of CoNLL-2012
ABSENT = ("_", "-")  # empty cells
BEGIN = "#begin document"  # of CoNLL-2012


class Sentence(NamedTuple):
    """A sentence; `labels` maps a property to a label per word, None if the word is not scored."""

    words: list[str]
    labels: dict[str, list[Any]]


def read(path: str | Path) -> Iterator[Sentence]:
    """Yield the sentences of a file, plain or .gz, with those of these properties that it has:

    - `pos`: parts of speech;
    - `chunk`, `entity`: chunks and named entities, as IOB2 tags;
    - `sense`: lemma and sense of a predicate.

    Files with .conllu in their name are CoNLL-U, files that start with `#begin document` are
    CoNLL-2012. All others have columns: first the word, last its entity tag; if there are four
    columns, as in CoNLL-2003, the second and third are part of speech and chunk tag. Raises
    ValueError, with file and line, for an invalid cell.
    """
    if ".conllu" in Path(path).suffixes:
        for rows in read_conllu(path):
            yield Sentence([row.columns[FORM] for row in rows], {"pos": _column(rows, UPOS)})
    elif next((line for _, line in read_lines(path) if line.strip()), "").startswith(BEGIN):
        for document in read_documents(path):
            yield from (_of_conll2012(rows, path) for rows in document.sentences)
    else:
        yield from (_of_columns(rows, path) for rows in read_blocks(path))


def _of_conll2012(rows: Sequence[Row], path: str | Path) -> Sentence:
    pairs = [(row.columns[LEMMA], row.columns[FRAME]) for row in rows]
    entities = [_with_star(row) for row in rows]
    labels: dict[str, list[Any]] = {
        "pos": _column(rows, POS),
        "entity": spans_to_iob2(bracket_spans(entities, NAME, path), len(rows)),
        "sense": [None if "-" in pair else pair for pair in pairs],
    }
    return Sentence([row.columns[WORD] for row in rows], labels)


def _with_star(row: Row) -> Row:
    """Rewrite the name column as `bracket_spans` expects: (X) as (X*), and an empty cell as *."""
    cell = re.sub(r"\((?P<type>[^()*]+)\)", r"(\g<type>*)", row.columns[NAME])
    columns = [*row.columns[:NAME], "*" if cell in ABSENT else cell, *row.columns[NAME + 1 :]]
    return row._replace(columns=columns)


def _of_columns(rows: Sequence[Row], path: str | Path) -> Sentence:
    labels: dict[str, list[Any]] = {}
    if len(rows[0].columns) == 4:
        labels = {"pos": _column(rows, 1), "chunk": _tags(rows, 2, path)}
    labels["entity"] = _tags(rows, -1, path)
    return Sentence([row.columns[0] for row in rows], labels)


def _tags(rows: Sequence[Row], column: int, path: str | Path) -> list[Any]:
    """Return IOB2 tags from IOB1 or IOB2; None for all words if the sentence has no tags."""
    cells = [row.columns[column] for row in rows]
    if all(cell in ABSENT for cell in cells):
        return [None] * len(cells)
    for row, cell in zip(rows, cells, strict=True):
        if not re.fullmatch("O|[BI]-.+", cell) or not cell.isprintable():
            raise ValueError(
                f"{path}:{row.line}: tag {cell!r}, but a tag must be O, B-TYPE or I-TYPE"
            )
    return spans_to_iob2(tags_to_spans(cells), len(cells))


def _column(rows: Sequence[Row], column: int) -> list[str | None]:
    cells = (row.columns[column] for row in rows)
    return [None if cell in ABSENT else cell for cell in cells]
