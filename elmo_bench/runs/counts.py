"""`counts/SPLIT.npz`: the counts of a run's metric for each example.

Axes: N examples, S scores.
"""

import hashlib
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt

from elmo_bench.files import read_arrays


class Counts(NamedTuple):
    """Rows in the order of the corpus's file, with a hash of each example's sentences and the
    number of its cluster.
    """

    rows: Float[np.ndarray, "N S 4"]
    sentences: UInt[np.ndarray, " N"]
    groups: Int[np.ndarray, " N"]
    unit: str = "cluster"  # what a cluster is, such as "document"


def counted(path: Path) -> list[str]:
    """Return the metrics whose counts a file has."""
    return sorted({*read_arrays(path)} - {"sentences", "groups", "unit"})


def read_counts(path: Path, name: str) -> Counts | None:
    """Return the counts of one metric; None if the file does not exist or lacks the metric.

    Raises ValueError, with the file, for content that no run writes.
    """
    arrays = read_arrays(path) if path.is_file() else {}
    if name not in arrays:
        return None
    rows = arrays[name]
    sentences, groups = (arrays.get(key, np.zeros(0)) for key in ("sentences", "groups"))
    unit = arrays["unit"].tobytes().decode(errors="replace") if "unit" in arrays else "cluster"
    number = len(sentences)
    if (
        (sentences.dtype, sentences.ndim) != (np.uint64, 1)
        or rows.shape != (number, *rows.shape[1:2], 4)
        or not (np.isfinite(rows) & (rows >= 0)).all()
        or (groups.shape, groups.dtype.kind in "iu") != ((number,), True)
        or not re.fullmatch(r"[A-Za-z][\w -]{0,29}", unit)
    ):
        raise ValueError(f"{path}: damaged: not the counts per example of a run for {name}")
    return Counts(rows.astype(np.float64), sentences, groups.astype(np.int64), unit)


def number_of(sentences: Sequence[Sequence[str]]) -> int:
    """Return the hash of an example's sentences, as in `Counts.sentences`."""
    text = json.dumps([list(sentence) for sentence in sentences])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
