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

COLUMNS = 10  # of CoNLL-U
FORM = 1  # column of the word in CoNLL-U
_NEW = re.compile(r"#\s*newdoc\b")
# A word, a multiword token, which begins at the next word, or an empty node after the last word.
_ID = re.compile(r"(?P<word>[0-9]{1,9})(?:-(?P<end>[0-9]{1,9})|(?P<node>\.[0-9]+))?")

# Columns of CoNLL-2012; MIN_COLUMNS are those of a sentence without predicates.
DOCUMENT, PART, NUMBER, WORD, POS, PARSE, LEMMA, FRAME = range(8)
SPEAKER = 9
NAME = 10
FIRST_PREDICATE = 11
MIN_COLUMNS = 12
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


def document_name(document: int | str, source: str) -> str:
    """Return a document's name, which no document of another file has: its own, or its number with
    the file of `source`; "0" for a text before the first line that begins one.

    >>> document_name(3, "a/dev.txt:17"), document_name(0, "a/dev.txt:1"), document_name("wsj", "")
    ('a/dev.txt: 3', '0', 'wsj')
    """
    if isinstance(document, str) or document == 0:
        return str(document)
    return f"{source.rpartition(':')[0]}: {document}"


def read_blocks(path: str | Path) -> Iterator[list[Row]]:
    """Yield each block of lines between empty lines, without empty blocks.

    A line of only spaces and tabs is empty; one that starts with `-DOCSTART-` begins another
    document. A line before the first token of a block that starts with # is a comment, unless it
    has as many columns as other lines, and behind a # alone a tag in the last (or _ or -). If a
    line has a tab, tabs separate its columns, so that a word may be empty or contain a space;
    otherwise spaces do. Raises ValueError, with file and line, for a line of fewer than two
    columns, or of another number than the first line of a token.
    """
    width = _width(path)
    document = 0
    block: list[Row] = []
    for number, line in read_lines(path):
        begins_document = line.startswith("-DOCSTART-")
        if begins_document or not line.strip(" \t"):
            if block:
                yield block
            block = []
            if begins_document:
                document += 1
            continue
        columns = _columns(line)
        if line.startswith("#") and not block and not _is_token(columns, width):
            continue
        if len(columns) < 2 or len(columns) != width:
            expected = (
                f"the lines before have {width}" if width > 1 else "there must be word and tag"
            )
            raise ValueError(
                f"{path}:{number}: {counted_noun(len(columns), 'column')}, but {expected}: "
                f"{shown(line)}"
            )
        block.append(Row(number, columns, document))
    if block:
        yield block


def _width(path: str | Path) -> int:
    """Return the number of columns of a file, by its first line that is surely a token; else 0."""
    for _, line in read_lines(path):
        if line.strip(" \t") and not line.startswith(("#", "-DOCSTART-")):
            return len(_columns(line))
    return 0


def _columns(line: str) -> list[str]:
    if "\t" in line:
        return line.split("\t")
    return [cell for cell in line.split(" ") if cell]


def _is_token(columns: Sequence[str], width: int) -> bool:
    """Whether a line that begins with # is a token, not a comment."""
    last = columns[-1]
    has_tag = is_tag(last) or last in ("_", "-")
    return len(columns) == width and (columns[0] != "#" or has_tag)


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
    sentence = Sentence([], [])
    multiword: _Multiword | None = None  # the last one of the sentence
    document = 0
    for number, line in chain(read_lines(path), [(0, "")]):  # the last sentence ends, too
        if not line.strip(" \t"):
            if multiword and multiword.last > len(sentence.rows):
                raise ValueError(
                    f"{path}:{multiword.line}: the multiword token {multiword.id} ends at word "
                    f"{multiword.last}, but its sentence has "
                    f"{counted_noun(len(sentence.rows), 'word')}"
                )
            if sentence.rows:
                _check_words(sentence.rows, FORM, path)
                yield sentence
            sentence = Sentence([], [])
            multiword = None
            continue
        sentence.lines.append(line)
        if line.startswith("#"):
            if _NEW.match(line):
                document += 1
            continue
        columns = _columns_of_conllu(line, path, number)
        parts = _id(columns[0], len(sentence.rows), path, number)
        if columns[0] == parts["word"]:
            sentence.rows.append(Row(number, columns, document))
        elif parts["end"]:
            begun = _Multiword(columns[0], int(parts["word"]), int(parts["end"]), number)
            _check_multiword(begun, multiword, path)
            multiword = begun


def _columns_of_conllu(line: str, path: str | Path, number: int) -> list[str]:
    """Return the columns of a line; raises ValueError if there are not ten, or it has no form."""
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
    return columns


