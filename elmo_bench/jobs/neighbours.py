"""`job=neighbours`: where a text uses a word most like a given one in its sentence (paper, table
4).
"""

import heapq

import torch.nn.functional as F
from omegaconf import DictConfig
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from elmo_bench import build
from elmo_bench.checks import at_least
from elmo_bench.encoders import encode, encode_each
from elmo_bench.text import chunks, read_sentences

CHUNK = 32_768  # tokens of the text that are in memory at a time
CONTEXT = 8  # words that are shown on each side


def neighbours(cfg: DictConfig) -> list[tuple[float, str]]:
    """Print the words of `cfg.input` whose vectors have the highest cosine with the given one;
    (cosine, word) of each.

    Of equal vectors one is shown: with layer 0 a word is the same everywhere.
    """
    encoder = build.encoder(cfg)
    layer = encoder.num_layers - 1 if cfg.layer == "top" else cfg.layer
    if layer not in range(encoder.num_layers):
        raise ValueError(f"layer={cfg.layer}, but it may be top or 0 to {encoder.num_layers - 1}")
    at_least("count", cfg.count, 1)
    tokens = str(cfg.sentence).split()
    place = find(tokens, cfg.word)
    encoder.to(build.device(cfg))
    (own,) = encode(encoder, [tokens], [layer])
    wanted = F.normalize(own[0, place], dim=0)
    best: list[
        tuple[float, int, int, list[str]]
    ] = []  # cosine, minus the sentence's number, place, sentence
    seen = set[float]()
    with Progress(
        SpinnerColumn(), TextColumn("{task.completed:,} sentences"), TimeElapsedColumn()
    ) as progress:
        bar, first = progress.add_task(""), 0
        for chunk in chunks(read_sentences(cfg.input), CHUNK):
            for number, layers in encode_each(encoder, chunk, [layer]):
                cosines = F.normalize(layers[0], dim=1) @ wanted
                for cosine, where in zip(*cosines.topk(min(cfg.count, len(cosines))), strict=True):
                    value = round(cosine.item(), 6)
                    if value not in seen and (len(best) < cfg.count or value > best[0][0]):
                        seen.add(value)
                        heapq.heappush(
                            best, (value, -(first + number), int(where), list(chunk[number]))
                        )
                        if len(best) > cfg.count:
                            heapq.heappop(best)
                progress.update(bar, advance=1)
            first += len(chunk)
    table = Table("cosine", "line", "")
    table.add_row("", "", in_context(tokens, place))
    for cosine, line, where, sentence in sorted(best, reverse=True):
        table.add_row(f"{cosine:.3f}", str(1 - line), in_context(sentence, where))
    Console().print(table)
    return [(cosine, sentence[where]) for cosine, _, where, sentence in sorted(best, reverse=True)]


def find(tokens: list[str], word: str | int) -> int:
    """The place of a word that is given as itself or as its place; ValueError where it is not there
    once.
    """
    if isinstance(word, int):
        if word not in range(len(tokens)):
            raise ValueError(f"word={word}, but the sentence has the places 0 to {len(tokens) - 1}")
        return word
    if tokens.count(word) != 1:
        raise ValueError(
            f"word={word} occurs {tokens.count(word)} times in {tokens}: give its place, counted "
            "from 0"
        )
    return tokens.index(word)


def in_context(tokens: list[str], place: int) -> Text:
    """The words around a place, which is bold."""
    left, right = tokens[max(0, place - CONTEXT) : place], tokens[place + 1 : place + 1 + CONTEXT]
    return Text.assemble(
        *(f"{token} " for token in left), (tokens[place], "bold"), *(f" {token}" for token in right)
    )
