"""The data types of stored layers.

Axes: D encoder, W numbers that a vector takes in a store.
"""

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

SCALE_BYTES = 4  # of the float32 behind an int8 vector
TINY = torch.finfo(torch.float32).tiny


def width(dim: int, dtype: str) -> int:
    """Return W for vectors of D numbers."""
    return dim + SCALE_BYTES if dtype == "int8" else dim


def row_bytes(dim: int, dtype: str) -> int:
    """Return how many bytes a vector of D numbers takes."""
    return width(dim, dtype) * getattr(torch, dtype).itemsize


def pack(vectors: Float[Tensor, "*N D"], dtype: str) -> Shaped[Tensor, "*N W"]:
    """Round vectors to a type: floats to the nearest one, int8 to the nearest multiple of a scale.

    The scale of an int8 vector is a 127th of its largest absolute value, and its bytes stand behind
    it: a number moves by at most a 254th of the largest one of its vector, and 0 stays 0.
    """
    if dtype != "int8":
        return vectors.to(getattr(torch, dtype))
    vectors = vectors.float()
    scale = (vectors.abs().amax(-1, keepdim=True) / 127).clamp(min=TINY)
    return torch.cat([(vectors / scale).round().to(torch.int8), scale.view(torch.int8)], -1)


def unpack(packed: Shaped[Tensor, "*N W"]) -> Float[Tensor, "*N D"]:
    """Return the vectors: int8 ones as float32, others in their type."""
    if packed.is_floating_point():
        return packed
    scale = packed[..., -SCALE_BYTES:].contiguous().view(torch.float32)
    return packed[..., :-SCALE_BYTES] * scale
