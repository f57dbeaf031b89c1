"""Normalisation of an encoder's layers before their mix (`elmo.norm`), without parameters.

Axes: L layers, B batch, T tokens, D encoder.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

EPSILON = 1e-12  # as in bilm-tf
WINDOW = 100  # training batches over which a layer's mean and variance are averaged


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

    def forward(
        self, layers: Float[Tensor, "L B T D"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "L B T D"]:
        mean, variance = self.mean, self.variance
        if self.training or not self.num_batches:
            mean, variance = moments(layers, mask)
        if self.training:
            self.num_batches += 1
            rate = (1 / self.num_batches).clamp(min=1 / WINDOW)
            self.mean.lerp_(mean.detach(), rate)
            self.variance.lerp_(variance.detach(), rate)
        shift, scale = mean[:, None, None, None], (variance + EPSILON).rsqrt()[:, None, None, None]
        return (layers - shift) * scale


def moments(
    layers: Float[Tensor, "L B T D"], mask: Bool[Tensor, "B T"]
) -> tuple[Float[Tensor, " L"], Float[Tensor, " L"]]:
    """Return the mean and variance of each layer over all values of all words, without padding."""
    keep = mask[None, :, :, None].to(layers)
    count = keep.sum().clamp(min=1) * layers.shape[-1]
    mean = (layers * keep).sum((1, 2, 3)) / count
    variance = ((layers - mean[:, None, None, None]) * keep).square().sum((1, 2, 3)) / count
    return mean, variance


def norm_each_word(
    layers: Float[Tensor, "L B T D"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "L B T D"]:
    """Normalise each vector by its own mean and standard deviation; `mask` has no effect."""
    return F.layer_norm(layers, layers.shape[-1:], eps=EPSILON)
