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

    Spaces or tabs separate columns, empty lines separate sentences.

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
            if wrong := _wrong(document, sentence, min_columns):
                raise ValueError(f"{where}: {wrong}")
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
    if not (beginning := _BEGIN.fullmatch(line)):
        form = "'#begin document (ID); part NUMBER'"
        raise ValueError(f"{where}: {line!r}, but a document must begin with {form}")
    return Document(beginning["id"], int(beginning["part"] or 0), line, [])


def _wrong(document: Document, sentence: Sequence[Row], min_columns: int) -> str:
    """Say what is wrong with the last row of a sentence; "" if nothing is."""
    first, columns = sentence[0].columns, sentence[-1].columns
    width, number = len(columns), len(sentence) - 1
    if width < min_columns:
        return f"{width} columns, but a row must have at least {min_columns}"
    if width != len(first):
        line = sentence[0].line
        return f"{width} columns, but line {line} of the same sentence has {len(first)}"
    if width >= MIN_COLUMNS:
        same, part = document.id, str(document.part)
        is_same_part = columns[_PART] == _NO_PART or columns[_PART].lstrip("0") == part.lstrip("0")
        is_row = all("*" in cell for cell in columns[_FIRST_PREDICATE:-1])
    else:  # in the official scorer's own tests, a document's rows have another name than itself
        same, part = first[_DOCUMENT], first[_PART]
        is_same_part = columns[_PART] == part
        is_row = not document.sentences or width == len(document.sentences[0][0].columns)
    if columns[_DOCUMENT] != same or not is_same_part:
        came = f"{shown(columns[_DOCUMENT])} part {shown(columns[_PART])}"
        return f"a row of {came} in {same} part {part}"
    if not is_row:
        return (
            f"{width} columns, but those from 12 to the last but one must be arguments, with a * "
            "in each, and without them all rows of a document have the same number: are these two "
            "rows in one line?"
        )
    if columns[_NUMBER] != str(number):
        return (
            f"word number {shown(columns[_NUMBER])}, but it must be {number}, since each sentence "
            "counts from 0: a row or an empty line is missing or repeated"
        )
    if columns[_WORD] == NO_WORD:
        return f"word {NO_WORD!r}: this file is a skeleton, to which job=ontonotes adds the words"
    return ""


def _check_parse(sentence: Sequence[Row], path: str | Path) -> None:
    """Raise ValueError unless the brackets of the parse match: a lost last row opens or closes
    some.
    """
    if len(sentence[0].columns) >= MIN_COLUMNS:
        parse = "".join(row.columns[_PARSE] for row in sentence)
        opening, closing = parse.count("("), parse.count(")")
        if opening != closing:
            raise ValueError(
                f"{path}:{sentence[-1].line}: the parse (column {_PARSE + 1}) of the sentence that "
                f"ends here has {opening} opening and {closing} closing brackets: a row is missing "
                "or damaged"
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
        cell = row.columns[column]
        if cell == "*":  # the most frequent cell by far
            continue
        wrong, brackets = "", _CELL.fullmatch(cell)
        if brackets is None:
            wrong = "but a cell must be (X* or * or *) or (X*)"
        elif brackets["label"] and label is not None:
            wrong = f"but {label} is open since line {sentence[start].line}"
        elif brackets["end"] and label is None and not brackets["label"]:
            wrong = "but no bracket is open in its sentence"
        if wrong or brackets is None:
            raise ValueError(f"{path}:{row.line}: {cell!r} in column {number}, {wrong}")
        if brackets["label"]:
            label, start = brackets["label"], position
        if brackets["end"] and label is not None:
            spans.append(Span(label, start, position))
            label = None
    if label is not None:
        raise ValueError(
            f"{path}:{sentence[start].line}: ({label}* in column {number} is not closed before "
            f"its sentence ends at line {sentence[-1].line}"
        )
    return spans
