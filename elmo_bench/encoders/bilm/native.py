"""Load the library in C (`native.c`), if it was built when elmo-bench was installed."""

import ctypes
from importlib.util import find_spec
from typing import no_type_check

from torch import Tensor

VERSION = 2  # version of the C functions; libraries of other versions are not used


def _load() -> ctypes.CDLL | None:
    found = find_spec(f"{__package__}._native")
    if found is None or found.origin is None:
        return None
    try:
        library = ctypes.CDLL(found.origin)
        if library.elmo_native_version() != VERSION:
            return None
    except (AttributeError, OSError):  # built from an older version, or on another machine
        return None
    size, real, flag, place = ctypes.c_int64, ctypes.c_float, ctypes.c_int, ctypes.c_void_p
    library.elmo_step_forward.argtypes = (*(size,) * 2, *(place,) * 7, real, flag, size)
    library.elmo_step_backward.argtypes = (*(size,) * 2, *(place,) * 8, real, flag, size)
    library.elmo_lookup.argtypes = (*(size,) * 4, *(place,) * 4, size)
    library.elmo_lookup_gradient.argtypes = (*(size,) * 4, *(place,) * 4, size)
    return library


LIBRARY = _load()


@no_type_check
def takes(tensor: Tensor) -> bool:
    """Whether C can read the tensor: contiguous and on a CPU."""
    return tensor.is_cpu and tensor.is_contiguous()


@no_type_check
def address(tensor: Tensor | None) -> int | None:
    """Return the address of a tensor's data; None for None."""
    return None if tensor is None else tensor.data_ptr()
