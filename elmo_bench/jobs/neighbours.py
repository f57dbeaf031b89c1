"""`job=neighbours`: nearest neighbours of a word in context (Peters et al. 2018, table 4)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.nn.functional as F
from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table
from rich.text import Text

from elmo_bench.config import encoders, hardware
from elmo_bench.encoders import encode, encode_each
from elmo_bench.files import plain, watched
from elmo_bench.text import chunks, read_sentences

CHUNK = 32_768  # tokens of the text in memory at a time
CONTEXT = 8  # words shown on each side


def neighbours(cfg: DictConfig) -> list[tuple[float, str]]:
    """Print the words of `cfg.input` nearest to the query word; return (cosine, word) of each.

    Only one of several equal cosines is shown, since layer 0 gives a word the same vector
    everywhere.
    """
    encoder, layer, tokens, position = check(cfg)
    encoder.to(hardware.device(cfg))
    (layers,) = encode(encoder, [tokens], [layer])
    query = F.normalize(layers[0, position].float(), dim=0)
    best: dict[float, tuple[int, int, Sequence[str]]] = {}  # cosine -> sentence, position, words
    first = 0
    for chunk in watched(chunks(read_sentences(cfg.input), CHUNK), "text"):
        for number, layers in encode_each(encoder, chunk, [layer]):
            cosines = F.normalize(layers[0].float(), dim=1) @ query
            for cosine, index in zip(*cosines.sort(descending=True, stable=True), strict=True):
                value = round(cosine.item(), 6)
                if len(best) == cfg.count and value < min(best):
                    break
                best.setdefault(value, (first + number, int(index), chunk[number]))
                best = dict(sorted(best.items(), reverse=True)[: cfg.count])
        first += len(chunk)
    table = Table("cosine", "line", "")
    table.add_row("", "", in_context(tokens, position))
    for cosine, (number, index, sentence) in best.items():
        table.add_row(f"{cosine:.3f}", str(number + 1), in_context(sentence, index))
    Console().print(table)
    return [(cosine, sentence[index]) for cosine, (_, index, sentence) in best.items()]


def check(cfg: DictConfig) -> tuple[Any, int, list[str], int]:
    """Return the encoder, the layer, the query's sentence and the position of its word."""
    if Path(cfg.input).is_file():  # and no pipe, which can be read once
        for _ in read_sentences(cfg.input):
            pass
    encoder = encoders.encoder(cfg)
    layer = encoder.num_layers - 1 if cfg.layer == "top" else cfg.layer
    if layer not in range(encoder.num_layers):
        raise ValueError(f"layer={cfg.layer}, but it must be top or 0 to {encoder.num_layers - 1}")
    tokens = str(cfg.sentence).split()
    position = find(tokens, cfg.word)
    return encoder, layer, tokens, position


def find(tokens: list[str], word: str | int) -> int:
    """Return the position of a word, which is given as a position or as a word.

    Raises ValueError unless the word occurs exactly once, or the position exists.
    """
    if isinstance(word, int):
        if word not in range(len(tokens)):
            raise ValueError(
                f"word={word}, but the positions of the sentence are 0 to {len(tokens) - 1}"
            )
        return word
    if (count := tokens.count(word)) != 1:
        raise ValueError(
            f"word={word} occurs {count} times in {tokens}: give its position, counted from 0"
        )
    return tokens.index(word)


def in_context(tokens: Sequence[str], position: int) -> Text:
    """Return a word in bold, with the words around it."""
    tokens = [*map(plain, tokens)]
    before = [f"{token} " for token in tokens[max(0, position - CONTEXT) : position]]
    after = [f" {token}" for token in tokens[position + 1 : position + 1 + CONTEXT]]
    return Text.assemble(*before, (tokens[position], "bold"), *after)
