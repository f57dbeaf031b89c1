"""The corpora that are probed: sentences with a label of some property for each word."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from elmo_bench.text import Row, read_blocks, read_conllu
from elmo_bench.text.conll import FRAME, LEMMA, POS, WORD, is_conll2012, name_spans, read_documents
from elmo_bench.text.spans import TAGS, is_tag, spans_to_iob2, tags_to_spans

UPOS = 3  # column of CoNLL-U
ABSENT = ("_", "-")  # empty cells


class Sentence(NamedTuple):
    """A sentence; `labels` maps a property to a label per word, None if the word is not scored."""

    words: list[str]
    labels: dict[str, list[Any]]


def read(path: str | Path) -> Iterator[Sentence]:
    """Yield the sentences of a file, plain or .gz, with those of these properties that it has:

    - `pos`: parts of speech;
    - `chunk`, `entity`: chunks and named entities, as IOB2 tags; a document in CoNLL-2012 format
      without any name is not annotated with them;
    - `sense`: lemma and sense of a predicate.

    Files with .conllu in their name are CoNLL-U, files that start with `#begin document` are
    CoNLL-2012. All others have columns: first the word, last its entity tag; if there are four
    columns, as in CoNLL-2003, the second and third are part of speech and chunk tag. Raises
    ValueError, with file and line, for an invalid cell.
    """
    if ".conllu" in Path(path).suffixes:
        for sentence in read_conllu(path):
            yield Sentence(list(sentence.words), {"pos": _column(sentence.rows, UPOS)})
    elif is_conll2012(path):
        for _, parts in groupby(read_documents(path), lambda part: part.id):
            document: list[Sequence[Row]] = []
            for part in parts:
                document += part.sentences
            yield from _of_conll2012(document, path)
    else:
        for rows in read_blocks(path):
            yield _of_columns(rows, path)


def _of_conll2012(document: Sequence[Sequence[Row]], path: str | Path) -> Iterator[Sentence]:
    """Yield the sentences of a document in CoNLL-2012 format."""
    names = [name_spans(rows, path) for rows in document]
    has_names = any(names)
    for rows, spans in zip(document, names, strict=True):
        labels: dict[str, list[Any]] = {"pos": _column(rows, POS)}
        labels["entity"] = spans_to_iob2(spans, len(rows)) if has_names else [None] * len(rows)
        labels["sense"] = [_sense(row) for row in rows]
        yield Sentence(_cells(rows, WORD), labels)


def _sense(row: Row) -> tuple[str, str] | None:
    """Return a predicate's lemma and the number of its sense; None if a word is no predicate."""
    lemma = row.columns[LEMMA]
    sense = row.columns[FRAME]
    return None if "-" in (lemma, sense) else (lemma, sense)


def _of_columns(rows: Sequence[Row], path: str | Path) -> Sentence:
    """Return a sentence of a file with columns."""
    labels: dict[str, list[Any]] = {}
    if len(rows[0].columns) == 4:
        labels["pos"] = _column(rows, 1)
        labels["chunk"] = _tags(rows, 2, path)
    labels["entity"] = _tags(rows, -1, path)
    return Sentence(_cells(rows, 0), labels)


def _tags(rows: Sequence[Row], column: int, path: str | Path) -> list[Any]:
    """Return IOB2 tags from any scheme; None for all words if the sentence has no tags."""
    cells = _cells(rows, column)
    if set(cells) <= set(ABSENT):
        return [None] * len(cells)
    for row, cell in zip(rows, cells, strict=True):
        if not is_tag(cell):
            raise ValueError(f"{path}:{row.line}: tag {cell!r}, but a tag must be {TAGS}")
    return spans_to_iob2(tags_to_spans(cells), len(cells))


def _column(rows: Sequence[Row], column: int) -> list[str | None]:
    """Return the cells of a column; None for an empty one."""
    return [None if cell in ABSENT else cell for cell in _cells(rows, column)]


def _cells(rows: Sequence[Row], column: int) -> list[str]:
    return [row.columns[column] for row in rows]
