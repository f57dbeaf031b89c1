"""Read files that a stranger may have written, with limits on their size and content.

All limits are far above the needs of honest files. Errors are ValueError and begin with the file.
"""

import gzip
import json
import math
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from pathlib import Path
from reprlib import repr as shown
from typing import Any
from zipfile import ZipFile

import numpy as np

JSON_BYTES = 1 << 24  # maximum of a JSON file, unless its reader allows more
LINE_BYTES = 1 << 24  # maximum of a line of text
# Text compresses to a fifth, a regular corpus to a fiftieth, zeros to a thousandth.
PACKED_RATIO = 200
PACKED_FREE = 1 << 21  # bytes to which any archive may unpack
ARRAYS = 1 << 28  # bytes of arrays in an archive; counts, mostly zeros, compress better than text
BUFFER = 1 << 17
BOM = b"\xef\xbb\xbf"
NOT_UTF8 = "if it is Latin-1, iconv -f latin1 -t utf-8 OLD > NEW converts it"  # for messages
GZIP = b"\x1f\x8b"  # how a gzipped file begins
# How files of other kinds begin, and what to do about them.
OTHER_KINDS = {
    b"\xff\xfe\x00\x00": "it is UTF-32: iconv -f utf-32 -t utf-8 OLD > NEW converts it",
    b"\xff\xfe": "it is UTF-16: iconv -f utf-16 -t utf-8 OLD > NEW converts it",
    b"\xfe\xff": "it is UTF-16: iconv -f utf-16 -t utf-8 OLD > NEW converts it",
    b"PK\x03\x04": "it is a zip archive: unzip it (an .xlsx: save its table as CSV in UTF-8)",
}


def unpacked_limit(path: str | Path) -> int:
    """Return how many bytes a file may decompress to."""
    return PACKED_FREE + PACKED_RATIO * Path(path).stat().st_size


def read_json(path: str | Path, *, max_bytes: int = JSON_BYTES) -> dict[str, Any]:
    """Read a JSON file with an object, plain or `.gz`.

    A byte order mark is skipped. Raises OSError if the file cannot be read. Raises ValueError, with
    the file and, where there is one, the line, if it exceeds `max_bytes`, is empty, is a damaged
    .gz, has no object or is not JSON in UTF-8 (see `parse_json`).
    """
    limit = min(max_bytes, unpacked_limit(path))
    content = bytearray()
    with opened(path) as file:
        while len(content) <= limit and (piece := file.read(BUFFER)):
            content += piece
    if len(content) > limit:
        raise ValueError(f"{path}: more than {limit:,} bytes, the limit for such a file")
    content = content.removeprefix(BOM)
    if not content.strip():
        raise ValueError(f"{path}: the file is empty")
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = 1 + content.count(b"\n", 0, error.start)
        byte = content[error.start]
        raise ValueError(
            f"{path}:{line}: byte {byte:#04x} is not UTF-8 text: {NOT_UTF8}"
        ) from error
    value = parse_json(text, f"{path}")
    if not isinstance(value, dict):
        raise ValueError(f"{path}: {text[:50]!r}, but this file must contain a JSON object")
    return value


def parse_json(text: str, source: str) -> Any:
    """Parse a JSON text.

    Raises ValueError, which begins with `source`, for invalid JSON, for an object with a key twice,
    for lists and objects nested too deep, and for numbers that are not finite or do not fit into 64
    bits.
    """
    kinds: dict[str, Any] = dict.fromkeys(("parse_int", "parse_float", "parse_constant"), _number)
    try:
        return json.loads(text, object_pairs_hook=_object, **kinds)
    except json.JSONDecodeError as error:
        line = f":{error.lineno}" if "\n" in text else ""
        raise ValueError(
            f"{source}{line}: not JSON, from character {error.colno}: {error.msg}"
        ) from error
    except RecursionError as error:
        raise ValueError(f"{source}: lists and objects are nested too deep") from error
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        twice, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise ValueError(f"the key {shown(twice)} occurs twice in an object")
    return value


def _number(digits: str) -> int | float:
    value: int | float = float(digits)
    is_integer = digits.removeprefix("-").isdigit() and math.isfinite(value)
    if is_integer:
        value = int(digits)
    if not math.isfinite(value) or (is_integer and not -(2**63) <= value < 2**63):
        raise ValueError(
            f"{digits[:30]}, but a number must be finite, and an integer fit into 64 bits"
        )
    return value


@contextmanager
def opened(path: str | Path) -> Iterator[BufferedIOBase]:
    """Open a text file for reading bytes; a name with `.gz` is decompressed.

    Raises OSError if it cannot be opened, and ValueError, also in the body, for a damaged archive
    and for a file that begins as another kind of file does, such as UTF-16.
    """
    path = Path(path)
    is_packed = path.suffix == ".gz"
    try:
        with path.open("rb") as packed:
            if is_packed and packed.peek(2)[:2] not in (GZIP, b""):
                raise ValueError(f"{path}: it is not gzipped: name it without .gz, if it is text")
            text = BufferedReader(gzip.GzipFile(fileobj=packed), BUFFER) if is_packed else packed
            beginning = text.peek(4)
            if beginning.startswith(GZIP):
                advice = " twice: gunzip it once" if is_packed else f": name it {path.name}.gz"
                raise ValueError(f"{path}: it is gzipped{advice}")
            for kind, advice in OTHER_KINDS.items():
                if beginning.startswith(kind):
                    raise ValueError(f"{path}: {advice}")
            yield text
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise ValueError(f"{path}: a damaged gzip file: {error}") from error


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """Read the arrays of numbers in an `.npz`, by name.

    Raises OSError if it cannot be read, and ValueError, with the file, if it is damaged, has arrays
    of other types, or unpacks to more bytes than an honest file would.
    """
    with Path(path).open("rb") as file:
        try:
            with ZipFile(file) as archive:
                size = Path(path).stat().st_size
                unpacked = sum(member.file_size for member in archive.infolist())
                if unpacked > max(ARRAYS, PACKED_RATIO * size):
                    raise ValueError(f"{size:,} bytes that expand to {unpacked:,}")
                damaged = archive.testzip()
                if damaged:
                    raise ValueError(f"{damaged} has another checksum")
            arrays = dict(np.lib.npyio.NpzFile(file, allow_pickle=False))
            for name, array in arrays.items():
                if array.dtype.kind not in "biuf":
                    raise ValueError(f"{name} is of {array.dtype}")
        except Exception as error:  # zipfile and numpy raise many types
            why = error or type(error).__name__
            raise ValueError(
                f"{path}: not an .npz file of numeric arrays, or damaged: {why}"
            ) from error
    return arrays
