"""Pretrained word vectors, plain or .gz: in GloVe's text format, a word and its numbers a line,
separated by spaces or tabs, or in word2vec's text or binary format.
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from io import BufferedIOBase
from pathlib import Path
from reprlib import repr as shown

import numpy as np

from elmo_bench.files import BOM, opened

from .lines import decode, read_bytes, refuse_mark

LINES = 1000  # vectors that are converted at once
WORD_BYTES, WIDTH = 10_000, 100_000  # limits of a binary file's words and vectors, for bad files
LARGEST = float(np.finfo(np.float32).max)
HEADER = re.compile(rb"\d{1,18} \d{1,18} *\n?")
NUMBER = re.compile(rb"[-+]?(\d++\.?\d*+|\.\d++)(e[-+]?\d++)?", re.IGNORECASE)
Numbered = Iterable[tuple[int, bytes]]  # lines
Block = tuple[list[str], np.ndarray]  # words, and their vectors of shape "words width"


def read_vectors(
    path: str | Path,
    wanted: Collection[str] | None = None,
    watch: Callable[[Numbered], Numbered] = iter,
) -> tuple[dict[str, int], np.ndarray]:
    """Return the row of each wanted word (None: of all) and the table of their vectors.

    The table is float32, and its row 0 zeros. The last vector of a repeated word counts.

    Files named .bin or .bin.gz are in word2vec's binary format, others are text. `watch` receives
    the numbered lines of a text and yields them unchanged, so that it can show progress. The file
    is streamed, so memory holds only the table and the words.

    Raises FileNotFoundError, and ValueError, with file and line, for an invalid vector of a wanted
    word, a line with another number of fields than the first, or another number of vectors than a
    first line "count width" says.
    """
    path = Path(path)
    is_binary = path.name.removesuffix(".gz").endswith(".bin")
    rows: dict[str, int] = {}
    table, count = np.zeros((1, 1), dtype=np.float32), 1
    for words, vectors in _binary_blocks(path) if is_binary else _text_blocks(path, wanted, watch):
        if is_binary and wanted is not None:
            vectors = vectors[[word in wanted for word in words]]
            words = [word for word in words if word in wanted]
        end = count + len(words)
        if not rows:
            table = np.zeros((end, vectors.shape[1]), dtype=np.float32)
        elif end > len(table):  # grow in place, if the system can, to avoid a second table
            table.resize((end + len(table) // 4, table.shape[1]), refcheck=False)
        table[count:end] = vectors
        rows.update(zip(words, range(count, end), strict=True))
        count = end
    table.resize((count, table.shape[1]), refcheck=False)
    return rows, table


def side_by_side(
    files: Sequence[Mapping[str, np.ndarray]], *, unit: bool = False
) -> dict[str, np.ndarray]:
    """Concatenate each word's vectors of several files, with 0 if a file lacks the word.

    `unit` first scales each file's vectors to length 1.

    >>> vectors = side_by_side([{"a": np.array([3.0, 4.0])}, {"b": np.array([2.0])}], unit=True)
    >>> {word: vector.tolist() for word, vector in vectors.items()}
    {'a': [0.6000000238418579, 0.800000011920929, 0.0], 'b': [0.0, 0.0, 1.0]}
    """
    gaps = [np.zeros_like(next(iter(vectors.values())), dtype=np.float32) for vectors in files]

    def scaled(vector: np.ndarray) -> np.ndarray:
        return vector / (np.linalg.norm(vector) or 1) if unit else vector

    return {
        word: np.concatenate(
            [scaled(part.get(word, gap)) for part, gap in zip(files, gaps, strict=True)],
            dtype=np.float32,
        )
        for word in dict.fromkeys(word for part in files for word in part)
    }


def _text_blocks(
    path: Path, wanted: Collection[str] | None, watch: Callable[[Numbered], Numbered]
) -> Iterator[Block]:
    """Yield the vectors of a text: all, or those of the wanted words."""
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


class _Lines:
    """The lines of a text of vectors, without its header and blank lines, and with spaces for tabs.

    Iterating raises ValueError for another number of vectors than the header says, and in a file
    without a header for a byte order mark within it.
    """

    def __init__(self, path: Path, watch: Callable[[Numbered], Numbered]) -> None:
        self.path, self.watch = path, watch
        self.width = 0  # of a vector, as the header or the first vector has it

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        count, vectors = None, 0
        for number, line in self.watch(read_bytes(self.path)):
            line = line.replace(b"\t", b" ")
            if number == 1 and HEADER.fullmatch(line):  # "count width", as word2vec has it
                count, self.width = map(int, line.split())
            elif not line.isspace():
                # Published files with a header have words that begin with U+FEFF.
                if count is None and line.startswith(BOM):
                    refuse_mark(f"{self.path}:{number}")
                vectors += 1
                yield number, line
        if count not in (None, vectors):
            raise ValueError(
                f"{self.path}: its first line says {count} vectors, but the file has {vectors}: "
                "get the file again, or correct its first line"
            )

    def parted(self, number: int, line: bytes) -> tuple[str, bytes]:
        """Return the word of a line and its numbers, separated by spaces."""
        source = f"{self.path}:{number}"
        word, _, values = line.rstrip(b" \n").partition(b" ")
        fields = values.count(b" ") + 1 if values else 0
        self.width = self.width or fields
        if (more := fields - self.width) > 0:  # glove.840B has words with spaces
            *beginning, values = values.split(b" ", more)
            # As many as a vector has are one, behind which the line feed is missing.
            if more < self.width and all(beginning) and not all(map(NUMBER.fullmatch, beginning)):
                word, more = b" ".join([word, *beginning]), 0
        if more or not fields:
            raise ValueError(
                f"{source}: a vector of {fields} numbers, but a line must be a word and "
                f"{self.width or 'its'} numbers, separated by single spaces or tabs"
            )
        return decode(word, source), values


def _numbers(fields: Sequence[tuple[int, bytes]], width: int, path: Path) -> np.ndarray:
    """Return the vectors of lines with these numbers. Raises ValueError, with file and line, for
    what is no number, or beyond float32.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy warns of non-numbers
            joined = b" ".join(values for _, values in fields)
            numbers = np.fromstring(joined, dtype=np.float32, sep=" ").reshape(len(fields), width)
    except (DeprecationWarning, ValueError):
        numbers = np.array([[np.nan]])
    if np.isfinite(numbers).all():
        return numbers
    number, value = next(
        (number, value)
        for number, values in fields
        for value in values.split(b" ")
        if not NUMBER.fullmatch(value) or abs(float(value)) > LARGEST
    )
    said = shown(value.decode(errors="replace"))
    raise ValueError(f"{path}:{number}: {said} is not a finite number in float32")


