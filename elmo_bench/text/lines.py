"""Read text files line by line: plain or gzipped, with line numbers."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from reprlib import repr as shown
from typing import Any, NoReturn, TypeVar

from elmo_bench.files import BOM, LINE_BYTES, NOT_UTF8, opened, parse_json, unpacked_limit
from elmo_bench.terminal import counted_noun, not_a_file

T = TypeVar("T")
E = TypeVar("E")


def read_lines(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, str]]:
    """Yield (line number from 1, line without its end), as `read_bytes` ends lines.

    Raises its errors, and ValueError, with file and line, for bytes that are not text and for a
    byte order mark at the beginning of another line than the first, where two files were joined.
    """
    for number, line in read_bytes(path):
        source = f"{path}:{number}"
        text = decode(line, source, encoding)
        if text.startswith("\ufeff"):
            refuse_mark(source)
        yield number, text


def refuse_mark(source: str) -> NoReturn:
    """Raise ValueError for a byte order mark at the beginning of a line."""
    raise ValueError(
        f"{source}: the line begins with a byte order mark (U+FEFF), which may only be at the "
        r"beginning of a file: remove it with sed 's/^\xEF\xBB\xBF//' OLD > NEW"
    )


def decode(line: bytes, source: str, encoding: str = "utf-8") -> str:
    """Return a line as text, without its end; raises ValueError, with `source`, if it is not."""
    try:
        return line.decode(encoding).removesuffix("\n")
    except UnicodeDecodeError as error:
        advice = f": {NOT_UTF8}" if encoding == "utf-8" else ""
        raise ValueError(
            f"{source}: byte {line[error.start]:#04x} is not {encoding.upper()} text{advice}"
        ) from error
    except LookupError as error:
        raise ValueError(f"{source}: {error}") from error


def read_bytes(path: str | Path) -> Iterator[tuple[int, bytes]]:
    """Yield (line number from 1, line with its line feed), without a byte order mark.

    Lines end with a line feed, or with a carriage return and a line feed, which becomes a line
    feed; other breaks, such as U+0085, are characters of a line. Raises FileNotFoundError, and
    ValueError for an empty or damaged file, and, with file and line, for a carriage return
    elsewhere and for a line of more than 16 MiB.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"{path}: {not_a_file(path)}")
    number = 0
    size = 0
    most = unpacked_limit(path)
    with opened(path) as file:
        next_line = partial(file.readline, LINE_BYTES + 1)
        for number, line in enumerate(iter(next_line, b""), 1):
            if b"\r" in line:
                line = _without_return(line, f"{path}:{number}")
            if len(line) > LINE_BYTES:
                raise ValueError(f"{path}:{number}: a line of more than {LINE_BYTES:,} bytes")
            size += len(line)
            if size > most:
                raise ValueError(
                    f"{path}: it expands to more than {most:,} bytes, too many for text: "
                    "decompress it yourself if you trust it"
                )
            yield number, line.removeprefix(BOM) if number == 1 else line
    if not number:
        raise ValueError(f"{path}: the file is empty")


def _without_return(line: bytes, source: str) -> bytes:
    before, _, rest = line.partition(b"\r")
    if rest != b"\n":
        raise ValueError(
            f"{source}: a carriage return behind {shown(before.decode(errors='replace'))}, but a "
            "line must end with a line feed, or with a carriage return and a line feed: convert "
            """the file with awk '{sub(/\\r+$/, ""); gsub(/\\r/, "\\n"); print}' OLD > NEW """
            """(within a cell of a table, with " " in place of "\\n")"""
        )
    return before + rest


def read_objects(path: str | Path, encoding: str = "utf-8") -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number from 1, JSON object) of each line that is not blank.

    Raises ValueError, with file and line, for any other line, and the errors of `read_lines`.
    """
    for number, line in read_lines(path, encoding):
        if line.strip():
            record = parse_json(line, f"{path}:{number}")
            if not isinstance(record, dict):
                raise ValueError(
                    f"{path}:{number}: {line[:50]!r}, but each line must be a JSON object"
                )
            yield number, record


def paired(path: Path, predicted: Sequence[T], examples: Sequence[E]) -> list[tuple[T, E]]:
    """Pair what a file of predictions has with the gold examples.

    Raises ValueError, with the file, if their numbers differ.
    """
    if len(predicted) != len(examples):
        raise ValueError(
            f"{path}: {counted_noun(len(predicted), 'prediction')}, but the gold file has "
            f"{counted_noun(len(examples), 'example')}"
        )
    return list(zip(predicted, examples, strict=True))


def gold_of(path: Path, predicted: Sequence[Any], examples: Sequence[Any]) -> list[Any]:
    """Return the gold of what a file of predictions has, read as examples.

    Raises ValueError if its words differ from those of the examples, with file and line, or if the
    number of sentences does, with the file.
    """
    for ours, theirs in paired(path, predicted, examples):
        if ours.words != theirs.words:
            raise ValueError(
                f"{ours.source}: the sentence {' '.join(ours.words)!r}, but {theirs.source} has "
                f"{' '.join(theirs.words)!r}"
            )
    return [example.gold for example in predicted]
