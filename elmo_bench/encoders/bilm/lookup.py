"""The character CNN's convolutions by table lookup, in C if it was built: many times faster.

There are only 262 characters, so the contribution of each character to each filter and tap is
computed once. An output is then the sum of one row for each tap. The gradient reaches only the
position of each filter's maximum, while a convolution's gradient visits all positions.

Axes: N words, C characters, K taps of a filter, F filters, V size of the alphabet, E a character's
vector.
"""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import native
from .bilm import CharCnn
from .native import address


class LookupCnn(CharCnn):
    """A faster `CharCnn` with the same numbers."""

    def highest(self, chars: Int[Tensor, "N C"]) -> Float[Tensor, "N F"]:
        weight = self.embedding.weight
        if not _reads(chars, weight) or torch.compiler.is_compiling():
            return super().highest(chars)
        widest = max(convolution.kernel_size[0] for convolution in self.convolutions)
        if chars.shape[1] < widest or chars.min() < 0 or chars.max() >= len(weight):
            return super().highest(chars)  # raises the errors
        chars = chars.long().contiguous()
        # Character 0 is padding and gets no gradient.
        vectors = torch.cat([weight[:1].detach(), weight[1:]])
        highest = []
        with torch.autocast("cpu", enabled=False):
            for convolution in self.convolutions:
                filters = convolution.weight.permute(1, 2, 0)  # "E K F"
                table = (vectors @ filters.flatten(1)).view(len(vectors), *filters.shape[1:])
                highest.append(_Lookup.apply(chars, table) + convolution.bias)
        return torch.cat(highest, -1)


def _reads(chars: Tensor, weight: Tensor) -> bool:
    """Whether the library was built, and the tensors are on a CPU and not empty."""
    fit = weight.dtype == torch.float32 and native.takes(weight) and chars.is_cpu
    return native.LIBRARY is not None and fit and len(chars) > 0


class _Lookup(torch.autograd.Function):
    """(chars, table) -> the maximum over positions of each filter's output, without bias."""

    @staticmethod
    def forward(
        ctx: Any, chars: Int[Tensor, "N C"], table: Float[Tensor, "V K F"]
    ) -> Float[Tensor, "N F"]:
        shape, threads = (*chars.shape, *table.shape[1:]), torch.get_num_threads()
        highest = table.new_empty(len(chars), table.shape[2])
        where = torch.empty_like(highest, dtype=torch.int32) if ctx.needs_input_grad[1] else None
        tensors = chars, table.contiguous(), highest, where
        assert native.LIBRARY
        native.LIBRARY.elmo_lookup(*shape, *map(address, tensors), threads)
        if where is not None:
            ctx.save_for_backward(chars, where)
            ctx.shape = table.shape
        return highest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[None, Float[Tensor, "V K F"]]:
        chars, where = ctx.saved_tensors
        grad_table = grad.new_zeros(ctx.shape)
        tensors, threads = (chars, where, grad.contiguous(), grad_table), torch.get_num_threads()
        assert native.LIBRARY
        shape = *chars.shape, *ctx.shape[1:]
        native.LIBRARY.elmo_lookup_gradient(*shape, *map(address, tensors), threads)
        return None, grad_table
