"""Time per token by sentence length, batch size and corpus size.

Where the figure is constant, time grows linearly.
"""

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from elmo_bench.encoders import build_store
from elmo_bench.encoders.bilm import BiLm
from elmo_bench.text.chars import char_ids

from .timing import Comparison, Setting

LENGTHS, BATCHES, SHARES = (10, 20, 40, 80, 160), (1, 4, 16, 64, 256), (8, 4, 2, 1)


def compare(setting: Setting) -> Iterator[Comparison]:
    """For each size of biLM: forward by sentence length and batch size, store by corpus size."""
    text = itertools.cycle(itertools.chain.from_iterable(setting.sentences))
    sentences = setting.sentences[: (2 if setting.quick else 8) * setting.batch_size]
    for size in setting.sizes:
        model = setting.bilm(size)
        shapes = {
            f"{length} tokens": (setting.batch_size, length)
            for length in LENGTHS[: 2 if setting.quick else None]
        }
        yield _comparison(
            f"biLM {size}, sentences of",
            {name: _forward(model, text, *shape) for name, shape in shapes.items()},
        )
        shapes = {
            f"{batch} sentences": (batch, 20) for batch in BATCHES[: 2 if setting.quick else None]
        }
        yield _comparison(
            f"biLM {size}, batches of",
            {name: _forward(model, text, *shape) for name, shape in shapes.items()},
        )
        folders = (setting.scratch / f"growth-{size}-{number}" for number in itertools.count())
        parts = [sentences[: len(sentences) // share] for share in SHARES]

        yield _comparison(
            f"store {size}, build of",
            {f"{len(part)} sentences": _build(model, part, folders) for part in parts},
        )


def _forward(model: BiLm, text: Iterator[str], batch: int, length: int) -> Callable[[], int]:
    chars = char_ids([list(itertools.islice(text, length)) for _ in range(batch)])

    def forward() -> int:
        with torch.no_grad():
            model.read(chars)
        return batch * length

    return forward


def _build(
    model: BiLm, sentences: Sequence[Sequence[str]], folders: Iterator[Path]
) -> Callable[[], int]:
    def build() -> int:
        build_store(model, sentences, range(model.num_layers), next(folders))
        return sum(map(len, sentences))

    return build


def _comparison(title: str, means: Mapping[str, Callable[[], int]]) -> Comparison:
    """A comparison in µs per token; each call returns the number of tokens that it read."""

    def measure(call: Callable[[], Any]) -> float:
        start = time.perf_counter()
        tokens = call()
        return 1e6 * (time.perf_counter() - start) / tokens

    return Comparison(title, means, measure=measure, measured="µs/token")
