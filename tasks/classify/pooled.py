"""What the heads of text classification share, the loss and the decision; and the simplest head, a
linear layer over one vector of each text: the summary's, or a pool of its words'.

Axes: B batch, T tokens, H features, K labels, or 1 number.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from elmo_bench.bounds import Dropout, Positive
from elmo_bench.nn import Backbone, Mask, Scores, TaskModel, masked_max, masked_mean, masked_softmax
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


class SelfAttentivePool(nn.Module):
    """The mean of a sentence's vectors, weighted by a softmax over learned linear scores."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.score = Scores(size, 1)

    def forward(self, x: Float[Tensor, "B T H"], mask: Mask) -> Float[Tensor, "B H"]:
        shares = masked_softmax(self.score(x).squeeze(-1), mask)
        return (shares[..., None] * x).sum(1)


class Pooled(Classifier):
    """Backbone -> pool -> dropout -> linear.

    The vectors u and v of a `pair` of texts become [u; v; |u - v|; u * v] (Conneau et al. 2017,
    section 3.1). With `joint`, both are one sentence with a summary, whose vector is the `first`
    (Devlin et al. 2019, section 4.1); the other pools leave out the summary and the break between
    the texts. Without `joint` there is no summary, and `first` is the mean.
    """

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        pool: Literal["first", "mean", "max", "attention"],
        dropout: Dropout,
        pair: Any = False,
        joint: bool = False,
        class_weights: ClassWeights = None,
    ) -> None:
        super().__init__(backbone, labels, class_weights)
        self.num_texts = 2 if pair and not joint else 1
        dim = self.backbone.dim
        self.pool: Callable[..., Tensor]
        if pool == "attention":
            self.pool = SelfAttentivePool(dim)
        elif pool == "max":
            self.pool = masked_max
        elif pool == "first" and joint:
            self.pool = _first
        elif pool in ("first", "mean"):  # without a summary, the first is the mean
            self.pool = masked_mean
        else:
            raise ValueError(
                f"task.model.pool={pool}, but it must be first, mean, max or attention"
            )
        width = dim if self.num_texts == 1 else 4 * dim
        self.classifier = nn.Sequential(nn.Dropout(dropout), Scores(width, self.num_scores))

    def scores(self, batch: Batch) -> Float[Tensor, "B K"]:
        u = self.pool(self.backbone(batch.first), batch.is_word)
        if batch.second is not None:
            v = self.pool(self.backbone(batch.second), batch.second.mask)
            u = torch.cat([u, v, (u - v).abs(), u * v], -1)
        return self.classifier(u)


def _first(x: Float[Tensor, "B T H"], mask: Mask) -> Float[Tensor, "B H"]:
    """Return the vector of the first word, the summary's."""
    return x[:, 0]
