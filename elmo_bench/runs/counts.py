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
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int, UInt

from elmo_bench.files import read_arrays

FEW_CLUSTERS = 10  # with fewer clusters, intervals and p say little of others
F1 = 4  # numbers that an example has for a score that is F1
MOMENTS = 6  # and, for each variable, for one that is a correlation
ROUNDING = 1e-12  # a smaller share of the sum of squares is no variance
NOT_METRICS = {"sentences", "groups", "unit"}  # what a file has besides the counts of metrics
UNIT = re.compile(r"[A-Za-z][\w -]{0,29}")  # what a cluster may be called


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
        scores = _correlation(sums.reshape(*sums.shape[:-1], -1, MOMENTS))
    return np.asarray(scores.sum(-1) / max(scores.shape[-1], 1))


def _correlation(moments: Float[np.ndarray, "*P S K 6"]) -> Float[np.ndarray, "*P S"]:
    """Return the correlation of x with y over all K variables; 0 if one of them does not vary."""
    n, x, y, xx, yy, xy = np.moveaxis(moments, -1, 0)
    variance_of_x = (n * xx - x * x).sum(-1)
    variance_of_y = (n * yy - y * y).sum(-1)
    x_varies = variance_of_x > ROUNDING * (n * xx).sum(-1)
    y_varies = variance_of_y > ROUNDING * (n * yy).sum(-1)
    both = np.where(x_varies & y_varies, variance_of_x * variance_of_y, 0.0)
    return _ratio((n * xy - x * y).sum(-1), np.sqrt(both))


def _ratio(
    part: Float[np.ndarray, "*P"], whole: Float[np.ndarray, "*P"]
) -> Float[np.ndarray, "*P"]:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def counted(path: Path) -> list[str]:
    """Return the metrics whose counts a file has."""
    return sorted(set(read_arrays(path)) - NOT_METRICS)


def read_counts(path: Path, name: str) -> Counts | None:
    """Return the counts of one metric; None if the file does not exist or lacks the metric.

    Raises ValueError, with the file, for content that no run writes.
    """
    arrays = read_arrays(path) if path.is_file() else {}
    if name not in arrays:
        return None
    flaw = _flaw(arrays, name)
    if flaw:
        raise ValueError(
            f"{path}: damaged: not the counts per example of a run for {name}: {flaw}; evaluate "
            "or train the run again"
        )
    rows = arrays[name].astype(np.float64)
    groups = arrays["groups"].astype(np.int64)
    return Counts(rows, arrays["sentences"], groups, _unit(arrays))


def _unit(arrays: Mapping[str, np.ndarray]) -> str:
    if "unit" not in arrays:
        return "cluster"
    return arrays["unit"].tobytes().decode(errors="replace")


def _flaw(arrays: Mapping[str, np.ndarray], name: str) -> str | None:
    """Return what is wrong with the counts of a metric; None if a run may have written them."""
    for key in ("sentences", "groups"):
        if key not in arrays:
            return f"{key} is missing"
    rows = arrays[name]
    sentences = arrays["sentences"]
    groups = arrays["groups"]
    if sentences.dtype != np.uint64 or sentences.ndim != 1:
        return f"sentences is {_kind(sentences)}, but must be hashes, uint64 of one axis"
    number = len(sentences)
    if groups.dtype.kind not in "iu" or groups.shape != (number,):
        return (
            f"groups is {_kind(groups)}, but must be a whole number for each of {number:,} hashes"
        )
    if not UNIT.fullmatch(_unit(arrays)):
        return f"unit is {_unit(arrays)[:30]!r}, but must be a word such as document"
    return _flaw_of_rows(rows, number)


def _flaw_of_rows(rows: np.ndarray, number: int) -> str | None:
    """Return what is wrong with the counts of a `number` of examples; None if nothing is."""
    if rows.ndim != 3 or len(rows) != number:
        return (
            f"they are {_kind(rows)}, but must have three axes: {number:,} examples, scores, and "
            "numbers of a score"
        )
    size = rows.shape[2]
    if size != F1 and (size == 0 or size % MOMENTS != 0):
        return f"a score has {size} numbers, but must have {F1} or a multiple of {MOMENTS}"
    if not np.isfinite(rows).all():
        return "they are not all finite"
    if size == F1 and not (rows >= 0).all():
        return "some are below 0"
    return None


def _kind(array: np.ndarray) -> str:
    """Return the type and the shape of an array, such as "float64 of shape (3, 4)"."""
    return f"{array.dtype} of shape {array.shape}"


def number_of(sentences: Sequence[Sequence[str]]) -> int:
    """Return the hash of an example's sentences, as in `Counts.sentences`."""
    text = json.dumps([list(sentence) for sentence in sentences])
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest())
