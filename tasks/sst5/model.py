"""The biattentive classification network (BCN, McCann et al. 2017) over a single sentence.

Axes: B batch, T tokens, H features, I and O inputs and outputs of a layer, K labels.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from elmo_bench.files import Dropout, Size
from elmo_bench.nn import Backbone, BiLstm, Scores, attend, masked_max, masked_mean, masked_softmax

from .data import Batch


class Maxout(Scores):
    """Each output is the maximum of `pool` linear functions (Goodfellow et al. 2013)."""

    def __init__(self, input_size: int, output_size: int, *, pool: int) -> None:
        super().__init__(input_size, output_size * pool)
        self.pool = pool

    def forward(self, x: Float[Tensor, "B I"]) -> Float[Tensor, "B O"]:
        return super().forward(x).unflatten(-1, (-1, self.pool)).amax(-1)


class SelfAttentivePool(nn.Module):
    """The mean of a sentence's vectors, weighted by a softmax over learned linear scores."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.score = Scores(size, 1)

    def forward(self, x: Float[Tensor, "B T H"], mask: Bool[Tensor, "B T"]) -> Float[Tensor, "B H"]:
        shares = masked_softmax(self.score(x).squeeze(-1), mask)
        return (shares[..., None] * x).sum(1)


class Bcn(nn.Module):
    """Backbone -> self-attention -> BiLSTM -> max, min, mean, self-attentive pool -> feed-forward.

    Hidden layers use ReLU as in Peters et al. (2018), or maxout over `maxout` units as in McCann et
    al. (2017). `dropouts` are the rates before each layer of `layer_sizes` and before the output
    layer.
    With `hidden_size=None`, the model is linear: backbone -> mean -> first dropout -> linear.
    """

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        hidden_size: Size | None,
        layer_sizes: Sequence[Size],
        dropouts: Sequence[Dropout],
        maxout: Size | None = None,
    ) -> None:
        super().__init__()
        self.backbone, self.labels = backbone(), list(labels)
        self.is_linear = hidden_size is None
        if hidden_size is None:
            self.classifier = _classifier([self.backbone.dim, len(labels)], dropouts[:1], None)
            return
        self.integrator = BiLstm(input_size=3 * self.backbone.dim, hidden_size=hidden_size)
        self.attentive_pool = SelfAttentivePool(self.integrator.dim)
        sizes = [4 * self.integrator.dim, *layer_sizes, len(self.labels)]
        self.classifier = _classifier(sizes, dropouts, maxout)

    def forward(self, batch: Batch) -> Float[Tensor, "B K"]:
        mask = batch.tokens.mask
        x = self.backbone(batch.tokens)
        pooled = masked_mean(x, mask) if self.is_linear else self._integrated(x, mask)
        return self.classifier(pooled)

    def _integrated(
        self, x: Float[Tensor, "B T H"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B _"]:
        """Attend from the sentence to itself, run the integrator and pool in four ways."""
        context = attend(x @ x.mT, x, mask[:, None])
        x = self.integrator(torch.cat([x, x - context, x * context], -1), mask)
        pooled = [
            masked_max(x, mask),
            -masked_max(-x, mask),
            masked_mean(x, mask),
            self.attentive_pool(x, mask),
        ]
        return torch.cat(pooled, -1)

    def loss(self, scores: Float[Tensor, "B K"], batch: Batch) -> Float[Tensor, ""]:
        """Return the cross-entropy, averaged over the batch."""
        return F.cross_entropy(scores, batch.labels)

    def decode(self, scores: Float[Tensor, "B K"], batch: Batch) -> list[str]:
        """Return the highest-scoring label of each example."""
        return [self.labels[number] for number in scores.argmax(-1).tolist()]


def _classifier(
    sizes: Sequence[int], dropouts: Sequence[float], maxout: int | None
) -> nn.Sequential:
    """Return layers with dropout before each: maxout layers or, without `maxout`, ReLU layers and a
    linear output layer.
    """
    if len(dropouts) != len(sizes) - 1:
        raise ValueError(
            f"task.model.dropouts={list(dropouts)}: {len(dropouts)} values, but there must be "
            f"{len(sizes) - 1}, one before each layer of the classifier"
        )
    layers: list[nn.Module] = []
    for (before, after), dropout in zip(pairwise(sizes), dropouts, strict=True):
        layers.append(nn.Dropout(dropout))
        if maxout:
            layers.append(Maxout(before, after, pool=maxout))
        else:
            layers += [Scores(before, after), nn.ReLU()]
    return nn.Sequential(*(layers if maxout else layers[:-1]))
