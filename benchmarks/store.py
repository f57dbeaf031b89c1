"""The layer store: its build, and a shuffled epoch read from it compared with running the biLM."""

import itertools
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch

from elmo_bench.encoders import LayerStore, batches, build_store, encode_each
from elmo_bench.encoders.bilm import BiLm
from elmo_bench.encoders.bilm.scan import PackedLinear
from elmo_bench.encoders.encode import BATCH_TOKENS, device_of, on
from elmo_bench.encoders.frozen_layers import GPU_TOKENS
from elmo_bench.text.chars import char_ids

from . import allennlp
from .timing import SIZES, Comparison, Setting


def compare(setting: Setting) -> Iterator[Comparison]:
    """For each size of biLM: the build, then a shuffled epoch."""
    for size in setting.sizes:
        yield from _of(setting, size)


def _of(setting: Setting, size: str) -> Iterator[Comparison]:
    sentences = _sentences(setting)
    tokens = sum(map(len, sentences))
    model = setting.bilm(size).to(setting.device)
    layers, numbers = range(model.num_layers), itertools.count()
    folders = (setting.scratch / f"store-{size}-{number}" for number in numbers)
    build = _builds(setting, size, model, sentences, folders)
    yield Comparison(f"store {size}, build", build, tokens, "tokens")

    built = build_store(model, sentences, layers, next(folders))
    if built is None:
        raise OSError(f"{setting.scratch}: not enough space for the layers of {tokens:,} tokens")
    shuffled = random.Random(0).sample(sentences, len(sentences))
    shuffled_batches = [
        shuffled[k : k + setting.batch_size] for k in range(0, len(shuffled), setting.batch_size)
    ]

    def read() -> None:
        _forget(built.folder)
        store = LayerStore(built.folder, layers, built.starts)
        for batch in shuffled_batches:
            store(batch)

    epoch = {
        "read from disk": read,
        "the biLM anew": torch.no_grad()(
            lambda: [
                model(on(device_of(model), model.prepare(batch))) for batch in shuffled_batches
            ]
        ),
    }
    yield Comparison(f"store {size}, a shuffled epoch", epoch, tokens, "tokens")


def _sentences(setting: Setting) -> Sequence[Sequence[str]]:
    """The sentences of the setting; all of them for a GPU, whose batches are large."""
    count = (2 if setting.quick else 8) * setting.batch_size
    return setting.sentences if setting.device == "cuda" else setting.sentences[:count]


def _builds(
    setting: Setting,
    size: str,
    model: BiLm,
    sentences: Sequence[Sequence[str]],
    folders: Iterator[Path],
) -> dict[str, Callable[[], object]]:
    """A store from text, other ways to compute the same layers, and a lower limit of the time."""
    near = setting.bilm(size).to(setting.device)
    near.bf16 = True
    layers = range(model.num_layers)
    means: dict[str, Callable[[], object]] = {
        "ours": lambda: build_store(model, sentences, layers, next(folders)),
        "ours, bfloat16": lambda: build_store(near, sentences, layers, next(folders)),
        "ours, bfloat16, kept as float16": lambda: build_store(
            near, sentences, layers, next(folders), dtype="float16"
        ),
        "ours, nothing written": lambda: list(encode_each(model, sentences)),
        "limit: the LSTMs' products": _products(setting, size, sentences, torch.float32),
        "limit: the LSTMs' products, bfloat16": _products(setting, size, sentences, torch.bfloat16),
    }
    if setting.peers:
        peer = allennlp.load(setting.peers, model, setting.scratch).to(setting.device)
        ordered, size_of_batch = sorted(sentences, key=len), setting.batch_size
        alike = [ordered[k : k + size_of_batch] for k in range(0, len(ordered), size_of_batch)]
        means[f"AllenNLP, {size_of_batch} sentences of like length, nothing written"] = lambda: [
            peer(char_ids(batch).to(setting.device)) for batch in alike
        ]
    return {name: torch.no_grad()(call) for name, call in means.items()}


def _products(
    setting: Setting, size: str, sentences: Sequence[Sequence[str]], dtype: torch.dtype
) -> Callable[[], object]:
    """The matrix products of the LSTMs, in the batches of the build, and nothing else."""
    options, device = SIZES[size], setting.device
    cell, projection = options.cell_size, options.projection_size
    budget = GPU_TOKENS if device == "cuda" else BATCH_TOKENS
    gates = PackedLinear(torch.randn(4 * cell, 2 * projection, device=device, dtype=dtype))
    project = PackedLinear(torch.randn(projection, cell, device=device, dtype=dtype))
    rows: list[int] = []  # per step, layer and direction: number of sentences with a token
    for batch in batches([len(sentence) for sentence in sentences], budget):
        lengths = [len(sentences[number]) + 2 for number in batch]
        steps = [sum(length > step for length in lengths) for step in range(max(lengths))]
        rows += 2 * options.num_layers * steps
    x, gated = (
        torch.randn(max(rows), width, device=device, dtype=dtype)
        for width in (2 * projection, cell)
    )
    return lambda: [(gates(x[:n]), project(gated[:n])) for n in rows]


def _forget(folder: Path) -> None:
    """Ask the system, where supported, to drop the files from its page cache."""
    for path in folder.glob("*.safetensors") if hasattr(os, "posix_fadvise") else ():
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
