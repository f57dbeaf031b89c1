"""Linear scores, and attention and pooling (mean, maximum) over the tokens of a sequence.

Axes: B batch, N query tokens, M key tokens, H or I features, K scores.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn


class Scores(nn.Linear):
    """A linear layer that computes in its weights' type, even under autocast.

    Scores are compared and summed. The 8 bits of a bfloat16 would leave only a few dozen distinct
    scores, so that ties decide.
    """

    def forward(self, x: Float[Tensor, "*N I"]) -> Float[Tensor, "*N K"]:
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x.to(self.weight.dtype), self.weight, self.bias)


def masked_softmax(
    scores: Float[Tensor, "*N M"], mask: Bool[Tensor, "*#N M"]
) -> Float[Tensor, "*N M"]:
    """Return the softmax over the positions of the last axis where `mask` is true, 0 elsewhere.

    A row without true positions is 0 and has no gradient.

    >>> masked_softmax(torch.tensor([[1.0, 1.0, 9.0]]), torch.tensor([[True, True, False]]))
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask


def attend(
    scores: Float[Tensor, "B N M"], values: Float[Tensor, "B M H"], mask: Bool[Tensor, " B #N M"]
) -> Float[Tensor, "B N H"]:
    """Return each query's mean of the values, weighted by the softmax of its scores.

    `mask` marks the values that a query may attend to; one that may attend to none gets 0.
    """
    return masked_softmax(scores, mask) @ values


def masked_mean(x: Float[Tensor, "B M H"], mask: Bool[Tensor, "B M"]) -> Float[Tensor, "B H"]:
    """Return the mean over a sentence's words; 0 for a sentence without words."""
    return x.masked_fill(~mask[..., None], 0).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def masked_max(x: Float[Tensor, "B M H"], mask: Bool[Tensor, "B M"]) -> Float[Tensor, "B H"]:
    """Return each feature's maximum over a sentence's words; 0 for a sentence without words."""
    highest = x.masked_fill(~mask[..., None], torch.finfo(x.dtype).min).amax(1)
    return highest.masked_fill(~mask.any(1, keepdim=True), 0)
