"""Examples of a task, in batches of like length."""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pytorch_lightning as pl
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler

from elmo_bench.elmo import LayerStore
from elmo_bench.nn import Tokens
from elmo_bench.text import Vocab

LENGTH_NOISE = 0.1  # how far a sentence may stray from its place in the order of length


@runtime_checkable
class Example(Protocol):
    """What every task's example owes: its sentences, the labels it needs, the file and line it stands at, its annotation."""

    sentences: Sequence[Sequence[str]]
    labels: Sequence[str]
    source: str
    gold: Any  # what the metric compares a prediction with


class Numbered(NamedTuple):
    """A task's batch, and the places of its examples in the data set."""

    numbers: list[int]
    batch: Any


class LengthBatches(Sampler[list[int]]):
    """Batches of examples of about the same length; shuffled anew each epoch when training.

    Several processes share the batches out. In training each gets as many (the first ones serve twice if need be), in
    evaluation every example comes exactly once.
    """

    def __init__(self, lengths: Sequence[int], batch_size: int, *, shuffle_seed: int | None = None) -> None:
        self.lengths, self.batch_size, self.shuffle_seed = lengths, batch_size, shuffle_seed
        self.epoch = 0
        self.rank, self.world = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
        if shuffle_seed is None:  # a batch for every process
            self.batch_size = min(batch_size, max(1, len(lengths) // self.world))

    def __iter__(self) -> Iterator[list[int]]:
        shuffled = self.shuffle_seed is not None
        rng = random.Random(f"{self.shuffle_seed} {self.epoch}")
        self.epoch += 1
        noise = [rng.uniform(1 - LENGTH_NOISE, 1 + LENGTH_NOISE) if shuffled else 1.0 for _ in self.lengths]
        order = sorted(range(len(self.lengths)), key=lambda k: self.lengths[k] * noise[k])
        batches = [order[k : k + self.batch_size] for k in range(0, len(order), self.batch_size)]
        if shuffled:
            rng.shuffle(batches)
            batches += itertools.islice(itertools.cycle(batches), -len(batches) % self.world)
        return iter(batches[self.rank :: self.world])

    def __len__(self) -> int:
        batches = -(-len(self.lengths) // self.batch_size)
        if self.shuffle_seed is not None:
            return -(-batches // self.world)
        return len(range(self.rank, batches, self.world))


class TaskData(pl.LightningDataModule):
    """The training, development and test examples of one task, or those of some of these splits.

    `read` and `collate` are the task's own (`tasks/*/data.py`); `fraction` keeps that share of the training examples, drawn by
    `seed`. Everything is read, and so checked, before training starts. Examples may have the labels of the training
    examples, or those of `vocab`, where a model has been trained already. A `store` gives every `Tokens` of a batch its layers.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        *,
        read: Mapping[str, Callable[[Path], Iterator[Example]]],
        collate: Callable[[Sequence[Example], Vocab], Any],
        batch_size: int,
        fraction: float = 1.0,
        seed: int = 0,
        num_workers: int = 0,
        vocab: Vocab | None = None,
    ) -> None:
        super().__init__()
        if not 0 < fraction <= 1:
            raise ValueError(f"fraction={fraction}, but it may be more than 0 and at most 1")
        if batch_size < 1:
            raise ValueError(f"fit.batch_size={batch_size}, but it may be 1 or more")
        if num_workers < 0:
            raise ValueError(f"num_workers={num_workers}, but it may be 0 or more")
        self.collate, self.batch_size, self.seed, self.num_workers = collate, batch_size, seed, num_workers
        self.examples = {split: list(read[split](path)) for split, path in files.items()}
        self.all_sentences = [s for examples in self.examples.values() for example in examples for s in example.sentences]
        self.vocab = vocab
        self.store: LayerStore | None = None
        known = {label for example in self.examples["train"] for label in example.labels} if vocab is None else set(vocab.labels)
        self.labels = sorted(known)
        for split, examples in self.examples.items():
            _check(split, examples, files[split], known)
        if "train" in files:
            kept = max(1, round(fraction * len(self.examples["train"])))
            self.examples["train"] = random.Random(seed).sample(self.examples["train"], kept)

    def sentences(self, split: str) -> Iterator[Sequence[str]]:
        """All sentences of a split's examples."""
        return itertools.chain.from_iterable(example.sentences for example in self.examples[split])

    def _loader(self, split: str, shuffle_seed: int | None = None) -> DataLoader:
        examples = self.examples[split]
        lengths = [sum(map(len, example.sentences)) for example in examples]
        return DataLoader(
            range(len(examples)),  # type: ignore[arg-type]
            batch_sampler=LengthBatches(lengths, self.batch_size, shuffle_seed=shuffle_seed),
            collate_fn=partial(_collate, self.collate, examples, self.vocab, self.store),
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
        )

    def train_dataloader(self) -> DataLoader:
        return self._loader("train", self.seed)

    def val_dataloader(self) -> DataLoader:
        return self._loader("dev")

    def test_dataloader(self) -> DataLoader:
        return self._loader("test")

    def predict_dataloader(self) -> DataLoader:
        return self._loader("test")


def _collate(
    collate: Callable[..., Any], examples: Sequence[Example], vocab: Vocab | None, store: LayerStore | None, numbers: list[int]
) -> Numbered:
    batch = collate([examples[number] for number in numbers], vocab)
    if store is not None:
        parts = {name: part for name, part in batch._asdict().items() if isinstance(part, Tokens)}
        batch = batch._replace(**{name: t._replace(layers=store(t.chars, t.mask)) for name, t in parts.items()})
    return Numbered(numbers, batch)


def _check(split: str, examples: Sequence[Example], path: Path, labels: set[str]) -> None:
    if not examples:
        raise ValueError(f"{path}: no examples in the {split} file")
    for example in examples:
        if unknown := sorted(set(example.labels) - labels):
            raise ValueError(
                f"{example.source}: labels {unknown} of the {split} file do not occur in the training file, "
                f"which has {sorted(labels)}"
            )
