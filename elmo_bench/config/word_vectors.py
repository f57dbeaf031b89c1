"""The pretrained vectors of words, from the files of `vocab.vectors`."""

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from elmo_bench.files import Bars
from elmo_bench.text import forms, read_vectors, side_by_side

from . import inputs

log = logging.getLogger(__name__)


def read_word_vectors(cfg: DictConfig, words: Iterable[str]) -> dict[str, np.ndarray]:
    """Read the vectors of some words from the files of `vocab.vectors`; empty without files."""
    lowercase, files = cfg.vocab.lowercase, inputs.checked_vector_files(cfg)
    wanted = {form for word in words for form in forms(word, lowercase)}
    parts = []
    for path in files:
        with Bars() as bars:  # a file may have millions of lines
            watch = partial(bars.track, description="vocab.vectors, lines")
            rows, table = read_vectors(Path(path).expanduser(), wanted, watch)
        part = {word: table[row] for word, row in rows.items()}
        parts.append(part)
        if not part:
            raise ValueError(f"vocab.vectors={path}: it has no vector for any word of the data")
        if lowercase is False and all(map(_is_lower, part)) and not all(map(_is_lower, wanted)):
            log.warning(
                "vocab.vectors=%s is lower-cased, so capitalised words have no vector: "
                "vocab.lowercase=fallback looks them up in lower case",
                path,
            )
    return side_by_side(parts, unit=cfg.vocab.get("unit_vectors", False))


def _is_lower(word: str) -> bool:
    return word == word.lower()
