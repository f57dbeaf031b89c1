"""Variational dropout (Gal and Ghahramani 2016): one mask a sequence, the same at every step.

Axes: B batch, T tokens, H features.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def variational_dropout(
    x: Float[Tensor, "B T H"], p: float, training: bool
) -> Float[Tensor, "B T H"]:
    """Drop the same features at every step of a sequence."""
    if not training or p == 0:
        return x
    return x * F.dropout(torch.ones_like(x[:, :1]), p)
