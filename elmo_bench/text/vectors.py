"""Pretrained word vectors, plain or .gz: in GloVe's text format, a word and its numbers a line,
separated by spaces or tabs, or in word2vec's text or binary format.
"""

import hashlib
import logging
import os
import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from io import BufferedIOBase
from itertools import islice
from pathlib import Path
from reprlib import repr as shown

import numpy as np

from elmo_bench.files import BOM, alone, atomic, opened, read_arrays

from .lines import decode, read_bytes, refuse_mark

log = logging.getLogger(__name__)
LINES = 1000  # lines whose numbers are parsed at once
BLOCK = 1 << 22  # bytes of a binary file that are read at once
WORD_BYTES, WIDTH = 10_000, 100_000  # limits of a binary file's words and vectors, for bad files
FASTTEXT = b"\xba\x16\x4f\x2f"  # the first bytes of fastText's .bin
HEADER = re.compile(rb"\d{1,18} \d{1,18} *\n?")
NUMBER = re.compile(rb"[-+]?(\d++\.?\d*+|\.\d++)(e[-+]?\d++)?", re.IGNORECASE)
Numbered = Iterable[tuple[int, bytes]]  # lines
Block = tuple[list[str], np.ndarray]  # words, and their vectors of shape "words width"


def read_vectors(
    path: str | Path, wanted: Collection[str], watch: Callable[[Numbered], Numbered] = iter
) -> dict[str, np.ndarray]:
    """Return the vectors (float32) of the wanted words; the last of a repeated word counts.

    Files named .bin or .bin.gz are in word2vec's binary format, others are text. `watch` receives
    the numbered lines of a text and yields them unchanged, so that it can show progress.

    Raises FileNotFoundError, and ValueError, with file and line, for an invalid vector of a wanted
    word, a line with another number of fields than the first, or another number of vectors than a
    first line "count width" says.
    """
    vectors: dict[str, np.ndarray] = {}
    for words, table in _blocks(Path(path), wanted, watch):
        pairs = zip(words, table, strict=True)
        vectors |= {word: vector.copy() for word, vector in pairs if word in wanted}
    return vectors


def cached_vectors(
    file: str, wanted: Collection[str], folder: Path, watch: Callable[[Numbered], Numbered] = iter
) -> dict[str, np.ndarray]:
    """Return what `read_vectors` returns, which is kept in `folder` for the other runs of a sweep.

    It is read again if the file has changed, or if what was kept is damaged.
    """
    path = Path(file).expanduser()
    about = path.stat()
    text = "\n".join([f"{path.resolve()} {about.st_size} {about.st_mtime_ns}", *sorted(wanted)])
    kept = folder / f"{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}.npz"
    with ExitStack() as stack:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            stack.enter_context(alone(kept, f"another run is reading {file}: waiting for it"))
        except OSError as error:  # the folder is read-only or full
            log.warning("cannot cache the vectors of %s: %s", file, error)
            return read_vectors(path, wanted, watch)
        if (vectors := _read_kept(kept)) is None:
            vectors = read_vectors(path, wanted, watch)
            try:
                with atomic(kept) as part:
                    words = "".join(f"{word}\n" for word in vectors).encode()
                    table = np.array([*vectors.values()], dtype=np.float32)
                    np.savez(part, words=np.frombuffer(words, np.uint8), vectors=table)
            except OSError as error:
                log.warning("cannot cache the vectors of %s: %s", file, error)
        return vectors


def _read_kept(path: Path) -> dict[str, np.ndarray] | None:
    """Return kept words and their vectors; None if the file is missing or damaged."""
    if not path.is_file():
        return None
    try:
        kept = read_arrays(path)
        words = kept["words"].tobytes().decode().split("\n")[:-1]
        vectors = dict(zip(words, kept["vectors"], strict=True))
    except (KeyError, OSError, ValueError) as error:
        log.warning("%s is damaged (%s): reading the vectors again", path, error)
        return None
    with suppress(OSError):
        os.utime(path)  # job=cache says when it was last read
    return vectors


