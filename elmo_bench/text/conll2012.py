"""The CoNLL-2012 format (OntoNotes): parts of documents, with sentences of rows.

Columns: document, part, word number, word, POS, parse, lemma, frame set, sense, speaker, name, one
column for the arguments of each predicate, coreference.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import NamedTuple

from .conll import Row
from .lines import read_lines
from .spans import Span

MIN_COLUMNS = 12  # columns of a sentence without predicates
# Of coreference alone, as in the official scorer's tests: document, part, number, word, cluster.
FEWEST_COLUMNS = 5
PAIR = 2  # document and cluster, in the same tests
_DOCUMENT, _PART, _NUMBER, _WORD, _PARSE, _FIRST_PREDICATE = 0, 1, 2, 3, 5, 11  # columns
_NO_PART = "-1"  # the part in half of OntoNotes 5's documents
NO_WORD = "[WORD]"  # the word in files that come without text

_GAP = re.compile("[ \t]+")  # words may contain other white space
_BEGIN = re.compile(r"#begin document \((?P<id>[^()]+)\);?(?: part (?P<part>\d{1,9}))?\s*")
_CELL = re.compile(r"(?:\((?P<label>[^()*]+))?\*(?P<end>\))?")


class Document(NamedTuple):
    """A part of a document, the unit of coreference; part 0 if its first line names no part."""

    id: str
    part: int
    header: str  # its first line
    sentences: list[list[Row]]


def read_documents(path: str | Path, *, min_columns: int = MIN_COLUMNS) -> Iterator[Document]:
    """Yield the documents of a file, plain or .gz.

    Spaces or tabs separate columns, empty lines separate sentences. With `min_columns` at most 2,
    rows may be of document and cluster alone; with words they have at least 5 columns.

    Raises ValueError, with file and line, if `#begin document` and `#end document` do not
    alternate, if a document is repeated, if a row has fewer than `min_columns` columns or another
    number of columns than the first row of its sentence, if the document, the part, the word's
    number or the brackets of the parse contradict the rest of the file, or if it has no words.
    """
    document: Document | None = None
    sentence: list[Row] = []
    begun: dict[str, int] = {}
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        if document is None:
            if line.strip():
                document = _begin(line, where)
                name = f"{document.id} part {document.part}"
                if name in begun:
                    raise ValueError(f"{where}: {name} occurs twice, first in line {begun[name]}")
                begun[name] = number
        elif line.strip() and not line.startswith("#"):
            sentence.append(Row(number, _GAP.split(line.strip(" \t"))))
            _check_row(document, sentence, min_columns, where)
        else:
            if sentence:
                _check_parse(sentence, path)
                document.sentences.append(sentence)
                sentence = []
            if line.startswith("#"):
                if line.strip() != "#end document":
                    raise ValueError(f"{where}: {line!r}, but {name} has no #end document yet")
                yield document
                document = None
    if document is not None:
        raise ValueError(f"{path}:{begun[name]}: {name} has no #end document")


def _begin(line: str, where: str) -> Document:
    beginning = _BEGIN.fullmatch(line)
    if beginning is None:
        raise ValueError(
            f"{where}: {line!r}, but a document must begin with '#begin document (ID); part NUMBER'"
        )
    return Document(beginning["id"], int(beginning["part"] or 0), line, [])


def _check_row(document: Document, sentence: Sequence[Row], min_columns: int, where: str) -> None:
    first, columns = sentence[0], sentence[-1].columns
    width = len(columns)
    fewest = min_columns if width <= PAIR else max(min_columns, FEWEST_COLUMNS)
    if width < fewest:
        raise ValueError(f"{where}: {width} columns, but a row must have at least {fewest}")
    if width != len(first.columns):
        raise ValueError(
            f"{where}: {width} columns, but line {first.line} of the same "
            f"sentence has {len(first.columns)}"
        )
    _check_document(document, first, columns, where)
    if width == PAIR:
        return
    if columns[_NUMBER] != str(len(sentence) - 1):
        raise ValueError(
            f"{where}: word number {shown(columns[_NUMBER])}, but it must be {len(sentence) - 1}, "
            "since each sentence counts from 0: a row or an empty line is missing or repeated"
        )
    if columns[_WORD] == NO_WORD:
        raise ValueError(
            f"{where}: word {NO_WORD!r}, but a row must have a word; this file is a skeleton: "
            "job=ontonotes joins it with the words of the LDC"
        )


def _check_document(document: Document, first: Row, columns: Sequence[str], where: str) -> None:
    """Raise ValueError for a row of another document or part, and for two rows in one line."""
    width = len(columns)
    if width >= MIN_COLUMNS:
        expected, part = document.id, str(document.part)
        is_same = columns[_DOCUMENT] == expected and (
            columns[_PART].lstrip("0") == part.lstrip("0") or columns[_PART] == _NO_PART
        )
        is_row = all("*" in cell for cell in columns[_FIRST_PREDICATE:-1])
    else:  # in the official scorer's own tests, a document's rows have another name than itself
        expected, part = first.columns[_DOCUMENT], first.columns[_PART]
        is_same = columns[_DOCUMENT] == expected and (width == PAIR or columns[_PART] == part)
        is_row = not document.sentences or width == len(document.sentences[0][0].columns)
    if not is_same:
        raise ValueError(
            f"{where}: a row of {shown(columns[_DOCUMENT])} part {shown(columns[_PART])} in "
            f"{expected} part {part}"
        )
    if not is_row:
        raise ValueError(
            f"{where}: {width} columns, but those from 12 to the last but one must be arguments, "
            "with a * in each, and without them all rows of a document have the same number: are "
            "these two rows in one line?"
        )


def _check_parse(sentence: Sequence[Row], path: str | Path) -> None:
    """Raise ValueError unless the brackets of the parse match: a lost last row opens or closes
    some.
    """
    if len(sentence[0].columns) >= MIN_COLUMNS:
        parse = "".join(row.columns[_PARSE] for row in sentence)
        if parse.count("(") != parse.count(")"):
            raise ValueError(
                f"{path}:{sentence[-1].line}: the parse (column {_PARSE + 1}) of the sentence that "
                f"ends here has {parse.count('(')} opening and {parse.count(')')} closing "
                "brackets: a row is missing or damaged"
            )


def bracket_spans(sentence: Sequence[Row], column: int, path: str | Path) -> list[Span]:
    """Return the labelled spans of a column: a predicate's arguments, or names.

    The cells are `(X*`, `*`, `*)` and `(X*)`. Raises ValueError, with file and line, for other
    cells, unbalanced brackets, and nested spans, which tags cannot represent.
    """
    spans: list[Span] = []
    label, start = None, 0
    number = column % len(sentence[0].columns) + 1 if sentence else 0  # from 1
    for position, row in enumerate(sentence):
        cell, where = row.columns[column], f"{path}:{row.line}"
        if cell == "*":  # the most frequent cell by far
            continue
        brackets = _CELL.fullmatch(cell)
        if brackets is None:
            raise ValueError(
                f"{where}: {cell!r} in column {number}, but a cell must be (X* or * or *) or (X*)"
            )
        if brackets["label"]:
            if label is not None:
                raise ValueError(
                    f"{where}: {cell!r} in column {number} begins inside {label}, which is open "
                    f"since line {sentence[start].line}"
                )
            label, start = brackets["label"], position
        if brackets["end"]:
            if label is None:
                raise ValueError(
                    f"{where}: {cell!r} in column {number} closes a bracket that is not open in "
                    "its sentence"
                )
            spans.append(Span(label, start, position))
            label = None
    if label is not None:
        end = sentence[-1].line
        raise ValueError(
            f"{path}:{sentence[start].line}: ({label}* in column {number} is not closed before "
            f"its sentence ends at line {end}"
        )
    return spans