def _binary_blocks(path: Path) -> Iterator[Block]:
    """Yield the vectors of word2vec's binary format: a line "count width", then words and float32
    numbers.

    A blank separates a word from its numbers. Some writers add a line feed after each vector: if
    only some have one, bytes are missing or were added.
    """
    if not path.is_file():
        raise FileNotFoundError(f"{path}: no such file")
    with opened(path) as file:
        count, width = _binary_sizes(file, path)
        damage = f"{path}: its first line says {count} words and vectors of {width} numbers, but "
        end = b""  # of each vector
        for first in range(1, count + 1, LINES):
            words, vectors = [], []
            for number in range(first, min(first + LINES, count + 1)):
                word, vector = _word(file), file.read(4 * width)
                if number == 2 and word.startswith(b"\n"):
                    end = b"\n"
                is_next = number == 1 or word.startswith(end)
                is_whole = len(word) < WORD_BYTES and len(vector) == 4 * width
                word = word.removeprefix(end)
                if not (is_next and is_whole) or b"\n" in word:
                    raise ValueError(f"{damage}bytes are missing or too many at vector {number}")
                words.append(decode(word, f"{path}, word {number}"))
                vectors.append(vector)
            numbers = np.frombuffer(b"".join(vectors), "<f4").reshape(len(words), width)
            if not (finite := np.isfinite(numbers).all(1)).all():
                word_ = words[int(finite.argmin())]
                raise ValueError(f"{path}: the vector of {word_!r} has a number that is not finite")
            yield words, numbers
        if file.read(2) not in ((end,) if count > 1 else (b"", b"\n")):
            raise ValueError(f"{damage}bytes are missing or too many at its end")


def _binary_sizes(file: BufferedIOBase, path: Path) -> tuple[int, int]:
    """Return how many words a file has, and of how many numbers their vectors are."""
    sizes = file.readline(100).split()
    if len(sizes) != 2 or not all(map(bytes.isdigit, sizes)) or not 0 < int(sizes[1]) <= WIDTH:
        raise ValueError(
            f"{path}: not word2vec's binary format, which begins with a line of two numbers, the "
            "number of words and the size of a vector: of fastText use the .vec file, and give "
            "text a name that does not end in .bin"
        )
    return int(sizes[0]), int(sizes[1])


def _word(file: BufferedIOBase) -> bytes:
    """Read up to the next blank, or to the limit of a word."""
    word = b""
    while len(word) < WORD_BYTES and (byte := file.read(1)) not in (b" ", b""):
        word += byte
    return word
