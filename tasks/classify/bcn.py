"""The biattentive classification network (BCN, McCann et al. 2017) over a single sentence.

Axes: B batch, T tokens, H features, I and O inputs and outputs of a layer, K labels.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo_bench.bounds import Dropout, Size
from elmo_bench.nn import Backbone, BiLstm, Scores, attend, masked_max, masked_mean

from .classifier import Classifier, ClassWeights
from .examples import Batch
from .pooled import SelfAttentivePool


class Maxout(Scores):
    """Each output is the maximum of `pool` linear functions (Goodfellow et al. 2013)."""

    def __init__(self, input_size: int, output_size: int, *, pool: int) -> None:
        super().__init__(input_size, output_size * pool)
        self.pool = pool

    def forward(self, x: Float[Tensor, "B I"]) -> Float[Tensor, "B O"]:
        return super().forward(x).unflatten(-1, (-1, self.pool)).amax(-1)


class Bcn(Classifier):
    """Backbone -> self-attention -> BiLSTM -> max, min, mean, self-attentive pool -> feed-forward.

    Hidden layers use ReLU as in Peters et al. (2018), or maxout over `maxout` units as in McCann et
    al. (2017). `dropouts` are the rates before each layer of `layer_sizes` and before the output
    layer.
    """

    needs_joint = False

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        hidden_size: Size,
        layer_sizes: Sequence[Size],
        dropouts: Sequence[Dropout],
        maxout: Size | None = None,
        class_weights: ClassWeights = None,
    ) -> None:
        super().__init__(backbone, labels, class_weights)
        self.integrator = BiLstm(input_size=3 * self.backbone.dim, hidden_size=hidden_size)
        self.attentive_pool = SelfAttentivePool(self.integrator.dim)
        sizes = [4 * self.integrator.dim]
        sizes.extend(layer_sizes)
        sizes.append(self.num_scores)
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
                layers.append(Scores(before, after))
                layers.append(nn.ReLU())
        if not maxout:
            layers.pop()  # the output layer is linear
        self.classifier = nn.Sequential(*layers)

    def scores(self, batch: Batch) -> Float[Tensor, "B K"]:
        """Attend from the sentence to itself, run the integrator and pool in four ways."""
        x = self.backbone(batch.first)
        mask = batch.first.mask
        context = attend(x @ x.mT, x, mask[:, None])
        x = self.integrator(torch.cat([x, x - context, x * context], -1), mask)
        highest = masked_max(x, mask)
        lowest = -masked_max(-x, mask)
        mean = masked_mean(x, mask)
        weighted = self.attentive_pool(x, mask)
        return self.classifier(torch.cat([highest, lowest, mean, weighted], -1))
