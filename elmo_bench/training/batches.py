"""Batches of examples of similar length, which several processes share."""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Sampler

from elmo_bench.encoders.encode import batch_sizes

T = TypeVar("T")
LENGTH_NOISE = 0.1  # relative noise on lengths before sorting


class Numbered(NamedTuple):
    """A task's batch, and the numbers of its examples among those of its split."""

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
        self.lengths = lengths
        self.shuffle_seed = shuffle_seed
        self.epoch, self.seen = start
        self.rank = rank()
        self.world = dist.get_world_size() if dist.is_initialized() else 1
        if shuffle_seed is None:  # give each process a batch
            batch_size = min(batch_size, max(1, len(lengths) // self.world))
        # The greatest length at each position of the order, given the noise.
        stray = 1.0 if shuffle_seed is None else (1 + LENGTH_NOISE) / (1 - LENGTH_NOISE)
        longest = [stray * length for length in sorted(lengths)]
        self.sizes = batch_sizes(longest, most=batch_size, tokens=batch_tokens, scores=batch_scores)

    def __iter__(self) -> Iterator[list[int]]:
        shuffled = self.shuffle_seed is not None
        rng = random.Random(f"{self.shuffle_seed} {self.epoch}")
        spread = LENGTH_NOISE if shuffled else 0.0
        noisy = [length * rng.uniform(1 - spread, 1 + spread) for length in self.lengths]
        order = iter(sorted(range(len(noisy)), key=lambda number: noisy[number]))
        batches = [list(itertools.islice(order, size)) for size in self.sizes]
        # Also what is scored: `trainer.limit_val_batches` takes the first ones.
        (rng if shuffled else random.Random(0)).shuffle(batches)
        if shuffled:
            batches += itertools.islice(itertools.cycle(batches), -len(batches) % self.world)
        left = batches[self.rank :: self.world][self.seen :]
        # Count an epoch at its first batch: a loader with workers makes two iterators and uses one.
        self.epoch += 1
        self.seen = 0
        yield from left

    def __len__(self) -> int:
        if self.shuffle_seed is not None:
            return -(-len(self.sizes) // self.world)
        return len(range(self.rank, len(self.sizes), self.world))


class Loader(DataLoader):
    """A loader that draws a random number at the start of each epoch, as torch does without
    workers, so that dropout is the same with any number of workers.
    """

    def __iter__(self) -> Any:
        if self.num_workers:  # without workers, torch's iterator draws it
            torch.empty((), dtype=torch.int64).random_()
        return super().__iter__()


def rank() -> int:
    """Return the number of this process; 0 is the first one."""
    return dist.get_rank() if dist.is_initialized() else 0


def of_all(value: T) -> list[T]:
    """Return the values of all processes; each must call it."""
    if not dist.is_initialized():
        return [value]
    values: list[T] = [value] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
