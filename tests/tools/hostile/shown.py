"""What a file says, and whether it shows by itself that it is damaged.

A second, independent reading of the formats: most say something twice (a word's number, a width, a
bracket's other half, a checksum), and no reader may lose a text where its file shows it.
"""

import dataclasses
import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn

BOM = b"\xef\xbb\xbf"
NUMBER = re.compile(rb"[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?", re.IGNORECASE)
BEGIN = re.compile(r"#begin document \(([^()]+)\);?(?: part (\d+))?\s*")
LARGE = 1 << 22  # bytes, more than any good file has
PLACES = ("source", "document")  # fields of an example that name its place in a file
WANTED = (b"the", b"dog", b"a", b"nan")  # the words that rows.py reads


def said(content: Any) -> Any:
    """What a reader took from a file, without the file's own path."""
    if isinstance(content, nn.Module):
        weights = {name: said(tensor) for name, tensor in content.state_dict().items()}
        return weights, getattr(content, "vocabulary", None)
    if dataclasses.is_dataclass(content):
        names = [field.name for field in dataclasses.fields(content) if field.name not in PLACES]
        return [said(getattr(content, name)) for name in names]
    if isinstance(content, dict):
        return {name: said(value) for name, value in content.items()}
    if isinstance(content, list | tuple):
        return [said(value) for value in content]
    if isinstance(content, np.ndarray | Tensor):
        return np.asarray(content).tobytes()
    return content


def damage(row: str, file: str, data: bytes | None) -> str:
    """How a file shows that it is damaged; empty if it does not, or if nobody here can tell."""
    if file.endswith(".gz"):
        try:
            data = gzip.GzipFile(fileobj=io.BytesIO(data or b"")).read(LARGE)
        except (OSError, EOFError, zlib.error):
            return "a damaged gzip file"
        if len(data) == LARGE:  # a bomb
            return ""
    if data is None or (
        row not in KINDS and not file.removesuffix(".gz").endswith((".json", "jsonl"))
    ):
        return ""
    try:
        return next(_found(row, Path(file.removesuffix(".gz")).suffix, data), "")
    except UnicodeDecodeError:
        return "not UTF-8"


def _found(row: str, suffix: str, data: bytes) -> Iterator[str]:
    data = data.removeprefix(BOM)
    if suffix == ".json" or (row, suffix) == ("squad-predictions", ".out"):
        yield from _json(data.decode())
        return
    if row not in ("vectors", "all-vectors"):
        data.decode()
    *lines, rest = data.split(b"\n")
    if b"\r" in data.replace(b"\r\n", b""):
        yield "a carriage return within a line"
    if row != "vocabulary" and any(line.startswith(BOM) for line in [*lines, rest]):
        yield "a byte order mark within the file"
    lines = [line.removesuffix(b"\r") for line in [*lines, rest]]
    if row in ("vectors", "all-vectors"):
        yield from _vectors(lines, WANTED if row == "vectors" else None)
        return
    texts = [line.decode() for line in lines]
    if suffix == ".jsonl":
        for line in filter(str.strip, texts):
            yield from _json(line)
    elif KINDS.get(row):
        yield from KINDS[row](texts)


def _json(text: str) -> Iterator[str]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    try:
        for value in _values(json.loads(text, object_pairs_hook=unique)):
            words = value.split() if isinstance(value, str) else []
            if words[:1] == ["("] and words.count("(") != words.count(")"):  # a binary parse
                yield "brackets without their other half"
    except (ValueError, RecursionError) as error:
        yield f"{type(error).__name__} in JSON: {error}"


def _values(node: Any) -> Iterator[Any]:
    yield node
    for value in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        yield from _values(value)


def _columns(lines: list[str]) -> Iterator[str]:
    rows: list[list[str]] = []
    widths = set()
    is_inside = False  # a sentence, before which a line of another width with # is a comment
    for line in lines:
        row = re.split("\t" if "\t" in line else " +", line)
        if line.startswith("-DOCSTART-") or not line.strip(" \t"):
            is_inside = False
        elif is_inside or not line.startswith("#"):
            is_inside = True
            widths.add(len(row))
            rows.append(row)
    if len(widths) > 1:
        yield "rows of different width"
    if any(not row[-1].isprintable() for row in rows):
        yield "a tag with a character that cannot be seen"


def _conll2012(lines: list[str]) -> Iterator[str]:
    document, expected, width = None, 0, 0
    for line in lines:
        if line.startswith("#"):
            begin = BEGIN.fullmatch(line)
            if begin is None and line.strip() != "#end document":
                yield "a comment that begins and ends no document"
            if bool(begin) == bool(document):
                yield "documents that do not begin and end in turn"
            document = begin
        if line.startswith("#") or not line.strip():
            expected = 0
            continue
        columns = re.split("[ \t]+", line.strip(" \t"))
        if document and columns[:2] != [document[1], str(int(document[2] or 0))]:
            yield "a row of another document"
        if columns[2:3] != [str(expected)]:
            yield "word numbers that do not follow"
        if expected and len(columns) != width:
            yield "rows of different width"
        expected, width = expected + 1, len(columns)
    if document:
        yield "a document without an end"


def _conllu(lines: list[str]) -> Iterator[str]:
    expected = 1
    for line in lines:
        if not line.strip(" \t"):
            expected = 1
        elif not line.startswith("#"):
            number, *columns = line.split("\t")
            if len(columns) != 9:
                yield "not ten columns"
            if number.isdigit() and number != str(expected):
                yield "word numbers that do not follow"
            expected += number.isdigit()


def _trees(lines: list[str]) -> Iterator[str]:
    if any(line.count("(") != line.count(")") for line in lines):
        yield "brackets without their other half"


def _vectors(lines: list[bytes], wanted: tuple[bytes, ...] | None) -> Iterator[str]:
    rows = [line.replace(b"\t", b" ").rstrip(b" ").split(b" ") for line in lines if line.strip()]
    width = len(rows[0]) - 1 if rows else 0
    if rows and len(rows[0]) == 2 and all(map(bytes.isdigit, rows[0])):  # a header
        (count, width), rows = map(int, rows[0]), rows[1:]
        if count != len(rows):
            yield "another number of vectors than the header says"
    for word, *fields in rows:
        if len(fields) < width or (wanted is None and b"" in fields[-width:]):
            yield "a vector that is too short"
        is_wanted = wanted is None or word in wanted
        if is_wanted and len(fields) > width and fields[0] == b"":
            yield "two spaces behind a word"
        is_wanted = wanted is None or (is_wanted and len(fields) == width)  # or of a longer word
        if is_wanted and not all(map(NUMBER.fullmatch, fields[-width:])):
            yield "a vector of other things than numbers"


# Lines of these rows are looked at, and what their columns and brackets say twice.
KINDS: dict[str, Any] = {
    **{"ner": _columns, "ner-predictions": _columns, "srl": _conll2012, "coref": _conll2012},
    **{"conllu": _conllu, "parse": _conllu, "parse-predictions": _conllu, "sst5": _trees},
    **dict.fromkeys(("vectors", "all-vectors", "snli", "sentences", "raw-text", "vocabulary")),
    **dict.fromkeys(f"{task}-predictions" for task in ("sst5", "snli", "srl", "coref")),
    **dict.fromkeys(
        f"{task}-input" for task in ("ner", "sst5", "snli", "squad", "srl", "coref", "parse")
    ),
}
