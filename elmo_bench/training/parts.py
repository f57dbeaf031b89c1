"""Batches that are too large for the memory of a GPU, read in parts."""

import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from elmo_bench.encoders.encode import parted
from elmo_bench.files import counted_noun

from .data import Numbered

log = logging.getLogger(__name__)


class BatchParts:
    """Reads each batch of a training in as many parts as memory needs: 1, 2, 4, ...

    A step has the same gradient, but for dropout's random numbers, the statistics of batch norms,
    and the weights of examples in a loss that is not a mean over all examples (SQuAD's leaves some
    out). `module` is the `TaskModule` below.
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
