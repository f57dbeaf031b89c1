"""Pretrained word vectors in GloVe's text format: a word and its numbers a line, between spaces; plain or .gz."""

from collections.abc import Collection
from pathlib import Path

import numpy as np

from .lines import read_lines


def read_vectors(path: str | Path, wanted: Collection[str]) -> dict[str, np.ndarray]:
    """The vectors (float32) of the wanted words; a word2vec-style first line "count width" is skipped.

    Raises ValueError, with file and line, for a vector that is not as wide as the first or not numbers.
    """
    vectors: dict[str, np.ndarray] = {}
    width = None
    for number, line in read_lines(path):
        word, *values = line.rstrip(" ").split(" ")
        if number == 1 and len(values) == 1:
            continue
        width = width or len(values)
        if len(values) > width:  # glove.840B holds words with spaces
            word, values = " ".join([word, *values[:-width]]), values[-width:]
        if len(values) < width:
            raise ValueError(f"{path}:{number}: a vector of {len(values)} numbers, but the first has {width}")
        if word in wanted:
            try:
                vectors[word] = np.array(values, dtype=np.float32)
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from error
    return vectors
