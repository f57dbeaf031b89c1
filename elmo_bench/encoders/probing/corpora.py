"""Reads corpora for probing: sentences with labels of words for each property."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmo_bench.text import (
    TAGS,
    Row,
    is_conll2012,
    is_tag,
    name_spans,
    read_blocks,
    read_conllu,
    read_documents,
    spans_to_iob2,
    tags_to_spans,
)

UPOS = 3  # column of CoNLL-U
WORD, POS, LEMMA, FRAME = 3, 4, 6, 7  # of CoNLL-2012
ABSENT = ("_", "-")  # empty cells


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
        for sentence in read_conllu(path):
            yield Sentence([*sentence.words], {"pos": _column(sentence.rows, UPOS)})
    elif is_conll2012(path):
        for document in read_documents(path):
            yield from (_of_conll2012(rows, path) for rows in document.sentences)
    else:
        yield from (_of_columns(rows, path) for rows in read_blocks(path))


def _of_conll2012(rows: Sequence[Row], path: str | Path) -> Sentence:
    pairs = [(row.columns[LEMMA], row.columns[FRAME]) for row in rows]
    labels: dict[str, list[Any]] = {
        "pos": _column(rows, POS),
        "entity": spans_to_iob2(name_spans(rows, path), len(rows)),
        "sense": [None if "-" in pair else pair for pair in pairs],
    }
    return Sentence([row.columns[WORD] for row in rows], labels)


def _of_columns(rows: Sequence[Row], path: str | Path) -> Sentence:
    labels: dict[str, list[Any]] = {}
    if len(rows[0].columns) == 4:
        labels = {"pos": _column(rows, 1), "chunk": _tags(rows, 2, path)}
    labels["entity"] = _tags(rows, -1, path)
    return Sentence([row.columns[0] for row in rows], labels)


def _tags(rows: Sequence[Row], column: int, path: str | Path) -> list[Any]:
    """Return IOB2 tags from any scheme; None for all words if the sentence has no tags."""
    cells = [row.columns[column] for row in rows]
    if all(cell in ABSENT for cell in cells):
        return [None] * len(cells)
    for row, cell in zip(rows, cells, strict=True):
        if not is_tag(cell):
            raise ValueError(f"{path}:{row.line}: tag {cell!r}, but a tag must be {TAGS}")
    return spans_to_iob2(tags_to_spans(cells), len(cells))


def _column(rows: Sequence[Row], column: int) -> list[str | None]:
    cells = (row.columns[column] for row in rows)
    return [None if cell in ABSENT else cell for cell in cells]
