"""The CoNLL-2012 format (OntoNotes): parts of documents, with sentences of rows.

Columns: document, part, word number, word, POS, parse, lemma, frame set, sense, speaker, name, one
column for the arguments of each predicate, coreference.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import NamedTuple

from elmo_bench.files import counted_noun

from .conll import Row
from .lines import read_lines
from .spans import Span

MIN_COLUMNS = 12  # of a sentence without predicates
_DOCUMENT, _PART, _NUMBER, _WORD, _PARSE, _NAME, _FIRST_PREDICATE = 0, 1, 2, 3, 5, 10, 11
_NO_PART = "-1"  # the part in half of OntoNotes 5's documents
NO_WORD = "[WORD]"  # the word in files that come without text

_GAP = re.compile("[ \t]+")  # words may contain other white space
_BEGIN = re.compile(r"#begin document \((?P<id>[^()]+)\);?(?: part (?P<part>\d{1,9}))?\s*")
_CELL = re.compile(r"(?:\((?P<label>[^()*]+))?\*(?P<end>\))?")


def is_conll2012(path: str | Path) -> bool:
    """Whether a file begins with `#begin document`."""
    first = next((line for _, line in read_lines(path) if line.strip()), "")
    return first.startswith("#begin document")


class Document(NamedTuple):
    """A part of a document, the unit of coreference; part 0 if its first line names no part."""

    id: str
    part: int
    header: str  # its first line
    sentences: list[list[Row]]


def read_documents(path: str | Path) -> Iterator[Document]:
    """Yield the documents of a file, plain or .gz.

    Spaces or tabs separate columns, empty lines separate sentences. Raises ValueError, with file
    and line, if `#begin document` and `#end document` do not alternate, if a document is repeated,
    if a row contradicts itself or the rest of the file, or if the file has no words.
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
            if wrong := _wrong(document, sentence):
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


def _wrong(document: Document, sentence: Sequence[Row]) -> str:
    """Say what is wrong with the last row of a sentence; "" if nothing is."""
    columns, width = sentence[-1].columns, len(sentence[0].columns)
    if len(columns) != width or width < MIN_COLUMNS:
        line = f"{width}, as line {sentence[0].line}" if width >= MIN_COLUMNS else "12 or more"
        came = counted_noun(len(columns), "column")
        return f"{came}, but a row of this sentence must have {line}"
    came, part = columns[_PART], str(document.part)
    if columns[_DOCUMENT] != document.id or came not in (_NO_PART, part, part.zfill(len(came))):
        came = f"{shown(columns[_DOCUMENT])} part {shown(came)}"
        return f"a row of {came} in {document.id} part {part}"
    if not all("*" in cell for cell in columns[_FIRST_PREDICATE:-1]):
        return (
            f"{width} columns, but those from 12 to the last but one must be arguments, with a * "
            "in each: are these two rows in one line?"
        )
    if columns[_NUMBER] != (number := str(len(sentence) - 1)):
        return (
            f"word number {shown(columns[_NUMBER])}, but it must be {number}, since each sentence "
            "counts from 0: a row or an empty line is missing or repeated"
        )
    if columns[_WORD] == NO_WORD:
        return f"word {NO_WORD!r}: this file is a skeleton, to which job=ontonotes adds the words"
    return ""


def _check_parse(sentence: Sequence[Row], path: str | Path) -> None:
    """Raise ValueError unless the brackets of the parse match: a lost last row has some of them."""
    parse = "".join(row.columns[_PARSE] for row in sentence)
    opening, closing = parse.count("("), parse.count(")")
    if opening != closing:
        raise ValueError(
            f"{path}:{sentence[-1].line}: the parse (column {_PARSE + 1}) of the sentence that "
            f"ends here has {opening} opening and {closing} closing brackets: a row is missing"
        )


def bracket_spans(sentence: Sequence[Row], column: int, path: str | Path) -> list[Span]:
    """Return the labelled spans of a column: a predicate's arguments, or names.

    The cells are `(X*`, `*`, `*)` and `(X*)`. Raises ValueError, with file and line, for other
    cells, unbalanced brackets, and nested spans, which tags cannot represent.
    """
    spans: list[Span] = []
    label, start = "", 0  # of the span that is open
    for position, row in enumerate(sentence):
        cell = row.columns[column]
        if cell == "*":  # the most frequent cell by far
            continue
        brackets = _CELL.fullmatch(cell)
        if not brackets or bool(brackets["label"]) == bool(label):
            since = (
                f"{label} is open since line {sentence[start].line}" if label else "none is open"
            )
            raise ValueError(
                f"{path}:{row.line}: {cell!r} in column {column % len(row.columns) + 1}, but a "
                f"cell must be (X* or * or *) or (X*), in turn, and {since} in its sentence"
            )
        if brackets["label"]:
            label, start = brackets["label"], position
        if brackets["end"]:
            spans.append(Span(label, start, position))
            label = ""
    if label:
        row = sentence[start]
        raise ValueError(
            f"{path}:{row.line}: ({label}* in column {column % len(row.columns) + 1} is not closed "
            f"before its sentence ends at line {sentence[-1].line}"
        )
    return spans


def name_spans(sentence: Sequence[Row], path: str | Path) -> list[Span]:
    """Return the named entities of a sentence, as `bracket_spans` does; a cell may also be `(X)`,
    or - if it is empty.
    """
    return bracket_spans([_with_star(row) for row in sentence], _NAME, path)


def _with_star(row: Row) -> Row:
    cell = row.columns[_NAME]
    if "*" in cell:  # most cells
        return row
    cell = "*" if cell in ("-", "_") else re.sub(r"\(([^()*]+)\)", r"(\1*)", cell)
    return row._replace(columns=[*row.columns[:_NAME], cell, *row.columns[_NAME + 1 :]])
