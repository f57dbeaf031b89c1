"""The pretrained vectors of words, from the files of `vocab.vectors`."""

import logging
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import numpy as np
from omegaconf import DictConfig

from elmo_bench.files import watched
from elmo_bench.text import forms, read_vectors

from . import inputs

log = logging.getLogger(__name__)


def read_word_vectors(cfg: DictConfig, words: Iterable[str]) -> dict[str, np.ndarray]:
    """Read the vectors of some words from the files of `vocab.vectors`; empty without files.

    Those of several files are concatenated, with 0 if a file lacks the word;
    `vocab.unit_vectors` first scales each file's vectors to length 1.
    """
    lowercase, files = cfg.vocab.lowercase, inputs.checked_vector_files(cfg)
    wanted = {form for word in words for form in forms(word, lowercase)}
    parts = []
    for path in files:
        watch = partial(watched, description="vocab.vectors, lines")  # maybe millions
        rows, table = read_vectors(Path(path).expanduser(), wanted, watch)
        parts.append((rows, table))
        if not rows:
            raise ValueError(f"vocab.vectors={path}: it has no vector for any word of the data")
        if lowercase is False and is_lower(rows) and not is_lower(wanted):
            log.warning(
                "vocab.vectors=%s is lower-cased, so capitalised words have no vector: "
                "vocab.lowercase=fallback looks them up in lower case",
                path,
            )
    unit = cfg.vocab.get("unit_vectors", False)

    def vector(word: str) -> np.ndarray:
        own = [table[rows.get(word, 0)] for rows, table in parts]
        return np.concatenate([x / (np.linalg.norm(x) or 1) if unit else x for x in own])

    return {
        word: vector(word) for word in dict.fromkeys(word for rows, _ in parts for word in rows)
    }


def is_lower(words: Iterable[str]) -> bool:
    """Whether no word has a capital letter."""
    return all(word == word.lower() for word in words)
