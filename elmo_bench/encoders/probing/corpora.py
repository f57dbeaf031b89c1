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

FORM, UPOS, HEAD = 1, 3, 6  # columns of CoNLL-U
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
    - `head`: the position of a word's head in the sentence, from 1; 0 for the root. Punctuation
      (UPOS is PUNCT) may be a head, but its own head is not scored, as in Hewitt and Liang (2019);
    - `sense`: lemma and sense of a predicate.

    Files with .conllu in their name are CoNLL-U, files that start with `#begin document` are
    CoNLL-2012. All others have columns: first the word, last its entity tag; if there are four
    columns, as in CoNLL-2003, the second and third are part of speech and chunk tag. Raises
    ValueError, with file and line, for an invalid cell.
    """
    if ".conllu" in Path(path).suffixes:
        yield from (_of_conllu(rows, path) for rows in read_conllu(path))
    elif next((line for _, line in read_lines(path) if line.strip()), "").startswith(BEGIN):
        for document in read_documents(path):
            yield from (_of_conll2012(rows, path) for rows in document.sentences)
    else:
        yield from (_of_columns(rows, path) for rows in read_blocks(path))


def _of_conllu(rows: Sequence[Row], path: str | Path) -> Sentence:
    labels: dict[str, list[Any]] = {"pos": _column(rows, UPOS), "head": _heads(rows, path)}
    return Sentence([row.columns[FORM] for row in rows], labels)


def _heads(rows: Sequence[Row], path: str | Path) -> list[int | None]:
    """Return the heads of a sentence; None for all words if the sentence has no heads."""
    if all(row.columns[HEAD] == "_" for row in rows):
        return [None] * len(rows)
    heads: list[int | None] = []
    for number, row in enumerate(rows, 1):
        where, cell = f"{path}:{row.line}", row.columns[HEAD]
        head = int(cell) if re.fullmatch("[0-9]{1,9}", cell) else -1
        if head == number or not 0 <= head <= len(rows):
            raise ValueError(
                f"{where}: HEAD {cell!r}, but a head must be the number of another word of "
                f"the sentence, 1 to {len(rows)}, or 0 for the root"
            )
        heads.append(None if row.columns[UPOS] == "PUNCT" else head)
    return heads


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
