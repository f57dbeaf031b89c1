"""Pretrained word vectors in GloVe's text format: a word and its numbers a line, between spaces;
plain or .gz.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from .lines import decode, read_bytes


def read_vectors(path: str | Path, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """The vectors (float32) of the wanted words; a word2vec-style first line "count width" is
    skipped.

    Raises ValueError, with file and line, for a wanted vector that is not as wide as the first or
    not numbers.
    """
    vectors: dict[str, np.ndarray] = {}
    beginnings = {word.partition(" ")[0].encode("utf-8", "surrogatepass") for word in wanted}
    width = None
    for number, line in read_bytes(path):
        if (
            width and line[: line.find(b" ")] not in beginnings
        ):  # to split each of two million lines takes half a minute
            continue
        word, *values = decode(line, f"{path}:{number}").rstrip(" ").split(" ")
        if number == 1 and len(values) == 1:
            continue
        width = width or len(values)
        if len(values) > width:  # glove.840B holds words with spaces
            word, values = " ".join([word, *values[:-width]]), values[-width:]
        if len(values) < width:
            raise ValueError(
                f"{path}:{number}: a vector of {len(values)} numbers, but the first has {width}"
            )
        if word in wanted:
            try:
                vectors[word] = np.array([*map(float, values)], dtype=np.float32)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
    return vectors


def side_by_side(
    files: Sequence[Mapping[str, np.ndarray]], *, unit: bool = False
) -> dict[str, np.ndarray]:
    """Each word's vectors of several files as one vector, 0 where a file lacks the word.

    `unit` first scales each file's vectors to length 1. A file without any vector is an error.

    >>> found = side_by_side([{"a": np.array([3.0, 4.0])}, {"b": np.array([2.0])}], unit=True)
    >>> {word: vector.tolist() for word, vector in found.items()}
    {'a': [0.6000000238418579, 0.800000011920929, 0.0], 'b': [0.0, 0.0, 1.0]}
    """
    gaps = [np.zeros_like(next(iter(vectors.values())), dtype=np.float32) for vectors in files]

    def scaled(vector: np.ndarray) -> np.ndarray:
        return vector / (np.linalg.norm(vector) or 1) if unit else vector

    return {
        word: np.concatenate(
            [scaled(vectors.get(word, gap)) for vectors, gap in zip(files, gaps, strict=True)],
            dtype=np.float32,
        )
        for word in dict.fromkeys(word for vectors in files for word in vectors)
    }
