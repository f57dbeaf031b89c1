"""What a full GPU does to a training: its batches are read in parts, to the same steps."""

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from elmo_bench.encoders.encode import parted
from elmo_bench.terminal import counted_noun

from .batches import Numbered
from .module import TaskModule

log = logging.getLogger(__name__)


class InParts(TaskModule):
    """A module that reads a batch in as many parts as memory needs: 1, 2, 4, ... A run that is
    resumed goes on with as many. Dev and test are read in halves where they must be.

    A step has the same gradient, but for dropout's random numbers, the statistics of batch norms,
    and the weights of examples in a loss that is not a mean over all examples (SQuAD's leaves some
    out, that of trees is a mean over words).
    """

    num_parts = 1
    num_examples = 0  # of the batch
    further: tuple[list[int], ...] = ()  # the numbers of the examples of all parts but the first

    def training_step(self, numbered: Numbered, batch_idx: int) -> Tensor:
        self.losses = []
        self.num_examples = len(numbered.numbers)
        first, *further = parted(numbered.numbers, self.num_parts)
        self.further = tuple(further)
        part = self._batch("train", first) if further else numbered
        return self._share(part) + self.elmo.penalty()

    def _share(self, part: Numbered) -> Tensor:
        """Return what a part adds to the loss of its batch."""
        loss = self.loss(part)
        if self.sums_losses:
            return loss
        return loss * (len(part.numbers) / self.num_examples)

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Compute the gradient of the first part, then that of each further one."""
        super().backward(loss, *args, **kwargs)
        precision = self.trainer.precision_plugin
        for numbers in self.further:
            with precision.train_step_context():
                share = self._share(self._batch("train", numbers))
            super().backward(precision.pre_backward(share, self))

    def optimizer_step(
        self, epoch: int, batch_idx: int, optimizer: Any, optimizer_closure: Any = None
    ) -> None:
        closure = partial(self._fitted, optimizer_closure)
        super().optimizer_step(epoch, batch_idx, optimizer, closure)

    def _fitted(self, closure: Callable[[], Any]) -> Any:
        """Return what `closure` returns, which computes the gradient of a step; if memory does not
        suffice, it is called again for twice as many parts.

        Raises MemoryError where this cannot help.
        """
        while True:
            try:
                return closure()
            except torch.OutOfMemoryError as error:
                examples = counted_noun(self.num_examples, "example")
                has_processes = self.trainer.world_size > 1
                accumulates = self.trainer.accumulate_grad_batches > 1
                if has_processes or accumulates or self.num_parts >= self.num_examples:
                    raise MemoryError(
                        f"no room for {examples} at once: lower fit.batch_size or fit.batch_tokens"
                    ) from error
            # Here, behind the exception, the memory of the attempt is free.
            self.num_parts *= 2
            log.warning(
                "no room for %s at once: batches are read in %d parts, to the same steps",
                examples,
                self.num_parts,
            )

    def decoded(self, numbered: Numbered, split: str) -> list:
        try:
            return super().decoded(numbered, split)
        except torch.OutOfMemoryError:
            if len(numbered.numbers) == 1:
                raise
        self.layer_norms.read.clear()
        predicted = []
        for half in parted(numbered.numbers, 2):
            predicted += self.decoded(self._batch(split, half), split)
        return predicted

    def _batch(self, split: str, numbers: list[int]) -> Numbered:
        """Return a batch of these examples, as the loader and Lightning make it."""
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        batch = self.trainer.precision_plugin.convert_input(data.batch(split, numbers))
        return self.trainer.strategy.batch_to_device(batch)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_save_checkpoint(checkpoint)
        checkpoint["parts"] = self.num_parts

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        super().on_load_checkpoint(checkpoint)
        self.num_parts = max(1, int(checkpoint.get("parts", 1)))