def _id(cell: str, num_words: int, path: str | Path, number: int) -> re.Match[str]:
    """Return the parts of an ID; raises ValueError unless it may come after so many words."""
    parts = _ID.fullmatch(cell)
    is_node = parts is not None and parts["node"]
    expected = str(num_words if is_node else num_words + 1)
    if parts is None or parts["word"] != expected:
        raise ValueError(
            f"{path}:{number}: ID {cell!r}, but {expected} must come next (or a span "
            "such as 3-4, or an empty node such as 5.1): a line is missing or repeated"
        )
    return parts


class _Multiword(NamedTuple):
    """A multiword token: its ID, its first and its last word, and its line."""

    id: str
    first: int
    last: int
    line: int


def _check_multiword(token: _Multiword, earlier: _Multiword | None, path: str | Path) -> None:
    """Raise ValueError if a multiword token overlaps an earlier one or ends before it begins."""
    if earlier and token.first <= earlier.last:
        raise ValueError(
            f"{path}:{token.line}: the multiword token {token.id} overlaps {earlier.id} in line "
            f"{earlier.line}, but each word belongs to one at most"
        )
    if token.last < token.first:
        raise ValueError(
            f"{path}:{token.line}: the multiword token {token.id} ends before it begins"
        )


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

    @property
    def name(self) -> str:
        """How messages call it."""
        return f"{self.id} part {self.part}"


def read_documents(path: str | Path) -> Iterator[Document]:
    """Yield the documents of a file, plain or .gz.

    Spaces or tabs separate columns, empty lines separate sentences. Raises ValueError, with file
    and line, if `#begin document` and `#end document` do not alternate, if a document is repeated,
    if a row contradicts itself or the rest of the file, or if the file has no words, or _ for them.
    """
    document: Document | None = None
    sentence: list[Row] = []
    lines: dict[str, int] = {}  # in which a document begins, by its name
    for number, line in read_lines(path):
        where = f"{path}:{number}"
        if document is None:
            if line.strip():
                document = _begin(line, where)
                if document.name in lines:
                    raise ValueError(
                        f"{where}: {document.name} occurs twice, first in line "
                        f"{lines[document.name]}"
                    )
                lines[document.name] = number
        elif line.strip() and not line.startswith("#"):
            sentence.append(Row(number, GAP.split(line.strip(" \t"))))
            _check_row(document, sentence, where)
        else:
            if sentence:
                _check_parse(sentence, path)
                _check_words(sentence, WORD, path)
                document.sentences.append(sentence)
                sentence = []
            if line.startswith("#"):
                if line.strip() != "#end document":
                    raise ValueError(
                        f"{where}: {line!r}, but {document.name} has no #end document yet"
                    )
                yield document
                document = None
    if document is not None:
        raise ValueError(f"{path}:{lines[document.name]}: {document.name} has no #end document")


def _begin(line: str, where: str) -> Document:
    """Return the document that a line begins, without sentences."""
    beginning = _BEGIN.fullmatch(line)
    if not beginning:
        raise ValueError(
            f"{where}: {line!r}, but a document must begin with '#begin document (ID); part NUMBER'"
        )
    return Document(beginning["id"], int(beginning["part"] or 0), line, [])


def _check_row(document: Document, sentence: Sequence[Row], where: str) -> None:
    """Raise ValueError if the last row of a sentence contradicts itself or those before."""
    columns = sentence[-1].columns
    width = len(sentence[0].columns)
    if len(columns) != width or width < MIN_COLUMNS:
        wanted = f"{width}, as line {sentence[0].line}" if width >= MIN_COLUMNS else "12 or more"
        raise ValueError(
            f"{where}: {counted_noun(len(columns), 'column')}, but a row of this sentence must "
            f"have {wanted}"
        )
    part = columns[PART]
    own_part = str(document.part)
    is_own_part = part in (_NO_PART, own_part, own_part.zfill(len(part)))
    if columns[DOCUMENT] != document.id or not is_own_part:
        raise ValueError(
            f"{where}: a row of {shown(columns[DOCUMENT])} part {shown(part)} in {document.name}"
        )
    if not all("*" in cell for cell in columns[FIRST_PREDICATE:-1]):
        raise ValueError(
            f"{where}: {width} columns, but those from 12 to the last but one must be arguments, "
            "with a * in each: are these two rows in one line?"
        )
    number = str(len(sentence) - 1)
    if columns[NUMBER] != number:
        raise ValueError(
            f"{where}: word number {shown(columns[NUMBER])}, but it must be {number}, since each "
            "sentence counts from 0: a row or an empty line is missing or repeated"
        )
    if columns[WORD] == NO_WORD:
        raise ValueError(
            f"{where}: word {NO_WORD!r}: this file is a skeleton, to which job=ontonotes adds the "
            "words"
        )


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
    opening = parse.count("(")
    closing = parse.count(")")
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
    label = ""  # of the span that is open
    start = 0
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
            label = brackets["label"]
            start = position
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
    columns = list(row.columns)
    if cell in ("-", "_"):
        columns[NAME] = "*"
    else:
        columns[NAME] = re.sub(r"\(([^()*]+)\)", r"(\1*)", cell)
    return row._replace(columns=columns)
