"""What a file says, and whether it shows by itself that it is damaged.

A second, independent reading of what texts of every format have in common: UTF-8, line ends, marks,
archives' checksums, JSON's keys, columns' widths. No reader may lose a text where its file shows
it. What one format says twice (a word's number, a vector's width) is in the tests of its reader.
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
LARGE = 1 << 22  # bytes, more than any good file has
PLACES = ("source", "document")  # fields of an example that name its place in a file


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
        row not in TEXTS and not file.removesuffix(".gz").endswith((".json", "jsonl"))
    ):
        return ""
    try:
        return next(_found(row, Path(file.removesuffix(".gz")).suffix, data), "")
    except UnicodeDecodeError:
        return "not UTF-8"


def _found(row: str, suffix: str, data: bytes) -> Iterator[str]:
    data = data.removeprefix(BOM)
    if suffix == ".json":
        yield from _json(data.decode())
        return
    lines = data.split(b"\n")
    ends = {line.endswith(b"\r") for line in lines[:-1]}
    if len(ends) > 1 or b"\r" in data.replace(b"\r\n", b""):
        yield "line ends of two kinds, or a carriage return within a line"
    if row != "vocabulary" and any(line.startswith(BOM) for line in lines):
        yield "a byte order mark within the file"
    texts = data.decode().replace("\r\n", "\n").split("\n")
    if suffix == ".jsonl":
        for line in filter(str.strip, texts):
            yield from _json(line)
    elif row == "ner":
        yield from _columns(texts)


def _json(text: str) -> Iterator[str]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError("a key twice")
        return dict(pairs)

    try:
        json.loads(text, object_pairs_hook=unique)
    except (ValueError, RecursionError) as error:
        yield f"{type(error).__name__} in JSON: {error}"


def _columns(lines: list[str]) -> Iterator[str]:
    rows = [re.split("\t" if "\t" in line else " +", line) for line in lines if line.strip(" \t")]
    rows = [row for row in rows if not row[0].startswith("-DOCSTART-")]
    if len({len(row) for row in rows}) > 1:
        yield "rows of different width"
    if any(not row[-1].isprintable() for row in rows):
        yield "a tag with a character that cannot be seen"


# Rows whose files are texts, which are looked at line by line.
TEXTS = ("ner", "srl", "coref", "conllu", "sst5", "snli", "sentences", "raw-text", "vocabulary")