class _Lines:
    """The lines of a text of vectors, without its header and blank lines, and with spaces for tabs.

    Iterating raises ValueError for another number of vectors than the header says, and in a file
    without a header for a byte order mark within it.
    """

    def __init__(self, path: str | Path, watch: Callable[[Numbered], Numbered] = iter) -> None:
        self.path, self.watch = path, watch
        self.width = 0  # of a vector, as the header or the first vector has it
        self.count: int | None = None  # of vectors, as the header says

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        blank = number = 0
        for number, line in self.watch(read_bytes(self.path)):
            line = line.replace(b"\t", b" ")
            if number == 1 and HEADER.fullmatch(line):  # "count width", as word2vec has it
                self.count, self.width = map(int, line.split())
            elif line.isspace():
                blank += 1
            else:
                # Published files with a header have words that begin with U+FEFF.
                if self.count is None and line.startswith(BOM):
                    refuse_mark(f"{self.path}:{number}")
                yield number, line
        if self.count is not None and (vectors := number - 1 - blank) != self.count:
            raise ValueError(
                f"{self.path}: its first line says {self.count} vectors, but the file has "
                f"{vectors}: get the file again, or correct its first line"
            )

    def parted(self, number: int, line: bytes) -> tuple[str, bytes]:
        """Return the word of a line and its numbers, separated by spaces."""
        source = f"{self.path}:{number}"
        word, _, values = line.rstrip(b" \n").partition(b" ")
        fields = values.count(b" ") + 1 if values else 0
        owner = "its first line says" if self.count is not None else "the first one has"
        if (more := fields - self.width) > 0 and self.width:  # glove.840B has words with spaces
            *beginning, values = values.split(b" ", more)
            word = b" ".join([word, *beginning])
            numbers = sum(bool(NUMBER.fullmatch(each)) for each in beginning)
            # Many numbers are another vector, behind which the line feed is missing.
            if numbers < more and (more < self.width or numbers < max(1, self.width - 1)):
                fields -= more
        elif not self.width:
            self.width = fields
        if not fields or fields != self.width:
            raise ValueError(
                f"{source}: a vector of {fields} numbers, but "
                + (f"{owner} {self.width}" if self.width else "a line is a word and its numbers")
            )
        if b"  " in line[: len(word) + 2]:
            raise ValueError(f"{source}: two spaces behind a word, but there must be one")
        return decode(word, source), values


def side_by_side(
    files: Sequence[Mapping[str, np.ndarray]], *, unit: bool = False
) -> dict[str, np.ndarray]:
    """Concatenate each word's vectors of several files, with 0 if a file lacks the word.

    `unit` first scales each file's vectors to length 1. Raises ValueError for a file without
    vectors.

    >>> vectors = side_by_side([{"a": np.array([3.0, 4.0])}, {"b": np.array([2.0])}], unit=True)
    >>> {word: vector.tolist() for word, vector in vectors.items()}
    {'a': [0.6000000238418579, 0.800000011920929, 0.0], 'b': [0.0, 0.0, 1.0]}
    """
    gaps = [np.zeros_like(next(iter(vectors.values())), dtype=np.float32) for vectors in files]

    def scaled(vector: np.ndarray) -> np.ndarray:
        return vector / (np.linalg.norm(vector) or 1) if unit else vector

    def joined(word: str) -> np.ndarray:
        pairs = zip(files, gaps, strict=True)
        parts = [scaled(vectors.get(word, gap)) for vectors, gap in pairs]
        return np.concatenate(parts, dtype=np.float32)

    words = dict.fromkeys(word for vectors in files for word in vectors)
    return {word: joined(word) for word in words}


