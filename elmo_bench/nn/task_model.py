"""The contract of all tasks' models."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from .backbone import Backbone


class TaskModel(nn.Module, ABC):
    """A model that makes predictions for the batches of a task; every task's model inherits it.

    A model sets `backbone`, and has the three methods that are abstract here; the rest has
    defaults.
    """

    backbone: Backbone
    sums_losses: bool = False  # whether `loss` is a sum over the examples of a batch
    needs_joint: bool | None = None  # true: it reads only joined texts (`task.joint`); false: none

    @abstractmethod
    def forward(self, batch: Any) -> Any:
        """Return the scores of a task's batch."""

    @abstractmethod
    def loss(self, scores: Any, batch: Any) -> Tensor:
        """Return the loss: the mean over the examples, or their sum if the model sums losses."""

    @abstractmethod
    def decode(self, scores: Any, batch: Any) -> list[Any]:
        """Return the prediction for each example."""

    def observe(self, examples: Sequence[Any]) -> None:
        """Look at the examples of training, once before it; by default nothing is done."""
