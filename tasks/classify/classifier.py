"""What the heads of text classification share: the loss and the decision.

Axes: B batch, K labels, or 1 number.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from elmo_bench.bounds import Positive
from elmo_bench.nn import Backbone, TaskModel
from elmo_bench.terminal import counted_noun

from .examples import Batch, Example

ClassWeights = Mapping[str, Positive] | Literal["balanced"] | None


class Classifier(TaskModel):
    """Scores of labels, or without labels one number, which makes it a regression.

    `class_weights` multiply the losses of examples by their gold label; those of labels without one
    stay as they are. `balanced` gives all labels the same total: (examples of training) / (labels *
    examples of the label). A head has `scores`, and `num_texts`, how many of an example it reads.
    """

    num_texts = 1

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        class_weights: ClassWeights = None,
    ) -> None:
        super().__init__()
        self.backbone = backbone()
        self.labels = list(labels)
        self.num_scores = len(self.labels) or 1
        self.is_balanced = class_weights == "balanced"
        self.class_weights: Tensor | None
        self.register_buffer("class_weights", _weights(class_weights, self.labels))

    def scores(self, batch: Batch) -> Float[Tensor, "B K"]:
        """Return the score of each label, or the number."""
        raise NotImplementedError

    def forward(self, batch: Batch) -> Float[Tensor, "B K"]:
        self._check(1 if batch.second is None else 2, "an example")
        return self.scores(batch)

    def observe(self, examples: Sequence[Example]) -> None:
        """Count the labels of training, before it; ValueError for another number of texts."""
        self._check(len(examples[0].sentences), examples[0].source)
        if self.is_balanced and self.class_weights is not None:
            counts = Counter(example.gold for example in examples)
            # A label that only other examples have weighs as much as one of a single example.
            numbers = torch.tensor([max(counts[label], 1) for label in self.labels])
            self.class_weights.copy_(len(examples) / (len(self.labels) * numbers))

    def _check(self, number: int, source: str) -> None:
        if number != self.num_texts:
            head = type(self).__name__.lower()
            raise ValueError(
                f"{source}: {counted_noun(number, 'text')} to read apart, but head={head} reads "
                f"{self.num_texts} here: choose another head, or other data.columns"
            )

    def loss(self, scores: Float[Tensor, "B K"], batch: Batch) -> Float[Tensor, ""]:
        """Return the cross-entropy, or of numbers the squared error, averaged over the batch."""
        if not self.labels:
            return F.mse_loss(scores.squeeze(-1), batch.gold)
        # The mean would divide by the sum of the weights, and so cancel them in a small batch.
        total = F.cross_entropy(scores, batch.gold, self.class_weights, reduction="sum")
        return total / len(scores)

    def decode(self, scores: Float[Tensor, "B K"], batch: Batch) -> list[str] | list[float]:
        """Return the highest-scoring label of each example, or its number."""
        if not self.labels:
            return scores.squeeze(-1).tolist()
        return [self.labels[number] for number in scores.argmax(-1).tolist()]


def _weights(given: ClassWeights, labels: Sequence[str]) -> Float[Tensor, " K"] | None:
    """Return the weight of each label, 1 for one without a weight; ValueError for other labels."""
    if given is None:
        return None
    weights = {}
    if not isinstance(given, str):  # else "balanced", which `observe` counts
        weights = {str(label): weight for label, weight in given.items()}
    unknown = sorted(weights.keys() - labels)
    if unknown or not labels:
        raise ValueError(
            f"task.model.class_weights={given}, but "
            f"the labels are {', '.join(labels) or 'numbers, which have none'}"
        )
    return torch.tensor([weights.get(label, 1.0) for label in labels])
