"""`counts/SPLIT.npz`: the counts of a run's metric for each example, and the score that their sums
give.

A figure is the mean over S scores. One of them is F1, given by four counts: numerator and
denominator of recall, then of precision (accuracy has the same ratio twice). Or it is a correlation
of x, what is right, with y, what is predicted, given by six moments, the sums of 1, x, y, xx, yy,
xy, of each of K variables (each label is one, 0 or 1; else K is 1), whose covariances and variances
are added up.

Axes: N examples, S scores, M = 4 or 6K, *P any leading axes.
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

FEW_CLUSTERS = 10  # with fewer clusters, intervals and p say little of others
F1, MOMENTS = 4, 6  # numbers of an example, of a score of each kind
ROUNDING = 1e-12  # a smaller share of the sum of squares is no variance


class Counts(NamedTuple):
    """Rows in the corpus's order, with a hash of each example's sentences and its cluster."""

    rows: Float[np.ndarray, "N S M"]
    sentences: UInt[np.ndarray, " N"]
    groups: Int[np.ndarray, " N"]
    unit: str = "cluster"  # what a cluster is, such as "document"


def figure(sums: Float[np.ndarray, "*P S M"]) -> Float[np.ndarray, "*P"]:
    """Return the mean over scores of 2rp / (r + p), from 0 to 1, or of a correlation, from -1 to 1;
    0 without counts or variance.
    """
    if sums.shape[-1] == F1:
        recall, precision = np.moveaxis(_ratio(sums[..., ::2], sums[..., 1::2]), -1, 0)
        scores = _ratio(2 * recall * precision, recall + precision)
    else:
        n, x, y, xx, yy, xy = np.moveaxis(sums.reshape(*sums.shape[:-1], -1, MOMENTS), -1, 0)
        of_x, of_y = ((n * aa - a * a).sum(-1) for a, aa in ((x, xx), (y, yy)))
        least = [ROUNDING * (n * aa).sum(-1) for aa in (xx, yy)]
        varied = np.where((of_x > least[0]) & (of_y > least[1]), of_x * of_y, 0.0)
        scores = _ratio((n * xy - x * y).sum(-1), np.sqrt(varied))
    return np.asarray(scores.sum(-1) / max(scores.shape[-1], 1))


def _ratio(
    part: Float[np.ndarray, "*P"], whole: Float[np.ndarray, "*P"]
) -> Float[np.ndarray, "*P"]:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


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
    number, size = len(sentences), rows.shape[2] if rows.ndim == 3 else 0
    if (
        (sentences.dtype, sentences.ndim) != (np.uint64, 1)
        or not (size == F1 or (size and size % MOMENTS == 0))
        or len(rows) != number
        or not (np.isfinite(rows) & ((rows >= 0) | (size != F1))).all()
        or (groups.shape, groups.dtype.kind in "iu") != ((number,), True)
        or not re.fullmatch(r"[A-Za-z][\w -]{0,29}", unit)
    ):
        said = f"{path}: damaged: not the counts per example of a run for {name}"
        raise ValueError(f"{said}; evaluate or train the run again")
    return Counts(rows.astype(np.float64), sentences, groups.astype(np.int64), unit)


def number_of(sentences: Sequence[Sequence[str]]) -> int:
    """Return the hash of an example's sentences, as in `Counts.sentences`."""
    text = json.dumps([list(sentence) for sentence in sentences])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
