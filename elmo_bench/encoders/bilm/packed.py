"""Products with weights packed for oneDNN: with few rows, more than twice as fast on a CPU.

Axes: N rows of a product, I and O the weight's two sides.
"""

import functools
import logging
import platform

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

LARGE = 1 << 17  # packing pays from this number of elements of a weight on
log = logging.getLogger(__name__)


@functools.cache
def warn_of_bfloat16(setting: str) -> None:
    """Warn once if the CPU lacks bfloat16 instructions, which makes products slower, not faster."""
    if not multiplies_bfloat16():
        log.warning(
            "%s: this processor has no bfloat16 instructions, so bfloat16 is slower and "
            "less exact here than float32; remove the setting",
            setting,
        )


def multiplies_bfloat16() -> bool:
    """Whether the processor has instructions for bfloat16 products; true for others than x86."""
    if platform.machine().lower() not in ("x86_64", "amd64"):
        return True
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


class PackedLinear(nn.Module):
    """x -> x W' + b, computed in W's type and returned in x's.

    A large W on a CPU is packed, if torch has the oneDNN operators of its compiler.
    """

    def __init__(
        self, weight: Float[Tensor, "O I"], bias: Float[Tensor, " O"] | None = None
    ) -> None:
        super().__init__()
        # Products with the columns of a matrix are slow in bfloat16.
        self.weight = weight.contiguous() if weight.dtype == torch.bfloat16 else weight
        self.packed = None
        self.bias = None if bias is None else bias.to(weight.dtype)
        fit = weight.device.type == "cpu" and weight.dtype in (torch.float32, torch.bfloat16)
        if fit and weight.numel() >= LARGE and torch.backends.mkldnn.is_available():
            try:
                self.packed = torch.ops.mkldnn._reorder_linear_weight(weight)
                self(weight.new_zeros(1, weight.shape[1]))
            except (AttributeError, RuntimeError, TypeError):  # operators missing or changed
                self.packed = None
                return
            del self.weight

    def forward(self, x: Float[Tensor, "N I"]) -> Float[Tensor, "N O"]:
        if self.packed is None:
            return F.linear(x.to(self.weight.dtype), self.weight, self.bias).to(x.dtype)
        return torch.ops.mkldnn._linear_pointwise(
            x.to(self.packed.dtype), self.packed, self.bias, "none", [], ""
        ).to(x.dtype)
