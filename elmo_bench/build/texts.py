"""The word vectors and texts that a run reads beside its examples."""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig

from elmo_bench.runs import Overlap
from elmo_bench.settings.inputs import checked_vector_files, made
from elmo_bench.terminal import watched
from elmo_bench.text import forms, read_vectors, texts_of
from elmo_bench.text.overlap import in_text, in_training
from elmo_bench.text.sentences import read_text, text_files

log = logging.getLogger(__name__)


def read_word_vectors(cfg: DictConfig, words: Iterable[str]) -> dict[str, np.ndarray]:
    """Read the vectors of some words from the files of `vocab.vectors`; empty without files.

    Those of several files are concatenated, with 0 if a file lacks the word;
    `vocab.unit_vectors` first scales each file's vectors to length 1.
    """
    lowercase = cfg.vocab.lowercase
    files = checked_vector_files(cfg)
    wanted: set[str] = set()
    for word in words:
        wanted.update(forms(word, lowercase))
    parts = []
    for path in files:
        watch = partial(watched, description="vocab.vectors, lines")  # maybe millions
        rows, table = read_vectors(Path(path).expanduser(), wanted, watch)
        parts.append((rows, table))
        if not rows:
            raise ValueError(
                f"vocab.vectors={path}: it has no vector for any word of the data; give vectors of "
                "its language"
            )
        if lowercase is False and is_lower(rows) and not is_lower(wanted):
            log.warning(
                "vocab.vectors=%s is lower-cased, so capitalised words have no vector: "
                "vocab.lowercase=fallback looks them up in lower case",
                path,
            )
    is_unit = cfg.vocab.get("unit_vectors", False)
    vectors: dict[str, np.ndarray] = {}
    for own_rows, _ in parts:
        for word in own_rows:
            if word in vectors:
                continue
            pieces = [table[rows.get(word, 0)] for rows, table in parts]
            if is_unit:
                pieces = [piece / (np.linalg.norm(piece) or 1) for piece in pieces]
            vectors[word] = np.concatenate(pieces)
    return vectors


def is_lower(words: Iterable[str]) -> bool:
    """Whether no word has a capital letter."""
    return all(word == word.lower() for word in words)


def sentences(cfg: DictConfig, split: str) -> Iterator[Sequence[str]]:
    """Yield the sentences of a text, `cfg.text`; none if no file is given.

    Raises ValueError for a text without sentences.
    """
    pattern = made(cfg.text.files)[split]
    if not pattern:
        return
    is_empty = True
    for sentence in read_text(text_files(pattern), raw=cfg.text.tokenize):
        is_empty = False
        yield sentence
    if is_empty:
        raise ValueError(f"text.files.{split}={pattern} contains only blank lines: give a text")


def overlap(cfg: DictConfig, examples: Mapping[str, Sequence[Any]]) -> Overlap:
    """Count the examples of splits that also stand in training, or in the text of `cfg.text`."""
    splits = {split: list(map(texts_of, part)) for split, part in examples.items()}
    counts = {"training": in_training(splits)}
    if cfg.get("text"):
        text = watched(sentences(cfg, "train"), "text.files.train, sentences")
        counts["text"], counts["n-grams"] = in_text(splits, text)
    return counts
