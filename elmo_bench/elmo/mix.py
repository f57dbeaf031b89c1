"""The task-specific mix of an encoder's layers (paper, equation 1): gamma * sum_j softmax(w)_j h_j.

An ablation is the same module with a shorter weight vector: the softmax of one weight is 1.
Axes: L layers, B batch, T tokens, D encoder.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

Choice = str | int | Sequence[int]  # "all" | "top" | "uniform" | j | [i, j, ...]
Norm = Literal["none", "batch", "word"]
Mask = Bool[Tensor, "B T"]  # true at words
EPSILON = 1e-12  # as in bilm-tf
WINDOW = 100  # training batches over which a layer's mean and variance are averaged


def chosen_layers(choice: Choice, num_layers: int) -> list[int]:
    """Return the layers that `elmo.mix` selects.

    >>> chosen_layers("top", 3), chosen_layers([0, 2], 3)
    ([2], [0, 2])
    """
    if choice in ("all", "uniform"):
        return list(range(num_layers))
    if choice == "top":
        return [num_layers - 1]
    layers: list[Any] = [choice] if isinstance(choice, int) else list(choice)
    distinct = set(layers)
    exist = distinct <= set(range(num_layers))
    if not layers or not exist or len(distinct) < len(layers):
        raise ValueError(
            f"elmo.mix={choice}, but it must be all, top, uniform, a layer or several layers; the "
            f"encoder has layers 0..{num_layers - 1}"
        )
    return layers


class ScalarMix(nn.Module):
    """Mix the layers of an encoder into one task-specific vector per token.

    `weights` are the logits of s_j over the chosen layers and `gamma` scales the result; with
    "uniform" all s_j are equal and only gamma is trained. `norm` selects the normalisation of each
    layer, without parameters: "none"; "word", each vector by its own mean and variance; "batch", by
    one mean and variance over all words of the batch (bilm-tf), and in evaluation by their running
    averages, so that a vector does not depend on its batch.
    """

    def __init__(self, num_layers: int, choice: Choice = "all", *, norm: Norm = "none") -> None:
        super().__init__()
        self.layers = chosen_layers(choice, num_layers)
        self.norm: Callable[[Tensor, Tensor], Tensor] | None = {
            "none": None,
            "batch": BatchNorm(len(self.layers)),
            "word": norm_each_word,
        }[norm]
        logits = torch.zeros(len(self.layers))
        self.weights = nn.Parameter(logits, requires_grad=choice != "uniform")
        self.gamma = nn.Parameter(torch.ones(()))

    def forward(self, chosen: Float[Tensor, "L B T D"], mask: Mask) -> Float[Tensor, "B T D"]:
        """Mix the layers `self.layers`, given in that order."""
        with torch.autocast(chosen.device.type, enabled=False):  # sums over a batch and over layers
            factors = (self.gamma * self.shares).to(self.weights.dtype)
            return torch.einsum("l,lbtd->btd", factors, self.normed(chosen, mask))

    def normed(self, chosen: Float[Tensor, "L B T D"], mask: Mask) -> Float[Tensor, "L B T D"]:
        """Return the layers as they are mixed, after normalisation."""
        layers = chosen.to(self.weights.dtype)
        return layers if self.norm is None else self.norm(layers, mask)

    @property
    def shares(self) -> Float[Tensor, " L"]:
        """Return s_j, the share of each chosen layer; they add up to 1, also of weights in bf16."""
        return self.weights.softmax(0, torch.promote_types(self.weights.dtype, torch.float32))

    def penalty(self) -> Float[Tensor, ""]:
        """Return the sum of w_j squared over the logits, without gamma."""
        return self.weights.square().sum()


class BatchNorm(nn.Module):
    """Normalise each layer by one mean and one standard deviation over all words of the batch.

    In evaluation both are running averages over the training batches: the plain mean of the first
    `WINDOW` batches, then an exponential average. Before the first training batch the statistics of
    the batch itself are used.
    """

    mean: Tensor
    variance: Tensor
    num_batches: Tensor

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(num_layers))
        self.register_buffer("variance", torch.ones(num_layers))
        self.register_buffer("num_batches", torch.zeros(()))

    def forward(self, layers: Float[Tensor, "L B T D"], mask: Mask) -> Float[Tensor, "L B T D"]:
        if self.training or not self.num_batches:
            mean, variance = moments(layers, mask)
        else:
            mean = self.mean
            variance = self.variance
        if self.training:
            self.num_batches += 1
            rate = (1 / self.num_batches).clamp(min=1 / WINDOW)
            self.mean.lerp_(mean.detach(), rate)
            self.variance.lerp_(variance.detach(), rate)
        shift = mean[:, None, None, None]
        scale = (variance + EPSILON).rsqrt()[:, None, None, None]
        return (layers - shift) * scale


def moments(
    layers: Float[Tensor, "L B T D"], mask: Mask
) -> tuple[Float[Tensor, " L"], Float[Tensor, " L"]]:
    """Return the mean and variance of each layer over all values of all words, without padding."""
    keep = mask[None, :, :, None].to(layers)
    count = keep.sum().clamp(min=1) * layers.shape[-1]
    mean = (layers * keep).sum((1, 2, 3)) / count
    variance = ((layers - mean[:, None, None, None]) * keep).square().sum((1, 2, 3)) / count
    return mean, variance


def norm_each_word(layers: Float[Tensor, "L B T D"], mask: Mask) -> Float[Tensor, "L B T D"]:
    """Normalise each vector by its own mean and standard deviation; `mask` has no effect."""
    return F.layer_norm(layers, layers.shape[-1:], eps=EPSILON)
