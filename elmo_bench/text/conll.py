"""The files of the CoNLL shared tasks: columns, a token a line, an empty line after a sentence; the
ten columns of CoNLL-U (Universal Dependencies); and CoNLL-2012 (OntoNotes), parts of documents with
sentences of rows.

Columns of CoNLL-2012: document, part, word number, word, POS, parse, lemma, frame set, sense,
speaker, name, one column for the arguments of each predicate, coreference.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from reprlib import repr as shown
from typing import NamedTuple

from elmo_bench.terminal import counted_noun

from .lines import read_lines
from .spans import Span, is_tag

COLUMNS, FORM = 10, 1  # of CoNLL-U: how many there are, and which is the word
_NEW = re.compile(r"#\s*newdoc\b")
# A word, a multiword token, which begins at the next word, or an empty node after the last word.
_ID = re.compile(r"(?P<word>[0-9]{1,9})(?:-(?P<end>[0-9]{1,9})|(?P<node>\.[0-9]+))?")

# Columns of CoNLL-2012; MIN_COLUMNS are those of a sentence without predicates.
DOCUMENT, PART, NUMBER, WORD, POS, PARSE, LEMMA, FRAME = range(8)
SPEAKER, NAME, FIRST_PREDICATE, MIN_COLUMNS = 9, 10, 11, 12
_NO_PART = "-1"  # the part in half of OntoNotes 5's documents
NO_WORD = "[WORD]"  # the word in files that come without text

GAP = re.compile("[ \t]+")  # between columns; words and roles may contain other white space
_BEGIN = re.compile(r"#begin document \((?P<id>[^()]+)\);?(?: part (?P<part>\d{1,9}))?\s*")
_CELL = re.compile(r"(?:\((?P<label>[^()*]+))?\*(?P<end>\))?")


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
    """The words of a sentence, and all its lines, also comments, tokens 3-4 and empty nodes 5.1."""

    rows: list[Row]
    lines: list[str]

    @property
    def words(self) -> tuple[str, ...]:
        """The forms, which may contain spaces."""
        return tuple(row.columns[FORM] for row in self.rows)


def read_conllu(path: str | Path) -> Iterator[Sentence]:
    """Yield the sentences of a file, plain or .gz; `# newdoc` begins another document.

    Raises ValueError, with file and line, for a line without exactly ten columns, with an ID out of
    turn, or without a form, for a multiword token that overlaps another, ends before it begins or
    beyond its sentence, and for a sentence whose words are all _.
    """
    sentence, document = Sentence([], []), 0
    span, last, spanned_at = "", 0, 0  # the last multiword token, its last word, and its line
    for number, line in chain(read_lines(path), [(0, "")]):
        if not line.strip(" \t"):
            if last > len(sentence.rows):
                raise ValueError(
                    f"{path}:{spanned_at}: the multiword token {span} ends at word {last}, but its "
                    f"sentence has {counted_noun(len(sentence.rows), 'word')}"
                )
            if sentence.rows:
                _check_words(sentence.rows, FORM, path)
                yield sentence
            sentence, last = Sentence([], []), 0
            continue
        sentence.lines.append(line)
        if line.startswith("#"):
            document += _NEW.match(line) is not None
            continue
        columns = line.split("\t")
        if len(columns) != COLUMNS:
            raise ValueError(
                f"{path}:{number}: {counted_noun(len(columns), 'column')}, but CoNLL-U has "
                f"{COLUMNS}, separated by tabs: {line[:60]!r}"
            )
        if not columns[FORM].strip():
            raise ValueError(
                f"{path}:{number}: the form (column 2) is empty, or only white space: {line[:60]!r}"
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
        elif parts["end"]:
            if int(expected) <= last:
                raise ValueError(
                    f"{path}:{number}: the multiword token {columns[0]} overlaps {span} in line "
                    f"{spanned_at}, but each word belongs to one at most"
                )
            if int(parts["end"]) < int(expected):
                raise ValueError(
                    f"{path}:{number}: the multiword token {columns[0]} ends before it begins"
                )
            span, last, spanned_at = columns[0], int(parts["end"]), number


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
    if a row contradicts itself or the rest of the file, or if the file has no words, or _ for them.
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
            sentence.append(Row(number, GAP.split(line.strip(" \t"))))
            if wrong := _wrong(document, sentence):
                raise ValueError(f"{where}: {wrong}")
        else:
            if sentence:
                _check_parse(sentence, path)
                _check_words(sentence, WORD, path)
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
    came, part = columns[PART], str(document.part)
    if columns[DOCUMENT] != document.id or came not in (_NO_PART, part, part.zfill(len(came))):
        came = f"{shown(columns[DOCUMENT])} part {shown(came)}"
        return f"a row of {came} in {document.id} part {part}"
    if not all("*" in cell for cell in columns[FIRST_PREDICATE:-1]):
        return (
            f"{width} columns, but those from 12 to the last but one must be arguments, with a * "
            "in each: are these two rows in one line?"
        )
    if columns[NUMBER] != (number := str(len(sentence) - 1)):
        return (
            f"word number {shown(columns[NUMBER])}, but it must be {number}, since each sentence "
            "counts from 0: a row or an empty line is missing or repeated"
        )
    if columns[WORD] == NO_WORD:
        return f"word {NO_WORD!r}: this file is a skeleton, to which job=ontonotes adds the words"
    return ""


def _check_words(sentence: Sequence[Row], column: int, path: str | Path) -> None:
    """Raise ValueError if all words of a sentence, of two or more, are _: corpora whose text may
    not be published have it for each word.
    """
    if len(sentence) > 1 and all(row.columns[column] == "_" for row in sentence):
        raise ValueError(
            f"{path}:{sentence[0].line}: all words of this sentence are _, as in corpora whose "
            "text may not be published: add the text, as the corpus's README says, or leave its "
            "document out"
        )


def _check_parse(sentence: Sequence[Row], path: str | Path) -> None:
    """Raise ValueError unless the brackets of the parse match: a lost last row has some of them."""
    parse = "".join(row.columns[PARSE] for row in sentence)
    opening, closing = parse.count("("), parse.count(")")
    if opening != closing:
        raise ValueError(
            f"{path}:{sentence[-1].line}: the parse (column {PARSE + 1}) of the sentence that "
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
    """Return a sentence's named entities, as `bracket_spans` does; a cell may be `(X)` or - too."""
    return bracket_spans([_with_star(row) for row in sentence], NAME, path)


def _with_star(row: Row) -> Row:
    cell = row.columns[NAME]
    if "*" in cell:  # most cells
        return row
    cell = "*" if cell in ("-", "_") else re.sub(r"\(([^()*]+)\)", r"(\1*)", cell)
    return row._replace(columns=[*row.columns[:NAME], cell, *row.columns[NAME + 1 :]])
