"""What a model takes from a sequence: attention over its tokens, their mean, their maximum.

Axes: B batch, N tokens that look, M tokens that are looked at, H features.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def masked_softmax(
    scores: Float[Tensor, "*N M"], mask: Bool[Tensor, "*#N M"]
) -> Float[Tensor, "*N M"]:
    """Softmax over the last axis where `mask` is true, 0 elsewhere.

    Where nothing is true, all is 0, without a gradient.

    >>> masked_softmax(torch.tensor([[1.0, 1.0, 9.0]]), torch.tensor([[True, True, False]]))
    tensor([[0.5000, 0.5000, 0.0000]])
    """
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(-1) * mask


def attend(
    scores: Float[Tensor, "B N M"], values: Float[Tensor, "B M H"], mask: Bool[Tensor, "B #N M"]
) -> Float[Tensor, "B N H"]:
    """For each of N tokens the mean of the values, weighted by the softmax of its scores.

    `mask` says which values may be looked at: by all tokens alike ("B 1 M", so `mask[:, None]`), or
    by each of its own.
    """
    return masked_softmax(scores, mask) @ values


def dot_attention(
    queries: Float[Tensor, "B N H"], values: Float[Tensor, "B M H"], mask: Bool[Tensor, "B M"]
) -> Float[Tensor, "B N H"]:
    """`attend` with dot products as scores; `mask` says which values are words."""
    return attend(queries @ values.mT, values, mask[:, None])


def masked_mean(x: Float[Tensor, "B M H"], mask: Bool[Tensor, "B M"]) -> Float[Tensor, "B H"]:
    """The mean over a sentence's words; 0 for a sentence without any."""
    return x.masked_fill(~mask[..., None], 0).sum(1) / mask.sum(1, keepdim=True).clamp(min=1)


def masked_max(x: Float[Tensor, "B M H"], mask: Bool[Tensor, "B M"]) -> Float[Tensor, "B H"]:
    """Each feature's maximum over a sentence's words; 0 for a sentence without any."""
    highest = x.masked_fill(~mask[..., None], torch.finfo(x.dtype).min).amax(1)
    return highest.masked_fill(~mask.any(1, keepdim=True), 0)
