"""The pointwise operations of an LSTM step, and their gradient, written into the caller's tensors.

On a CPU each is one pass over memory in C (`native.c`), on a GPU one Triton kernel
(`triton_kernels.py`); where they are missing, torch's operations. Checks of types, which the tests
make, would take longer than the work.

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
LOW = (torch.float32, torch.bfloat16)  # types of products that C supports
FUSED = (torch.float32, torch.bfloat16, torch.float16)  # types that the kernels support
log = logging.getLogger(__name__)


def _load() -> Any:
    """Return the library; None if it was not built, is of another version or of another machine."""
    spec = find_spec(f"{__package__}._pointwise")
    if spec is None:
        return None
    try:
        library = ctypes.CDLL(spec.origin)
        if library.elmo_native_version() != VERSION:
            return None
    except (AttributeError, OSError):
        return None
    size = ctypes.c_int64
    flag = ctypes.c_int
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
    if _is_done((product, inputs, before, gates, cell, gated), cell, clip):
        return
    i, j, f, o = (product.to(cell.dtype) + inputs).chunk(4, -1)
    i = i.sigmoid()
    j = j.tanh()
    f = f.sigmoid()
    o = o.sigmoid()
    cell.copy_((f * before + i * j).clamp(-clip, clip))
    gated.copy_(o * cell.tanh())
    if gates is not None:
        gates.copy_(torch.cat([i, j, f, o], -1))


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
    if _is_done((gates, cell, before, grad_gated, grad_cell, grad_gates, gated), cell, clip, True):
        return
    i, j, f, o = gates.chunk(4, -1)
    squashed = cell.tanh()
    above = grad_gated.to(cell.dtype)
    gated.copy_(o * squashed)
    grad = (grad_cell + above * o * (1 - squashed * squashed)) * (cell.abs() < clip)
    grad_i = grad * j * i * (1 - i)
    grad_j = grad * i * (1 - j * j)
    grad_f = grad * before * f * (1 - f)
    grad_o = above * squashed * o * (1 - o)
    grad_gates.copy_(torch.cat([grad_i, grad_j, grad_f, grad_o], -1))
    grad_cell.copy_(grad * f)


@no_type_check
def _is_done(
    tensors: Sequence[Tensor | None], cell: Tensor, clip: float, backward: bool = False
) -> bool:
    """Compute a step in C or by a kernel; return whether one of them can. C takes dense tensors on
    a CPU: the products and `gated` in float32 or bfloat16, the others in float32.
    """
    gated = tensors[-1]
    fits = gated.is_cpu and gated.dtype in LOW and cell.dtype == torch.float32
    if LIBRARY and fits and all(each is None or each.is_contiguous() for each in tensors):
        size = gated.shape[-1]
        num_rows = gated.numel() // size
        addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
        arrays = (ctypes.c_void_p * len(tensors))(*addresses)
        is_bf16 = gated.dtype == torch.bfloat16
        threads = torch.get_num_threads()
        LIBRARY.elmo_step(num_rows, size, arrays, clip, is_bf16, backward, threads)
        return True
    step = fused(gated)
    if step is None:
        return False
    step(tensors, clip, backward)
    return True


@no_type_check
def fused(tensor: Tensor) -> Callable[..., None] | None:
    """Return the step of the Triton kernels; None without a GPU (or Triton's interpreter), for a
    type without a kernel, or if they do not compile.
    """
    here = tensor.is_cuda or os.environ.get("TRITON_INTERPRET") == "1"
    return _kernels(tensor.device) if here and tensor.dtype in FUSED else None


@functools.cache
def _kernels(device: torch.device) -> Callable[..., None] | None:
    """Return their step if a test run compiles; Triton needs a C compiler and a known GPU."""
    try:
        from .triton_kernels import step  # importing Triton is slow, so only a GPU pays for it

        gates = torch.zeros(1, 1, 4, device=device)
        cell = torch.zeros(1, 1, 1, device=device)
        step((gates, gates, cell, None, cell, cell.clone()), 1.0, False)
    except Exception as error:
        log.warning("the biLM runs more slowly, without its Triton kernels: %s", error)
        return None
    return step
