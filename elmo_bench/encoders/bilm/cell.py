"""The pointwise half of an LSTM step, and its gradient: all that is no product.

One Triton kernel each on a GPU (`kernels.py`); elsewhere, and where Triton is absent or cannot
compile, torch's own operations. Everything is written in place, into the caller's memory.

Axes: R directions, N rows, Z cell, G gates (4 Z, in blocks i, j, f, o).
"""

import functools
import logging
import os
from types import ModuleType

import torch
from jaxtyping import Float
from torch import Tensor

from .bilm import FORGET_BIAS

FUSED = torch.float32, torch.bfloat16, torch.float16  # what the kernels read and write
log = logging.getLogger(__name__)


def step(
    z: Float[Tensor, "R N G"],
    before: Float[Tensor, "R N Z"],
    after: Float[Tensor, "R N Z"],
    gated: Float[Tensor, "R N Z"],
    clip: float,
    *,
    keep: bool = False,
) -> None:
    """From z (that of `bilm.ProjectedLstm`; the forget bias comes here) and the cell before: the
    cell `after`, which may be the same memory, and sigmoid(o) tanh(c) in `gated`.

    `keep` leaves the squashed gates in z, for the gradient; else what stands there is of no use.
    """
    if kernels := fused(z):
        kernels.step(z, before, after, gated, clip, keep=keep)
        return
    gates = z.to(before.dtype)
    i, j, f, o = gates.chunk(4, -1)
    f.add_(FORGET_BIAS)
    for gate in (i, f, o):
        gate.sigmoid_()
    j.tanh_()
    torch.mul(before, f, out=after).addcmul_(i, j).clamp_(-clip, clip)
    gated.copy_(after.tanh().mul_(o))
    if keep:
        z.copy_(gates)


def gradient(
    z: Float[Tensor, "R N G"],
    before: Float[Tensor, "R N Z"],
    after: Float[Tensor, "R N Z"],
    gated: Float[Tensor, "R N Z"],
    grad_z: Float[Tensor, "R N G"],
    grad_gated: Float[Tensor, "R N Z"],
    grad_c: Float[Tensor, "R N Z"],
    clip: float,
) -> None:
    """`grad_z` of a step that was kept; `grad_c` goes from the cell after to the cell before, and
    `gated` is computed again.
    """
    if kernels := fused(z):
        kernels.gradient(z, before, after, gated, grad_z, grad_gated, grad_c, clip)
        return
    i, j, f, o = z.to(before.dtype).chunk(4, -1)
    tanh_c = after.tanh()
    grad = grad_c + grad_gated * o * (1 - tanh_c**2)
    grad = torch.where(after.abs() >= clip, 0, grad)
    gated.copy_(o * tanh_c)
    grad_c.copy_(grad * f)
    grad_i, grad_j = grad * j * i * (1 - i), grad * i * (1 - j**2)
    grad_f, grad_o = grad * before * f * (1 - f), grad_gated * tanh_c * o * (1 - o)
    grad_z.copy_(torch.cat([grad_i, grad_j, grad_f, grad_o], -1))


def fused(z: Tensor) -> ModuleType | None:
    """The kernels, where they run: on a GPU, or anywhere by Triton's interpreter."""
    here = z.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return _kernels(z.device) if here and z.dtype in FUSED else None


@functools.cache
def _kernels(device: torch.device) -> ModuleType | None:
    """The kernels, after one small try: Triton compiles them, for which it needs a C compiler and
    a GPU that it knows.
    """
    try:
        from . import kernels  # importing Triton takes time that only a GPU pays back

        z, c = torch.zeros(1, 1, 4, device=device), torch.zeros(1, 1, 1, device=device)
        kernels.step(z, c, c, c.clone(), 1.0, keep=False)
    except Exception as error:
        log.warning("the biLM runs more slowly, without its Triton kernels: %s", error)
        return None
    return kernels
