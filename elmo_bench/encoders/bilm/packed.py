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
    """x -> x W' + b, in W's type; a large W on a CPU is packed, if torch has its operators."""

    def __init__(
        self,
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None = None,
        *,
        pack: bool = True,
    ) -> None:
        super().__init__()
        self.dtype, self.bias = weight.dtype, None if bias is None else bias.to(weight.dtype)
        self.is_packed = pack and weight.is_cpu and weight.numel() >= LARGE and _packs(self.dtype)
        if self.is_packed:
            weight = torch.ops.mkldnn._reorder_linear_weight(weight)
        elif self.dtype == torch.bfloat16:  # products with a matrix's columns are slow there
            weight = weight.contiguous()
        self.weight = weight

    def forward(self, x: Float[Tensor, "N I"]) -> Float[Tensor, "N O"]:
        operands = x.to(self.dtype), self.weight, self.bias
        if self.is_packed:
            return torch.ops.mkldnn._linear_pointwise(*operands, "none", [], "").to(x.dtype)
        return F.linear(*operands).to(x.dtype)


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
