"""Read text files line by line: plain or gzipped, in UTF-8, with line numbers."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from elmo_bench.untrusted import BOM, LINE_BYTES, opened, parse_json


def read_lines(path: str | Path) -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end).

    Raises FileNotFoundError, and ValueError for an empty file, a damaged archive or bytes that are
    not UTF-8.
    """
    return ((number, decode(line, f"{path}:{number}")) for number, line in read_bytes(path))


def decode(line: bytes, source: str) -> str:
    """Return a line as text, without its end; raises ValueError, with `source`, if not UTF-8."""
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: byte {line[error.start]:#04x} is not UTF-8 text") from error


def read_bytes(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line with its end), without a byte order mark.

    Raises FileNotFoundError, and ValueError for an empty or damaged file, for a line of more than
    16 MiB, and if there are carriage returns but no line feed.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    number = 0
    with opened(path) as file:
        for number, line in enumerate(iter(partial(file.readline, LINE_BYTES + 1), b""), 1):
            if number == 1 and b"\n" not in line and b"\r" in line.rstrip(b"\r"):
                raise ValueError(
                    f"{path}: carriage returns but no line feed, which must end each line: convert "
                    r"it with tr '\r' '\n' < OLD > NEW"
                )
            if len(line) > LINE_BYTES:
                raise ValueError(f"{path}:{number}: a line of more than {LINE_BYTES:,} bytes")
            yield number, line.removeprefix(BOM) if number == 1 else line
    if not number:
        raise ValueError(f"{path}: the file is empty")


def read_objects(path: str | Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, JSON object) of each line that is not blank.

    Raises ValueError, with file and line, for any other line, and the errors of `read_lines`.
    """
    for number, line in read_lines(path):
        if line.strip():
            record = parse_json(line, f"{path}:{number}")
            if not isinstance(record, dict):
                raise ValueError(
                    f"{path}:{number}: {line[:50]!r}, but each line must be a JSON object"
                )
            yield number, record
