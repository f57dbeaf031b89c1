"""The pointwise operations of an LSTM step on a CPU, in C if `native.c` was built, else in torch.

C reads and writes each number once; torch makes about fifteen passes forward and thirty backward.
These functions check no types: the checks, which the tests make, would take longer than the work.

Axes: N rows, Z cell, G gates (4 Z: i, j, f, o), U different rows.
"""

from collections.abc import Sequence
from typing import no_type_check

import torch
from jaxtyping import Float, Int
from torch import Tensor

from . import native
from .native import address


@no_type_check
def forward(
    product: Float[Tensor, "N G"],
    inputs: Float[Tensor, "U G"],
    rows: Int[Tensor, " N"] | None,
    before: Float[Tensor, "N Z"],
    gates: Float[Tensor, "N G"] | None,
    cell: Float[Tensor, "N Z"],
    gated: Float[Tensor, "N Z"],
    clip: float,
) -> None:
    """Compute a step from W_h h, which may be overwritten, and W_x x + b.

    Writes the new cell to `cell`, sigmoid(o) tanh(c) to `gated` and, unless it is None, sigmoid(i),
    tanh(j), sigmoid(f) and sigmoid(o) to `gates`. `rows` maps each row to its row of `inputs`; None
    means the same row. `before` may be `cell`, and `gates` may be `inputs`.
    """
    low, wide = (product, inputs, gated), [before, cell, *([] if gates is None else [gates])]
    if native.LIBRARY and _fits(low, wide):
        native.LIBRARY.elmo_step_forward(
            *cell.shape,
            *map(address, (product, inputs, rows, before, gates, cell, gated)),
            clip,
            product.dtype == torch.bfloat16,
            torch.get_num_threads(),
        )
        return
    inputs = inputs if rows is None else inputs[rows]
    if gates is None:
        gates = product.to(cell.dtype).add_(inputs)
    else:
        torch.add(product.to(cell.dtype), inputs, out=gates)
    i, j, f, o = gates.chunk(4, 1)
    j.mul_(2)
    gates.sigmoid_()
    j.mul_(2).sub_(1)
    torch.mul(f, before, out=cell).addcmul_(i, j).clamp_(-clip, clip)
    gated.copy_(_tanh(cell).mul_(o))


@no_type_check
def backward(
    gates: Float[Tensor, "N G"],
    cell: Float[Tensor, "N Z"],
    before: Float[Tensor, "N Z"],
    grad_gated: Float[Tensor, "N Z"],
    grad_cell: Float[Tensor, "N Z"],
    grad_gates: Float[Tensor, "N G"],
    gated: Float[Tensor, "N Z"],
    grad_bias: Float[Tensor, " G"],
    clip: float,
) -> None:
    """Compute a step's gradient from the gradients of `gated` and of the cell.

    The gradient of the previous cell replaces that of the cell. Writes the gradients of the gates
    before the nonlinearity to `grad_gates`, adds their sum to `grad_bias`, and recomputes `gated`.
    """
    low, wide = (grad_gated, grad_gates, gated), (gates, cell, before, grad_cell, grad_bias)
    if native.LIBRARY and _fits(low, wide):
        native.LIBRARY.elmo_step_backward(
            *cell.shape,
            *map(address, (gates, cell, before, grad_gated)),
            *map(address, (grad_cell, grad_gates, gated, grad_bias)),
            clip,
            gated.dtype == torch.bfloat16,
            torch.get_num_threads(),
        )
        return
    i, j, f, o = gates.chunk(4, 1)
    squashed, grad_gated = _tanh(cell), grad_gated.to(cell.dtype)
    through = squashed * o
    gated.copy_(through)
    grad_cell.addcmul_(grad_gated, torch.addcmul(o, through, squashed, value=-1))
    grad_cell.mul_(cell.abs() < clip)
    grads = torch.cat(
        [grad_cell * j, grad_cell * i, grad_cell * before, grad_gated * squashed], dim=1
    )
    slopes = torch.addcmul(gates, gates, gates, value=-1)
    torch.addcmul(torch.ones_like(j), j, j, value=-1, out=slopes.chunk(4, 1)[1])
    grads.mul_(slopes)
    grad_gates.copy_(grads)
    grad_bias.add_(grads.sum(0))
    grad_cell.mul_(f)


def _tanh(x: Tensor) -> Tensor:
    """Return tanh(x) = 2 sigmoid(2 x) - 1, since torch's sigmoid is ten times faster than tanh."""
    return torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)


@no_type_check
def _fits(low: Sequence[Tensor], wide: Sequence[Tensor]) -> bool:
    """Whether C accepts the tensors: contiguous, on a CPU, `wide` in float32, `low` in one of
    float32 and bfloat16.
    """
    dtype = low[0].dtype
    if dtype not in (torch.float32, torch.bfloat16):
        return False
    for tensors, wanted in ((low, dtype), (wide, torch.float32)):
        for tensor in tensors:
            if tensor.dtype != wanted or not native.takes(tensor):
                return False
    return True
