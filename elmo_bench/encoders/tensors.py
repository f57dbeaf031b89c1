"""Read tensors from files; names and shapes are checked before any number is read."""

from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

Shapes = Mapping[str, tuple[int, ...]]
FLOATS = ("F64", "F32", "F16", "BF16")
SHOWN = 20  # names in a message


def read_tensors(path: str | Path, shapes: Shapes, asking: str) -> dict[str, Tensor]:
    """Read the tensors of a safetensors file, in float32.

    `asking` requires tensors of these names and `shapes`. Raises ValueError, with the file and the
    tensor, for a damaged file, other tensors, or a number that is not finite.
    """
    try:
        with safe_open(path, framework="pt") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118
            came = {name: tuple(tensor.get_shape()) for name, tensor in slices.items()}
            check_shapes(path, came, shapes, asking)
            for name, tensor in slices.items():
                if tensor.get_dtype() not in FLOATS:
                    raise ValueError(
                        f"{path}: {name} has type {tensor.get_dtype()}, but must be "
                        f"{', '.join(FLOATS)}"
                    )
            tensors = {name: file.get_tensor(name).float() for name in shapes}
    except SafetensorError as error:
        raise ValueError(f"{path}: not a safetensors file, or damaged: {error}") from error
    check_finite(path, tensors)
    return tensors


def check_shapes(path: str | Path, came: Shapes, expected: Shapes, asking: str) -> None:
    """Raise ValueError for missing or unexpected names, or shapes other than `asking` requires."""
    missing = sorted(expected.keys() - came)
    unknown = sorted(came.keys() - expected)
    if missing or unknown:
        raise ValueError(
            f"{path} does not fit {asking}: missing tensors: {missing[:SHOWN] or 'none'}; "
            f"unexpected tensors: {unknown[:SHOWN] or 'none'}"
        )
    for name, shape in expected.items():
        if came[name] != shape:
            raise ValueError(f"{path}: {name} has shape {came[name]}, but {asking} require {shape}")


def check_finite(source: str | Path, tensors: Mapping[str, Tensor]) -> None:
    """Raise ValueError, with the source and the tensor, for a number that is not finite."""
    for name, tensor in tensors.items():
        # One pass without a copy: minimum and maximum of values with a NaN are NaN.
        if tensor.numel() and not torch.stack(tensor.aminmax()).isfinite().all():
            kind = f"{tensor.dtype}".removeprefix("torch.")
            raise ValueError(f"{source}: {name} contains a number that is not finite in {kind}")