def read_table(path: str | Path) -> tuple[dict[str, int], np.ndarray]:
    """Read all vectors of a file; return each word's row, and the table (float32; row 0 is zeros).

    Files named .bin or .bin.gz are in word2vec's binary format, others are text. The last vector of
    a repeated word counts. The file is streamed, so memory holds only the table and the words.
    Raises FileNotFoundError, or ValueError, with file and line, for an invalid vector or one whose
    width differs from that of the first.
    """
    path = Path(path)
    rows: dict[str, int] = {}
    table, count = np.zeros((1, 1), dtype=np.float32), 1
    for words, vectors in _blocks(path):
        end = count + len(words)
        if not rows:
            table = np.zeros((end, vectors.shape[1]), dtype=np.float32)
        elif end > len(table):  # grow in place, if the system can, to avoid a second table
            table.resize((end + len(table) // 4, table.shape[1]), refcheck=False)
        table[count:end] = vectors
        rows.update(zip(words, range(count, end), strict=True))
        count = end
    if not rows:
        raise ValueError(f"{path}: no vectors in this file")
    table.resize((count, table.shape[1]), refcheck=False)
    return rows, table


def _blocks(
    path: Path, wanted: Collection[str] | None = None, watch: Callable[[Numbered], Numbered] = iter
) -> Iterator[Block]:
    """Yield the vectors of a file: all, or of a text those of the wanted words."""
    if path.name.removesuffix(".gz").endswith(".bin"):
        yield from _binary_blocks(path)
        return
    beginnings = {word.partition(" ")[0].encode("utf-8", "surrogatepass") for word in wanted or ()}
    lines = _Lines(path, watch)
    words, fields = list[str](), list[tuple[int, bytes]]()  # line and numbers, as they stand
    blanks = -1  # as many as in most lines
    for number, line in lines:
        # Splitting each of two million lines would take half a minute.
        is_other = wanted is not None and line[: line.find(b" ")] not in beginnings
        if is_other and line.count(b" ") == blanks:
            continue
        blanks = line.count(b" ") if blanks < 0 else blanks
        word, values = lines.parted(number, line)
        if wanted is None or word in wanted:
            words.append(word)
            fields.append((number, values))
        if len(words) == LINES:
            yield words, _numbers(fields, lines.width, path)
            words, fields = [], []
    if blanks >= 0:
        lines.parted(number, line)  # the last line, which may be cut
    if words:
        yield words, _numbers(fields, lines.width, path)


def _numbers(fields: Sequence[tuple[int, bytes]], width: int, path: Path) -> np.ndarray:
    """Return the vectors of lines with these numbers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy warns of non-numbers
            joined = b" ".join(values for _, values in fields)
            numbers = np.fromstring(joined, dtype=np.float32, sep=" ")
        if not np.isfinite(numbers).all():
            raise ValueError  # the except block finds the line
        return numbers.reshape(len(fields), width)
    except (DeprecationWarning, ValueError):
        return np.stack([_vector(values, f"{path}:{number}") for number, values in fields])


def _vector(values: bytes, source: str) -> np.ndarray:
    """Parse numbers of a file; raises ValueError for non-numbers and values beyond float32."""
    fields = values.split(b" ")
    try:
        if b"_" in values:  # float would read 0_5 as 5; of bytes it reads no other digits than 0-9
            wrong = next(each for each in fields if b"_" in each)
            raise ValueError(f"{shown(wrong.decode(errors='replace'))} is not a number")
        with np.errstate(over="ignore"):
            vector = np.array([*map(float, fields)]).astype(np.float32)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if not np.isfinite(vector).all():
        number = fields[int(np.isfinite(vector).argmin())].decode()
        raise ValueError(f"{source}: {number!r} is not a finite number in float32")
    return vector


def _binary_blocks(path: Path) -> Iterator[Block]:
    """Yield blocks of word2vec's binary format: a line "count width", then words and float32
    numbers.

    A blank separates a word from its numbers; some writers add a line feed after all vectors.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    with opened(path) as file:
        count, width = _binary_sizes(file, path)
        vectors = _binary_vectors(file, path, count, width)
        while block := list(islice(vectors, LINES)):
            words, stacked = [word for word, _ in block], np.stack([vector for _, vector in block])
            if not (finite := np.isfinite(stacked).all(1)).all():
                word = words[int(finite.argmin())]
                raise ValueError(
                    f"{path}: the vector of {word!r} contains a number that is not finite"
                )
            yield words, stacked


def _binary_sizes(file: BufferedIOBase, path: Path) -> tuple[int, int]:
    header = file.readline(100)
    if header.startswith(FASTTEXT):
        raise ValueError(f"{path}: a fastText model; use its .vec file")
    sizes = header.split()
    if len(sizes) != 2 or not all(map(bytes.isdigit, sizes)) or not 0 < int(sizes[1]) <= WIDTH:
        raise ValueError(
            f"{path}: not word2vec's binary format, which begins with a line of two "
            "numbers, the number of words and the size of a vector (the name of a text "
            "file must not end in .bin)"
        )
    return int(sizes[0]), int(sizes[1])


def _binary_vectors(
    file: BufferedIOBase, path: Path, count: int, width: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Yield words and vectors; raises ValueError if the first line has other sizes, or for a line
    feed after some of the vectors only.
    """
    end = b""  # of each vector
    lie = f"{path}: its first line says {count} words and vectors of {width} numbers, but"
    rest, start = b"", 0
    for number in range(1, count + 1):
        while (blank := rest.find(b" ", start, start + WORD_BYTES)) < 0 or (
            len(rest) <= blank + 4 * width
        ):
            if blank < 0 and len(rest) - start >= WORD_BYTES:
                raise ValueError(f"{lie} word {number} does not end")
            if not (more := file.read(BLOCK)):
                raise ValueError(f"{lie} the file ends inside vector {number}")
            rest, start = rest[start:] + more, 0
        word = rest[start:blank]
        if number == 2 and word.startswith(b"\n"):
            end = b"\n"
        if (number > 1 and not word.startswith(end)) or b"\n" in (word := word[len(end) :]):
            raise ValueError(
                f"{path}: a line feed follows some vectors, but not vector {number - 1}: a byte is "
                "missing or was added: get the file again"
            )
        yield decode(word, f"{path}, word {number}"), np.frombuffer(rest, "<f4", width, blank + 1)
        start = blank + 1 + 4 * width
    tail = rest[start:] + file.read(WORD_BYTES)
    if tail not in ((end,) if count > 1 else (b"", b"\n")):
        raise ValueError(f"{lie} {'more data follows these' if tail else 'its end is missing'}")
