"""Text files line by line: plain or gzipped, UTF-8 only, every line with its number."""

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end).

    Raises FileNotFoundError, and ValueError for an empty file, a damaged archive or bytes that are
    not UTF-8.
    """
    return ((number, decode(line, f"{path}:{number}")) for number, line in read_bytes(path))


def decode(line: bytes, source: str) -> str:
    """A line as text, without its end; ValueError, naming `source`, where it is not UTF-8."""
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: byte {line[error.start]:#04x} is not UTF-8 text") from error


def read_bytes(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line with its end).

    Raises FileNotFoundError, and ValueError for an empty or damaged file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    number = 0
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
            for number, line in enumerate(file, 1):
                yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: a damaged gzip file, after line {number}: {error}") from error
    if not number:
        raise ValueError(f"{path}: the file is empty")


def read_objects(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, JSON object) of each line that is not blank.

    Raises ValueError, with file and line, for any other line, and what `read_lines` raises.
    """
    for number, line in read_lines(path):
        if line.strip():
            try:
                record = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(
                    f"{path}:{number}: not JSON, from character {error.pos + 1}: {error.msg}"
                ) from error
            if not isinstance(record, dict):
                raise ValueError(f"{path}:{number}: {line[:50]!r}, but a line is a JSON object")
            yield number, record
