"""Pretrained word vectors as text, plain or .gz: a word and its numbers a line, separated by spaces
or tabs, as GloVe has them; word2vec and fastText begin with a line "count width".
"""

import re
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from reprlib import repr as shown
from typing import NamedTuple

import numpy as np

from elmo_bench.files import BOM
from elmo_bench.terminal import counted_noun

from .lines import decode, read_bytes, refuse_mark

LINES = 1000  # vectors that are converted at once
LARGEST = float(np.finfo(np.float32).max)
HEADER = re.compile(rb"\d{1,18} \d{1,18} *\n?")
NUMBER = re.compile(rb"[-+]?(\d++\.?\d*+|\.\d++)(e[-+]?\d++)?", re.IGNORECASE)
Numbered = Iterable[tuple[int, bytes]]  # lines


class Vector(NamedTuple):
    """A line: where it is, its word, and its numbers, as they stand."""

    source: str
    word: str
    numbers: bytes


def read_vectors(
    path: str | Path,
    wanted: Collection[str] | None = None,
    watch: Callable[[Numbered], Numbered] = iter,
) -> tuple[dict[str, int], np.ndarray]:
    """Return the row of each wanted word (None: of all) and the table of their vectors.

    The table is float32, and its row 0 zeros. The last vector of a repeated word counts. `watch`
    receives the numbered lines and yields them unchanged, so that it can show progress. The file is
    streamed, so memory holds only the table and the words.

    Raises FileNotFoundError, and ValueError for a binary file, and, with file and line, for an
    invalid vector of a wanted word, a line with another number of fields than the first or that is
    not UTF-8, or another number of vectors than a first line "count width" says.
    """
    path = Path(path)
    if path.name.removesuffix(".gz").endswith(".bin"):
        raise ValueError(
            f"{path}: binary vectors are not read: of fastText use the .vec file; gensim's "
            "load_word2vec_format(FILE, binary=True).save_word2vec_format(TEXT) writes others as "
            "text"
        )
    words: list[str] = []
    table = bytearray()
    vectors = _vectors(path, wanted, watch)
    while True:
        block = list(islice(vectors, LINES))
        if not block:
            break
        floats = _floats(block)
        if not words:
            table += bytes(floats.nbytes // len(block))  # row 0
        words += [vector.word for vector in block]
        table += floats.tobytes()
    rows = {word: row for row, word in enumerate(words, 1)}
    return rows, np.frombuffer(table or bytearray(4), np.float32).reshape(len(words) + 1, -1)


def _vectors(
    path: Path, wanted: Collection[str] | None, watch: Callable[[Numbered], Numbered]
) -> Iterator[Vector]:
    """Yield the vectors of a text: all, or those of the wanted words."""
    beginnings = {word.partition(" ")[0].encode("utf-8", "surrogatepass") for word in wanted or ()}
    expected: int | None = None  # vectors
    count = 0
    width = 0  # of a vector
    blanks = -1  # of a line
    for number, line_read in watch(read_bytes(path)):
        line = line_read.replace(b"\t", b" ")
        source = f"{path}:{number}"
        if number == 1 and HEADER.fullmatch(line):
            expected, width = map(int, line.split())
        elif not line.isspace():
            # Published files with a header have words that begin with U+FEFF.
            if expected is None and line.startswith(BOM):
                refuse_mark(source)
            count += 1
            # Splitting each of two million lines would take half a minute.
            beginning = line[: line.find(b" ")]
            is_other = wanted is not None and beginning not in beginnings
            is_cut = line.endswith(b" ")  # without a line feed
            if not is_other or is_cut or line.count(b" ") != blanks:
                vector = _parted(line, width, source)
                width = width or vector.numbers.count(b" ") + 1
                blanks = line.count(b" ") if blanks < 0 else blanks
                if wanted is None or vector.word in wanted:
                    yield vector
            elif not beginning.isascii():
                decode(beginning, source)
    if expected not in (None, count):
        raise ValueError(
            f"{path}: its first line says {expected} vectors, but the file has {count}: get the "
            "file again, or correct its first line"
        )


def _parted(line: bytes, width: int, source: str) -> Vector:
    """Return the word and the numbers of a line; `width` is how many, 0 if this is the first."""
    word, _, numbers = line.rstrip(b" \n").partition(b" ")
    fields = numbers.count(b" ") + 1 if numbers else 0
    most = width or fields
    surplus = fields - most
    if surplus > 0:  # glove.840B has words with spaces
        *beginning, numbers = numbers.split(b" ", surplus)
        # As many as a vector has are one, behind which the line feed is missing.
        if surplus < most and all(beginning) and not all(map(NUMBER.fullmatch, beginning)):
            word += b" " + b" ".join(beginning)
            surplus = 0
    if surplus or not fields:
        raise ValueError(
            f"{source}: a vector of {counted_noun(fields, 'number')}, but a line must be a word "
            f"and {most or 'its'} numbers, separated by single spaces or tabs"
        )
    return Vector(source, decode(word, source), numbers)


def _floats(vectors: Sequence[Vector]) -> np.ndarray:
    """Convert numbers; ValueError, with file and line, for no number or one beyond float32."""
    joined = b" ".join(vector.numbers for vector in vectors)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy warns of non-numbers
            floats = np.fromstring(joined, dtype=np.float32, sep=" ")
    except (DeprecationWarning, ValueError):
        floats = np.array([np.nan])
    if not np.isfinite(floats).all() or len(floats) <= joined.count(b" "):
        for vector in vectors:
            for value in vector.numbers.split(b" "):
                if not NUMBER.fullmatch(value) or abs(float(value)) > LARGEST:
                    raise ValueError(
                        f"{vector.source}: {shown(value.decode(errors='replace'))} is not a finite "
                        "number in float32"
                    )
    return floats
