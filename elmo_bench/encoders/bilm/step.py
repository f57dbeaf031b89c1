"""The arithmetic of an LSTM's step between its products: in C where `native.c` was built, else in
torch.

C reads and writes each number once, where torch goes over them some fifteen times forward and
thirty times backward. It is called at every step: checks of types, which tests have, would take
longer than it does.

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
    """From W_h h, which it may overwrite, and W_x x + b to the new `cell`, sigmoid(o) tanh(c) in
    `gated`, and in `gates`, if wanted, sigmoid(i), tanh(j), sigmoid(f) and sigmoid(o).

    `rows` says which of the inputs each row has; None: its own. `before` may be `cell`, and `gates`
    may be `inputs`.
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
    """From the gradients of `gated` and of the cell to that of the cell before, in place, and to
    `grad_gates`, before they were squashed; also `gated` once more. `grad_bias` grows by their sum.
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
    """tanh(x) = 2 sigmoid(2 x) - 1: torch computes the sigmoid ten times faster."""
    return torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)


@no_type_check
def _fits(low: Sequence[Tensor], wide: Sequence[Tensor]) -> bool:
    """Whether C takes these: float32 and, all `low` ones alike, bfloat16; dense, on a CPU."""
    dtype = low[0].dtype
    if dtype not in (torch.float32, torch.bfloat16):
        return False
    for tensors, wanted in ((low, dtype), (wide, torch.float32)):
        for tensor in tensors:
            if tensor.dtype != wanted or not native.takes(tensor):
                return False
    return True
