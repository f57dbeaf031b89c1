"""Examples of a task, in batches of similar length."""

import itertools
import logging
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler

from elmo_bench.elmo import LayerRows, Layers
from elmo_bench.encoders import LayerStore
from elmo_bench.nn import Backbone, Tokens
from elmo_bench.text import Vocab, types

from .log import is_first

log = logging.getLogger(__name__)
LENGTH_NOISE = 0.1  # relative noise on lengths before sorting


@runtime_checkable
class Example(Protocol):
    """The attributes of every task's example.

    `group` names what the example is part of, from the largest unit down: its tree, its premise,
    its article and paragraph. Examples of a group share text, so `fraction` samples whole groups.
    An attribute `units` says what these are, such as `("article", "paragraph")`, for reports; an
    example may lack it.
    """

    sentences: Sequence[Sequence[str]]
    labels: Sequence[str]
    source: str
    gold: Any  # the value that the metric compares with the prediction
    group: tuple[str, ...]


class Numbered(NamedTuple):
    """A task's batch, and the indices of its examples in the data set."""

    numbers: list[int]
    batch: Any


class LengthBatches(Sampler[list[int]]):
    """Batches of examples of similar length, shuffled in each epoch of training.

    A batch has `batch_size` examples, or fewer if these would exceed `batch_tokens` (examples times
    the length of the longest) or `batch_scores` attention scores (examples times length squared).
    The length of an example is the sum of its sentences' lengths, so with padding between these a
    batch may have more tokens. An example that exceeds a limit is a batch of its own. Every epoch
    has the same number of batches. Several processes share the batches: in training each gets the
    same number (the first batches are repeated if necessary), in evaluation every example occurs
    exactly once. Training begins at `start`: an epoch, and the number of its batches that this
    process has already seen.
    """

    def __init__(
        self,
        lengths: Sequence[int],
        batch_size: int,
        *,
        batch_tokens: int | None = None,
        batch_scores: int | None = None,
        shuffle_seed: int | None = None,
        start: tuple[int, int] = (0, 0),
    ) -> None:
        self.lengths, self.shuffle_seed = lengths, shuffle_seed
        self.epoch, self.seen = start
        self.rank, self.world = 0, 1
        if dist.is_initialized():
            self.rank, self.world = dist.get_rank(), dist.get_world_size()
        if shuffle_seed is None:  # give each process a batch
            batch_size = min(batch_size, max(1, len(lengths) // self.world))
        # The greatest length at each position of the order, given the noise.
        stray = 1.0 if shuffle_seed is None else (1 + LENGTH_NOISE) / (1 - LENGTH_NOISE)
        longest = [stray * length for length in sorted(lengths)]
        self.sizes = batch_sizes(longest, batch_size, batch_tokens, batch_scores)

    def __iter__(self) -> Iterator[list[int]]:
        shuffled = self.shuffle_seed is not None
        rng = random.Random(f"{self.shuffle_seed} {self.epoch}")
        spread = LENGTH_NOISE if shuffled else 0.0
        noise = [rng.uniform(1 - spread, 1 + spread) for _ in self.lengths]
        order = iter(sorted(range(len(self.lengths)), key=lambda k: self.lengths[k] * noise[k]))
        batches = [list(itertools.islice(order, size)) for size in self.sizes]
        if shuffled:
            rng.shuffle(batches)
            batches += itertools.islice(itertools.cycle(batches), -len(batches) % self.world)
        left = batches[self.rank :: self.world][self.seen :]
        # Count an epoch at its first batch: a loader with workers makes two iterators and uses one.
        self.epoch, self.seen = self.epoch + 1, 0
        yield from left

    def __len__(self) -> int:
        if self.shuffle_seed is not None:
            return -(-len(self.sizes) // self.world)
        return len(range(self.rank, len(self.sizes), self.world))


def batch_sizes(
    lengths: Sequence[int | float], most: int, tokens: int | None = None, scores: int | None = None
) -> list[int]:
    """Return the sizes of batches of examples sorted by length, each padded to its longest example.

    >>> batch_sizes([1, 1, 1, 2, 5, 9], most=3), batch_sizes([1, 1, 1, 2, 5, 9], most=3, tokens=6)
    ([3, 3], [3, 1, 1, 1])
    """
    sizes: list[int] = []
    for length in lengths:
        size = sizes[-1] + 1 if sizes else 1
        too_many_tokens = tokens and size * length > tokens
        too_many_scores = scores and size * length**2 > scores
        is_full = size > most or too_many_tokens or too_many_scores
        if is_full or not sizes:
            sizes.append(1)
        else:
            sizes[-1] = size
    return sizes


class Loader(DataLoader):
    """A loader that draws a random number at the start of each epoch, as torch does without
    workers, so that dropout is the same with any number of workers.
    """

    def __iter__(self) -> Any:
        if self.num_workers:  # without workers, torch's iterator draws it
            torch.empty((), dtype=torch.int64).random_()
        return super().__iter__()


class TaskData(pl.LightningDataModule):
    """The training, development and test examples of one task, or of some of these splits.

    `read` and `collate` belong to the task (`tasks/*/data.py`); `fraction` keeps that share of the
    groups of training examples, sampled with `seed`. With `overfit`, that number of training
    examples is both the training and the development set, and there is no test set. Everything is
    read, and so checked, before training starts. Examples may have the labels of the training
    examples, or those of `vocab` if a model has already been trained. `feed` says what the `Tokens`
    of a batch contain.
    """

    def __init__(
        self,
        files: Mapping[str, Path],
        *,
        read: Mapping[str, Callable[[Path], Iterator[Example]]],
        collate: Callable[[Sequence[Example], Vocab], Any],
        batch_size: int,
        batch_tokens: int | None = None,
        batch_scores: int | None = None,
        fraction: float = 1.0,
        overfit: int | None = None,
        seed: int = 0,
        num_workers: int = 0,
        vocab: Vocab | None = None,
    ) -> None:
        super().__init__()
        bounds: dict[str, Any] = {
            "batch_size": batch_size,
            "batch_tokens": batch_tokens,
            "batch_scores": batch_scores,
        }
        self.collate, self.bounds, self.seed, self.num_workers = collate, bounds, seed, num_workers
        self.start = 0, 0  # epoch and number of its batches done when training starts
        self.examples = {split: list(read[split](path)) for split, path in files.items()}
        if overfit is not None:
            few = _draw(self.examples["train"], 1.0, seed)[:overfit]
            self.examples = {"train": few, "dev": few}
        self.all_sentences = [s for split in self.examples for s in self.sentences(split)]
        self.vocab = vocab
        self.complete: Callable[[Tokens], Tokens] | None = None
        if vocab is None:
            labels = {label for example in self.examples["train"] for label in example.labels}
            owner = "the training file"
        else:
            labels, owner = set(vocab.labels), "the model"
        self.labels = sorted(labels)
        for split, examples in self.examples.items():
            _check(split, examples, files[split], labels, owner)
        if "train" in files:
            self.examples["train"] = _draw(self.examples["train"], fraction, seed)

    def sentences(self, split: str) -> Iterator[Sequence[str]]:
        """Return all sentences of a split's examples."""
        return itertools.chain.from_iterable(example.sentences for example in self.examples[split])

    def feed(self, backbone: Backbone, store: LayerStore | None = None) -> None:
        """Have batches contain what a model reads: characters if its `embed` does, and for ELMo the
        store's layers, their rows if the device has the layers, or without a store the encoder's
        input. Logs how many words have no vector in a table of word vectors.
        """
        self.complete = partial(
            _complete,
            reads_chars=getattr(backbone.embed, "reads_chars", True),
            elmo=backbone.elmo.prepare
            if store is None
            else partial(_stored, store, on_device=backbone.elmo.device_layers is not None),
        )
        if is_first() and backbone.elmo.mixes and hasattr(backbone.elmo.encoder, "has_vector"):
            _tell_of_zeros(backbone.elmo.encoder.has_vector, self.all_sentences)

    def _loader(self, split: str, **order: Any) -> Loader:
        examples = self.examples[split]
        lengths = [sum(map(len, example.sentences)) for example in examples]
        return Loader(
            range(len(examples)),  # type: ignore[arg-type]
            batch_sampler=LengthBatches(lengths, **self.bounds, **order),
            collate_fn=partial(_collate, self.collate, examples, self.vocab, self.complete),
            num_workers=self.num_workers,
            persistent_workers=self.num_workers > 0,
            # Workers are made once a process, and their seed is drawn then: not from the model's
            # random numbers, or a run that goes on would have others.
            generator=torch.Generator() if self.num_workers else None,
            pin_memory=self.trainer is not None
            and self.trainer.strategy.root_device.type == "cuda",
        )

    def train_dataloader(self) -> DataLoader:
        return self._loader("train", shuffle_seed=self.seed, start=self.start)

    def val_dataloader(self) -> DataLoader:
        return self._loader("dev")

    def test_dataloader(self) -> DataLoader:
        return self._loader("test")

    def predict_dataloader(self) -> DataLoader:
        return self._loader("test")


def clusters(examples: Sequence[Example]) -> tuple[list[int], str]:
    """Return the number of each example's cluster, from 0, and the unit of a cluster.

    A cluster is the largest unit of `group` of which there are several: a file whose only document
    is the whole file names no documents. The unit is "cluster" if the examples lack `units`.
    """
    depth = len(examples[0].group)
    parts = [[example.group[:size] for example in examples] for size in range(1, depth + 1)]
    level = next((k for k, part in enumerate(parts) if len({*part}) > 1), depth - 1)
    numbers = {group: number for number, group in enumerate(dict.fromkeys(parts[level]))}
    units = getattr(examples[0], "units", ("cluster",) * depth)
    return [numbers[group] for group in parts[level]], units[level]


def _draw(examples: Sequence[Example], fraction: float, seed: int) -> list[Example]:
    """Return all examples of a random share of the groups; the seed determines the groups and the
    order of examples.
    """
    groups = list(dict.fromkeys(example.group for example in examples))
    kept = set(random.Random(seed).sample(groups, max(1, round(fraction * len(groups)))))
    shuffled = random.Random(seed).sample(examples, len(examples))
    return [example for example in shuffled if example.group in kept]


def _collate(
    collate: Callable[..., Any],
    examples: Sequence[Example],
    vocab: Vocab | None,
    complete: Callable[[Tokens], Tokens] | None,
    numbers: list[int],
) -> Numbered:
    batch = collate([examples[number] for number in numbers], vocab)
    if complete is None:
        return Numbered(numbers, batch)
    parts = {
        name: complete(part) for name, part in batch._asdict().items() if isinstance(part, Tokens)
    }
    return Numbered(numbers, batch._replace(**parts))


def _complete(
    tokens: Tokens, *, reads_chars: bool, elmo: Callable[[Sequence[Sequence[str]]], Any]
) -> Tokens:
    """Replace the sentences by what the model reads of them."""
    if reads_chars:
        tokens = tokens.with_chars()
    return tokens._replace(sentences=None, elmo=elmo(tokens.sentences or ()))


def _stored(
    store: LayerStore, sentences: Sequence[Sequence[str]], *, on_device: bool
) -> Layers | LayerRows:
    rows = store.rows(sentences)
    return LayerRows(rows) if on_device else Layers(store(rows))


def _tell_of_zeros(has_vector: Callable[[str], bool], sentences: Iterable[Sequence[str]]) -> None:
    """Log how many words have no vector, as a warning if most have none."""
    counts = Counter(itertools.chain.from_iterable(sentences))
    lacking = sorted((w for w in counts if not has_vector(w)), key=lambda w: (-counts[w], w))
    if lacking:
        number, total = sum(counts[word] for word in lacking), counts.total()
        log.log(
            logging.WARNING if 2 * number > total else logging.INFO,
            "the encoder returns zeros for %s of %s words, such as %s",
            f"{number:,}",
            f"{total:,}",
            ", ".join(map(repr, lacking[:5])),
        )


def _check(
    split: str, examples: Sequence[Example], path: Path, labels: set[str], owner: str
) -> None:
    if not examples:
        raise ValueError(f"{path}: the {split} file has no examples")
    for example in examples:
        if unknown := set(example.labels) - labels:
            # Name the types, unless only a tag is new.
            named = types if set(types(unknown)) - set(types(labels)) else sorted
            hint = "; see data.labels" if owner == "the model" else ""
            raise ValueError(
                f"{example.source}: labels {named(unknown)} of the {split} file do not occur in "
                f"{owner}, which has {named(labels)}{hint}"
            )
