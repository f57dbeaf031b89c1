"""The pointwise operations of an LSTM step, and their gradient.

On a GPU each is one Triton kernel (`kernels.py`); on other devices, or if Triton is missing or
cannot compile, torch's operations. Results are written in place, into the caller's tensors.

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

FUSED = torch.float32, torch.bfloat16, torch.float16  # types that the kernels support
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
    """Compute a step from z of `bilm.ProjectedLstm`, without forget bias, and the previous cell.

    Adds the forget bias and writes the new cell to `after`, which may be the previous one's memory,
    and sigmoid(o) tanh(c) to `gated`. With `keep`, z holds the squashed gates afterwards, for the
    gradient; else its content is undefined.
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
    """Compute `grad_z` of a step with `keep`, and recompute `gated`.

    `grad_c` is the gradient of the new cell, and is replaced by that of the previous cell.
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
    """Return the Triton kernels; None if the device is no GPU (without Triton's interpreter), the
    data type has no kernel, or they do not compile.
    """
    here = z.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return _kernels(z.device) if here and z.dtype in FUSED else None


@functools.cache
def _kernels(device: torch.device) -> ModuleType | None:
    """Return the kernels if a test run compiles; Triton needs a C compiler and a known GPU."""
    try:
        from . import kernels  # importing Triton is slow, so only a GPU pays for it

        z, c = torch.zeros(1, 1, 4, device=device), torch.zeros(1, 1, 1, device=device)
        kernels.step(z, c, c, c.clone(), 1.0, keep=False)
    except Exception as error:
        log.warning("the biLM runs more slowly, without its Triton kernels: %s", error)
        return None
    return kernels
