"""Pretrained word vectors, plain or .gz: in GloVe's text format, a word and its numbers a line,
separated by spaces or tabs, or in word2vec's text or binary format.
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from io import BufferedIOBase
from itertools import islice
from pathlib import Path

import numpy as np

from elmo_bench.untrusted import opened

from .lines import decode, read_bytes

LINES = 1000  # lines whose numbers are parsed at once
BLOCK = 1 << 22  # bytes of a binary file that are read at once
WORD_BYTES, WIDTH = 10_000, 100_000  # limits of a binary file's words and vectors, for bad files
FASTTEXT = b"\xba\x16\x4f\x2f"  # the first bytes of fastText's .bin
HEADER = re.compile(rb"\d{1,18} \d{1,18}\s*")
NUMBER = re.compile(rb"[-+]?(\d++\.?\d*+|\.\d++)(e[-+]?\d++)?", re.IGNORECASE)
Numbered = Iterable[tuple[int, bytes]]  # lines
Block = tuple[list[str], np.ndarray]  # words, and their vectors of shape "words width"


def read_vectors(
    path: str | Path, wanted: Collection[str], watch: Callable[[Numbered], Numbered] = iter
) -> dict[str, np.ndarray]:
    """The vectors (float32) of the wanted words; a first line "count width" is skipped.

    Files named .bin or .bin.gz are in word2vec's binary format, others are text. `watch` receives
    the numbered lines of a text and yields them unchanged, so that it can show progress.

    Raises ValueError, with file and line, for a wanted vector that is not as wide as the first or
    not numbers.
    """
    if _is_binary(path):
        pairs = (zip(*block, strict=True) for block in _binary_blocks(Path(path)))
        return {word: vector.copy() for block in pairs for word, vector in block if word in wanted}
    vectors: dict[str, np.ndarray] = {}
    beginnings = {word.partition(" ")[0].encode("utf-8", "surrogatepass") for word in wanted}
    width = None
    for number, line in watch(read_bytes(path)):
        line = line.replace(b"\t", b" ")
        # Splitting each of two million lines would take half a minute.
        if width and line[: line.find(b" ")] not in beginnings:
            continue
        word, *values = decode(line, f"{path}:{number}").rstrip(" ").split(" ")
        if number == 1 and len(values) == 1:
            continue
        width = width or len(values)
        if len(values) > width:  # glove.840B has words with spaces
            word, values = " ".join([word, *values[:-width]]), values[-width:]
        if len(values) < width:
            raise ValueError(
                f"{path}:{number}: a vector of {len(values)} numbers, but the first one has {width}"
            )
        if word in wanted:
            vectors[word] = _vector(values, f"{path}:{number}")
    return vectors


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
    for words, vectors in _binary_blocks(path) if _is_binary(path) else _text_blocks(path):
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


def _is_binary(path: str | Path) -> bool:
    return Path(path).name.removesuffix(".gz").endswith(".bin")


def _text_blocks(path: Path) -> Iterator[Block]:
    width, owner = 0, "the first one has"
    words: list[str] = []
    fields: list[bytes] = []  # the numbers of each word, as they stand
    number = 0
    for number, line in read_bytes(path):
        line = line.replace(b"\t", b" ")
        word, _, values = line.rstrip(b" \r\n").partition(b" ")
        if number == 1 and HEADER.fullmatch(line):  # "count width", as word2vec has it
            width, owner = int(values), "its first line says"
            continue
        more = (values.count(b" ") + 1 if values else 0) - width
        if not width:
            width, more = more, 0
        if more > 0:  # glove.840B has words with spaces
            *beginning, values = values.split(b" ", more)
            word = b" ".join([word, *beginning])
        if more < 0 or not width or (more and all(map(NUMBER.fullmatch, beginning))):
            raise ValueError(
                f"{path}:{number}: a vector of {width + more} numbers, but "
                + (f"{owner} {width}" if width else "a line is a word and its numbers")
            )
        words.append(decode(word, f"{path}:{number}"))
        fields.append(values)
        if len(words) == LINES:
            yield words, _numbers(fields, width, f"{path}", number)
            words, fields = [], []
    if words:
        yield words, _numbers(fields, width, f"{path}", number)


def _numbers(fields: Sequence[bytes], width: int, source: str, last: int) -> np.ndarray:
    """Return the vectors of consecutive lines; `last` is the number of the last line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy warns of non-numbers
            numbers = np.fromstring(b" ".join(fields), dtype=np.float32, sep=" ")
        if not np.isfinite(numbers).all():
            raise ValueError  # the except block finds the line
        return numbers.reshape(len(fields), width)
    except (DeprecationWarning, ValueError):
        vectors = np.empty((len(fields), width), dtype=np.float32)
        first = last - len(fields) + 1
        for row, values in enumerate(fields):
            vectors[row] = _vector(values.split(b" "), f"{source}:{first + row}")
        return vectors


def _vector(values: Sequence[str | bytes], source: str) -> np.ndarray:
    """Parse numbers of a file; raises ValueError for non-numbers and values beyond float32."""
    try:
        with np.errstate(over="ignore"):
            vector = np.array([*map(float, values)]).astype(np.float32)
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error
    if not np.isfinite(vector).all():
        number = values[int(np.isfinite(vector).argmin())]
        raise ValueError(f"{source}: {number!r} is not a finite number in float32")
    return vector


def _binary_blocks(path: Path) -> Iterator[Block]:
    """Yield blocks of word2vec's binary format: a line "count width", then words and float32
    numbers.

    A blank separates a word from its numbers; some writers add a newline after the numbers.
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
    """Yield blocks of words and vectors; raises ValueError if the first line has other sizes."""
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
        word = rest[start:blank].lstrip(b"\n")
        yield decode(word, f"{path}, word {number}"), np.frombuffer(rest, "<f4", width, blank + 1)
        start = blank + 1 + 4 * width
    if (rest[start:] + file.read(WORD_BYTES)).strip():
        raise ValueError(f"{lie} more data follows these")
