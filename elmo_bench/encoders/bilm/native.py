"""Call the library in C (`native.c`), if it was built when elmo-bench was installed."""

import ctypes
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any, no_type_check

import torch
from torch import Tensor

VERSION = 1  # of the C function; libraries of other versions are not used


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
LOW = (0, 1, 5), (3, 5, 6)  # tensors of the products' type, forward and backward


@no_type_check
def takes(tensors: Sequence[Tensor | None], backward: bool) -> bool:
    """Whether C can read the tensors: contiguous, on a CPU, those of `LOW` all in float32 or all in
    bfloat16, the others in float32.
    """
    dtype, low = tensors[-1].dtype, LOW[backward]
    if LIBRARY is None or dtype not in (torch.float32, torch.bfloat16):
        return False
    for place, tensor in enumerate(tensors):
        wanted = dtype if place in low else torch.float32
        if tensor is None:  # gates that are not kept
            continue
        if tensor.dtype != wanted or not (tensor.is_cpu and tensor.is_contiguous()):
            return False
    return True


@no_type_check
def step(tensors: Sequence[Tensor | None], clip: float, backward: bool) -> None:
    """Compute a step in C, from the tensors of `pointwise.forward` or `backward`."""
    gated = tensors[-1]
    size, low = gated.shape[-1], gated.dtype == torch.bfloat16
    addresses = [None if tensor is None else tensor.data_ptr() for tensor in tensors]
    arrays = (ctypes.c_void_p * len(addresses))(*addresses)
    threads = torch.get_num_threads()
    LIBRARY.elmo_step(gated.numel() // size, size, arrays, clip, low, backward, threads)
