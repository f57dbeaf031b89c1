"""The layer store: building it, and reading a shuffled epoch from it against running the biLM."""

import itertools
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from elmo_bench.encoders import LayerStore, build_store, encode_each
from elmo_bench.encoders.bilm import char_ids

from . import allennlp
from .bilm import plain
from .timing import Comparison, Setting


def compare(setting: Setting) -> Iterator[Comparison]:
    """For each size of biLM: build, read."""
    for size in setting.sizes:
        yield from _of(setting, size)


def _of(setting: Setting, size: str) -> Iterator[Comparison]:
    sentences = setting.sentences[: (2 if setting.quick else 8) * setting.batch_size]
    tokens = sum(map(len, sentences))
    model = setting.bilm(size)
    defined, layers, numbers = plain(model), range(model.num_layers), itertools.count()
    folders = (setting.scratch / f"store-{size}-{number}" for number in numbers)
    build: dict[str, Callable[[], object]] = {
        "ours": lambda: build_store(model, sentences, layers, next(folders)),
        "definition, nothing written": lambda: list(encode_each(defined, sentences)),
    }
    if setting.peers:
        peer, ordered = (
            allennlp.load(setting.peers, model, setting.scratch),
            sorted(sentences, key=len),
        )
        alike = [
            ordered[k : k + setting.batch_size] for k in range(0, len(ordered), setting.batch_size)
        ]
        name = f"AllenNLP, {setting.batch_size} sentences of like length, nothing written"
        build[name] = torch.no_grad()(lambda: [peer(char_ids(batch)) for batch in alike])
    yield Comparison(f"store {size}, build", build, tokens, "tokens")

    built = build_store(model, sentences, layers, next(folders))
    if built is None:
        raise OSError(f"{setting.scratch} has no room for the layers of {tokens:,} tokens")
    shuffled = random.Random(0).sample(sentences, len(sentences))
    batches = [
        shuffled[k : k + setting.batch_size] for k in range(0, len(shuffled), setting.batch_size)
    ]
    masks = [(char_ids(batch) > 0).any(-1) for batch in batches]

    def read() -> None:
        _forget(built.folder)
        store = LayerStore(built.folder, layers)
        store.check()
        for batch, mask in zip(batches, masks, strict=True):
            store(batch, mask)

    epoch = {
        "read from disk": read,
        "the biLM anew": torch.no_grad()(
            lambda: [model(model.prepare(batch)) for batch in batches]
        ),
    }
    yield Comparison(f"store {size}, a shuffled epoch", epoch, tokens, "tokens")


def _forget(folder: Path) -> None:
    """Ask the system to drop what it remembers of the files, where it can be asked."""
    for path in folder.glob("*.bin") if hasattr(os, "posix_fadvise") else ():
        file = os.open(path, os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)
