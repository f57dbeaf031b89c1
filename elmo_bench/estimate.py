"""How long a run takes, from a few of its training batches; nothing is written."""

import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from lightning_fabric.utilities import move_data_to_device
from omegaconf import DictConfig
from torch import Tensor

from elmo_bench.config import build
from elmo_bench.data import Example, TaskData
from elmo_bench.elmo import Elmo
from elmo_bench.encoders import encode, find_store
from elmo_bench.module import TaskModule

SECONDS = 2.0  # of training: no further batch begins then
LEAST = 2  # batches, of which the first one warms up
SENTENCES = 32  # that are encoded for the time of the store; as many warm up


class Estimate(NamedTuple):
    """Seconds, and the number of batches that they rest on."""

    store: float  # to encode the corpus; 0 if it is stored already, or no store is used
    epoch: float  # the training batches of one
    timed: int  # batches
    batches: int  # of an epoch


class StandIn:
    """Returns the layers of a batch as a store does, and counts the seconds that it computes."""

    def __init__(self, elmo: Elmo) -> None:
        self.elmo, self.seconds = elmo, 0.0

    def __call__(
        self, sentences: Sequence[Sequence[str]], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "L B T D"]:
        begun = time.perf_counter()
        encoder, chosen = self.elmo.encoder, self.elmo.chosen
        layers = torch.zeros(len(chosen), *mask.shape, encoder.dim)
        for row, vectors in enumerate(encode(encoder, sentences, chosen)):
            layers[:, row, : vectors.shape[1]] = vectors
        self.seconds += time.perf_counter() - begun
        return layers


def estimate(
    cfg: DictConfig,
    elmo: Elmo,
    examples: Sequence[Example],
    sentences: Collection[Sequence[str]],
) -> Estimate:
    """Train on a few batches of the training examples, on one device, without the vectors of
    `vocab.vectors`. `sentences` are the distinct ones of all splits.
    """
    cfg = cfg.copy()
    cfg.vocab.vectors = None  # whose reading takes long, and is kept in a file
    device = torch.device(build.device(cfg))
    data = TaskData(
        {"train": Path("train")},
        read={"train": lambda _: iter(examples)},
        collate=build.task_files(cfg).collate,
        **build.batches(cfg),
        fraction=cfg.fraction,
        seed=cfg.seed,
    )
    data.vocab, vectors = build.vocab(cfg, data)
    module = build.module(cfg, build.model(cfg, data.vocab, vectors, elmo), data.vocab)
    module.to(device).train()
    stand_in, store = StandIn(elmo), 0.0
    if elmo.mixes and cfg.elmo.cache != "off" and not elmo.finetune:
        data.store = stand_in  # type: ignore[assignment]
        if not _is_stored(cfg, elmo, sentences):
            store = _encoding(elmo, sentences)
    data.prepare = elmo.prepare
    is_bf16 = str(cfg.trainer.get("precision")).startswith("bf16")
    with torch.autocast(device.type, torch.bfloat16, enabled=is_bf16):
        times = _steps(module, data, device, stand_in)
    count = len(data.train_dataloader())
    timed = times[1:] or times
    return Estimate(store, count * sum(timed) / len(timed), len(timed), count)


def _is_stored(cfg: DictConfig, elmo: Elmo, sentences: Collection[Sequence[str]]) -> bool:
    """Whether an earlier run has written the store of these sentences."""
    folder = Path(cfg.cache_dir, "layers").expanduser()
    store = find_store(elmo.encoder, sentences, elmo.chosen, folder, dtype=cfg.elmo.cache_dtype)
    if store is None:
        return False
    store.close()
    return store.num_words == sum(map(len, sentences))


def _encoding(elmo: Elmo, sentences: Collection[Sequence[str]]) -> float:
    """The seconds to encode the sentences, from some of all lengths."""
    ordered = sorted(sentences, key=len)
    count = min(2 * SENTENCES, len(ordered))
    some = [ordered[number * len(ordered) // count] for number in range(count)]
    timed = some[1::2] or some
    encode(elmo.encoder, some[::2], elmo.chosen)
    begun = time.perf_counter()
    encode(elmo.encoder, timed, elmo.chosen)
    seconds = time.perf_counter() - begun
    return seconds * sum(map(len, sentences)) / sum(map(len, timed))


def _steps(
    module: TaskModule, data: TaskData, device: torch.device, stand_in: StandIn
) -> list[float]:
    """The seconds of some training steps, with the making of their batches."""
    module.schedule = module.scheduler = None  # which ask for a trainer
    optimizer = module.configure_optimizers()["optimizer"]
    loader: Any = iter(data.train_dataloader())
    times: list[float] = []
    start = time.perf_counter()
    while len(times) < LEAST or time.perf_counter() - start < SECONDS:
        stand_in.seconds, begun = 0.0, time.perf_counter()
        if (numbered := next(loader, None)) is None:
            break
        batch = move_data_to_device(numbered, device).batch
        optimizer.zero_grad()
        loss = module.model.loss(module.model(batch), batch) + module.elmo.penalty()
        loss.backward()
        optimizer.step()
        float(loss.detach())  # waits for a GPU
        times.append(time.perf_counter() - begun - stand_in.seconds)
    return times
