"""The simplest head of text classification: a linear layer over one vector of each text, the
summary's or a pool of its words'.

Axes: B batch, T tokens, H features, K labels, or 1 number.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo_bench.bounds import Dropout
from elmo_bench.nn import Backbone, Mask, Scores, masked_max, masked_mean, masked_softmax

from .classifier import Classifier, ClassWeights
from .examples import Batch


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
