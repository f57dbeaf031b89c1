"""Products with weights packed for oneDNN: with few rows, more than twice as fast on a CPU.

Axes: N rows of a product, I and O the weight's two sides.
"""

import functools

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

LARGE = 1 << 17  # packing pays from this number of elements of a weight on


class PackedLinear(nn.Module):
    """x -> x W' + b, computed in W's type and returned in x's.

    A large W on a CPU is packed, if torch has the oneDNN operators of its compiler.
    """

    def __init__(
        self,
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None = None,
        *,
        pack: bool = True,
    ) -> None:
        super().__init__()
        # Products with the columns of a matrix are slow in bfloat16.
        self.weight = weight.contiguous() if weight.dtype == torch.bfloat16 else weight
        self.packed = None
        self.bias = None if bias is None else bias.to(weight.dtype)
        if pack and weight.is_cpu and weight.numel() >= LARGE and _packs(weight.dtype):
            self.packed = torch.ops.mkldnn._reorder_linear_weight(weight)
            del self.weight

    def forward(self, x: Float[Tensor, "N I"]) -> Float[Tensor, "N O"]:
        if self.packed is None:
            return F.linear(x.to(self.weight.dtype), self.weight, self.bias).to(x.dtype)
        return torch.ops.mkldnn._linear_pointwise(
            x.to(self.packed.dtype), self.packed, self.bias, "none", [], ""
        ).to(x.dtype)


@functools.cache
def _packs(dtype: torch.dtype) -> bool:
    """Whether torch has these operators of its compiler, for this type, on this processor."""
    weight = torch.zeros(16, 16, dtype=dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        torch.ops.mkldnn._linear_pointwise(weight, packed, None, "none", [], "")
    except (AttributeError, RuntimeError, TypeError):
        return False
    return dtype in (torch.float32, torch.bfloat16)
