"""The pointwise operations of an LSTM step, and their gradient, written into the caller's tensors.

On a CPU each is one pass over memory in C (`native.c`), on a GPU one Triton kernel
(`triton_kernels.py`); where they are missing, torch's operations. These functions check no types:
the checks, which the tests make, would take longer than the work.

Axes: R directions, N rows, Z cell, G gates (4 Z, in blocks i, j, f, o).
"""

import ctypes
import functools
import logging
import os
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, no_type_check

import torch
from jaxtyping import Float
from torch import Tensor

VERSION = 1  # of the C function; libraries of other versions are not used
LOW = (0, 1, 5), (3, 5, 6)  # tensors of the products' type, forward and backward
FUSED = torch.float32, torch.bfloat16, torch.float16  # types that the kernels support
log = logging.getLogger(__name__)


def _load() -> Any:
    """Return the library; None if it was not built, is of another version or of another machine."""
    found = find_spec(f"{__package__}._pointwise")
    if found is None or found.origin is None:
        return None
    try:
        library = ctypes.CDLL(found.origin)
        if library.elmo_native_version() != VERSION:
            return None
    except (AttributeError, OSError):
        return None
    size, flag = ctypes.c_int64, ctypes.c_int
    arrays = ctypes.POINTER(ctypes.c_void_p)
    library.elmo_step.argtypes = (size, size, arrays, ctypes.c_float, flag, flag, size)
    return library


LIBRARY = _load()


@no_type_check
def forward(
    product: Float[Tensor, "R N G"],
    inputs: Float[Tensor, "R N G"],
    before: Float[Tensor, "R N Z"],
    gates: Float[Tensor, "R N G"] | None,
    cell: Float[Tensor, "R N Z"],
    gated: Float[Tensor, "R N Z"],
    clip: float,
) -> None:
    """Compute a step from W_h h and W_x x + b, where b includes the forget bias.

    c = clip(sigmoid(f) c_before + sigmoid(i) tanh(j)) is written to `cell`, which may be `before`;
    sigmoid(o) tanh(c) to `gated`; and sigmoid(i), tanh(j), sigmoid(f), sigmoid(o), which the
    gradient needs, to `gates`, unless it is None.
    """
    if _is_done((product, inputs, before, gates, cell, gated), clip, False):
        return
    gates = torch.add(product.to(cell.dtype), inputs, out=gates)
    i, j, f, o = gates.chunk(4, -1)
    j.mul_(2)
    gates.sigmoid_()
    j.mul_(2).sub_(1)
    torch.mul(f, before, out=cell).addcmul_(i, j).clamp_(-clip, clip)
    gated.copy_(_tanh(cell).mul_(o))


@no_type_check
def backward(
    gates: Float[Tensor, "R N G"],
    cell: Float[Tensor, "R N Z"],
    before: Float[Tensor, "R N Z"],
    grad_gated: Float[Tensor, "R N Z"],
    grad_cell: Float[Tensor, "R N Z"],
    grad_gates: Float[Tensor, "R N G"],
    gated: Float[Tensor, "R N Z"],
    clip: float,
) -> None:
    """Compute a step's gradient from the gradients of `gated` and of the cell.

    The gradient of the previous cell replaces that of the cell. Writes the gradients of the gates
    before the nonlinearity to `grad_gates`, and recomputes `gated`.
    """
    if _is_done((gates, cell, before, grad_gated, grad_cell, grad_gates, gated), clip, True):
        return
    i, j, f, o = gates.chunk(4, -1)
    squashed, grad_gated = _tanh(cell), grad_gated.to(cell.dtype)
    through = squashed * o
    gated.copy_(through)
    grad_cell.addcmul_(grad_gated, torch.addcmul(o, through, squashed, value=-1))
    grad_cell.mul_(cell.abs() < clip)
    slopes = torch.addcmul(gates, gates, gates, value=-1)
    torch.addcmul(torch.ones_like(j), j, j, value=-1, out=slopes.chunk(4, -1)[1])
    above = grad_cell * j, grad_cell * i, grad_cell * before, grad_gated * squashed
    grad_gates.copy_(torch.cat(above, -1).mul_(slopes))
    grad_cell.mul_(f)


def _tanh(x: Tensor) -> Tensor:
    """Return tanh(x) = 2 sigmoid(2 x) - 1, since torch's sigmoid is ten times faster than tanh."""
    return torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)


@no_type_check
def _is_done(tensors: Sequence[Tensor | None], clip: float, backward: bool) -> bool:
    """Compute a step in C or by a kernel; return whether one of them can."""
    if _fit_c(tensors, backward):
        gated, threads = tensors[-1], torch.get_num_threads()
        size, low = gated.shape[-1], gated.dtype == torch.bfloat16
        addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
        arrays = (ctypes.c_void_p * len(addresses))(*addresses)
        LIBRARY.elmo_step(gated.numel() // size, size, arrays, clip, low, backward, threads)
        return True
    if step := fused(tensors[-1]):
        step(tensors, clip, backward)
    return step is not None


@no_type_check
def _fit_c(tensors: Sequence[Tensor | None], backward: bool) -> bool:
    """Whether C can read the tensors: contiguous, on a CPU, those of `LOW` all in float32 or all in
    bfloat16, the others in float32.
    """
    dtype, low = tensors[-1].dtype, LOW[backward]
    if LIBRARY is None or dtype not in (torch.float32, torch.bfloat16):
        return False
    for place, tensor in enumerate(tensors):
        wanted = dtype if place in low else torch.float32
        if tensor is not None and (  # gates that are not kept
            tensor.dtype != wanted or not (tensor.is_cpu and tensor.is_contiguous())
        ):
            return False
    return True


@no_type_check
def fused(tensor: Tensor) -> Callable[..., None] | None:
    """Return the step of the Triton kernels; None if the device is no GPU (without Triton's
    interpreter), the data type has no kernel, or they do not compile.
    """
    here = tensor.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return _kernels(tensor.device) if here and tensor.dtype in FUSED else None


@functools.cache
def _kernels(device: torch.device) -> Callable[..., None] | None:
    """Return their step if a test run compiles; Triton needs a C compiler and a known GPU."""
    try:
        from .triton_kernels import step  # importing Triton is slow, so only a GPU pays for it

        gates, cell = torch.zeros(1, 1, 4, device=device), torch.zeros(1, 1, 1, device=device)
        tensors = gates, gates, cell, None, cell, cell.clone()
        step(tensors, 1.0, False)
    except Exception as error:
        log.warning("the biLM runs more slowly, without its Triton kernels: %s", error)
        return None
    return step
