"""Batches of examples of similar length, which several processes share; those that are too large
for the memory of a GPU are read in parts.
"""

import itertools
import logging
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.utils.data import DataLoader, Sampler

from elmo_bench.encoders.encode import batch_sizes, parted
from elmo_bench.terminal import counted_noun

log = logging.getLogger(__name__)
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
        self.lengths, self.shuffle_seed = lengths, shuffle_seed
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
        noise = [rng.uniform(1 - spread, 1 + spread) for _ in self.lengths]
        order = iter(sorted(range(len(self.lengths)), key=lambda k: self.lengths[k] * noise[k]))
        batches = [list(itertools.islice(order, size)) for size in self.sizes]
        # Also what is scored: `trainer.limit_val_batches` takes the first ones.
        (rng if shuffled else random.Random(0)).shuffle(batches)
        if shuffled:
            batches += itertools.islice(itertools.cycle(batches), -len(batches) % self.world)
        left = batches[self.rank :: self.world][self.seen :]
        # Count an epoch at its first batch: a loader with workers makes two iterators and uses one.
        self.epoch, self.seen = self.epoch + 1, 0
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


class BatchParts:
    """Reads each batch of a training in as many parts as memory needs: 1, 2, 4, ... A run that is
    resumed goes on with as many.

    A step has the same gradient, but for dropout's random numbers, the statistics of batch norms,
    and the weights of examples in a loss that is not a mean over all examples (SQuAD's leaves some
    out, that of trees is a mean over words). `module` is the `TaskModule` below.
    """

    def __init__(self) -> None:
        self.number = 1  # of parts
        self.count = 0  # of examples of the batch
        self.further: list[list[int]] = []  # the examples of all parts but the first
        self.losses: list[tuple[Tensor, int]] = []  # of the parts so far: mean loss, examples

    @property
    def mean_loss(self) -> Any:
        """The mean loss of the batch's examples."""
        return sum(mean * (count / self.count) for mean, count in self.losses)

    def first_loss(self, module: Any, numbered: Numbered) -> Tensor:
        """Return what the first part of a batch adds to its loss."""
        self.count, self.losses = len(numbered.numbers), []
        first, *self.further = parted(numbered.numbers, self.number)
        part = _batch(module.trainer, "train", first) if self.further else numbered
        return self._loss(module.model, part)

    def further_losses(self, module: Any) -> Iterator[Tensor]:
        """Yield what each further part adds, when the gradient of those before is computed."""
        precision = module.trainer.precision_plugin
        for numbers in self.further:
            with precision.train_step_context():
                loss = self._loss(module.model, _batch(module.trainer, "train", numbers))
            yield precision.pre_backward(loss, module)

    def _loss(self, model: Any, part: Numbered) -> Tensor:
        loss, count = model.loss(model(part.batch), part.batch), len(part.numbers)
        sums = getattr(model, "sums_losses", False)
        # Mean per example, independent of the batch size.
        self.losses.append((loss.detach() / (count if sums else 1), count))
        return loss * (1 if sums else count / self.count)

    def fitted(self, trainer: Any, closure: Callable[[], Any]) -> Any:
        """Return what `closure` returns, which computes the gradient of a step; if memory does not
        suffice, it is called again for twice as many parts.

        Raises MemoryError where this cannot help.
        """
        while True:
            try:
                return closure()
            except torch.OutOfMemoryError as error:
                said = f"no room for {counted_noun(self.count, 'example')} at once"
                has_others = trainer.world_size > 1 or trainer.accumulate_grad_batches > 1
                if has_others or self.number >= self.count:
                    advice = "lower fit.batch_size or fit.batch_tokens"
                    raise MemoryError(f"{said}: {advice}") from error
            # Here, behind the exception, the memory of the attempt is free.
            self.number *= 2
            log.warning("%s: batches are read in %d parts, to the same steps", said, self.number)


def decoded(module: Any, numbered: Numbered, split: str) -> list:
    """Decode a batch, or its halves where memory does not suffice for the whole."""
    try:
        predicted = module.model.decode(module.model(numbered.batch), numbered.batch)
        module.layer_norms.add()
        return predicted
    except torch.OutOfMemoryError:
        if len(numbered.numbers) == 1:
            raise
    module.layer_norms.read.clear()
    halves = (_batch(module.trainer, split, half) for half in parted(numbered.numbers, 2))
    return [each for half in halves for each in decoded(module, half, split)]


def _batch(trainer: Any, split: str, numbers: list[int]) -> Numbered:
    """Return a batch of these examples, as the loader and Lightning make it."""
    batch = trainer.precision_plugin.convert_input(trainer.datamodule.batch(split, numbers))
    return trainer.strategy.batch_to_device(batch)
