"""Torch files that a stranger may have written, such as best.ckpt or last.ckpt.

A torch file is a zip, with a checksum (CRC-32) of each entry, which torch does not compare. Torch
then reads it with `weights_only`, which runs no code.
"""

import math
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from pytorch_lightning.callbacks import Callback
from torch import Tensor

WEIGHTS = ("state_dict", "current_weights", "model")  # keys under which NaN and infinity are wrong


class Content(Callback):
    """What the checkpoints of a run contain besides the weights."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        checkpoint |= self.content


def load(path: str | Path) -> dict[Any, Any]:
    """Read a torch file: a dict of plain data and tensors. Weights have no NaN, and infinity only
    in masks.

    Raises OSError if the file cannot be opened, and ValueError, with the file and possibly a key,
    if it is damaged or contains anything else.
    """
    size = Path(path).stat().st_size
    with Path(path).open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_archive(archive, size)
            file.seek(0)
            content: Any = torch.load(file, map_location="cpu", weights_only=True)
            if not isinstance(content, dict):
                raise TypeError(f"it contains a {type(content).__name__} instead of a dict")
        except Exception as error:  # damaged files cause many types of errors
            raise ValueError(
                f"{path}: not a checkpoint, or damaged: {_first_line(error)}"
            ) from error
    for key in WEIGHTS:
        weights = content.get(key, {})
        if not isinstance(weights, dict):
            raise ValueError(f"{path}: {key}.0: not a mapping from names")
        for name, tensor in weights.items():
            fault = _fault(tensor, size) if isinstance(name, str) else "not a mapping from names"
            if fault:
                raise ValueError(f"{path}: {key}.{str(name)[:100]}: {fault}")
    return content


@contextmanager
def refusing(path: str | Path, what: str, advice: str = "") -> Iterator[None]:
    """Turn errors of a block, due to unexpected content, into a ValueError with the file.

    OSError and MemoryError are not changed, since the file does not cause them.
    """
    try:
        yield
    except (OSError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        message = f"{path}: {what}: {kind}{_first_line(error)}"
        if isinstance(error, ValueError) and str(error).startswith(str(path)):
            message = str(error)
        raise ValueError(f"{message}{advice}") from error


def _check_archive(archive: zipfile.ZipFile, size: int) -> None:
    """Raise ValueError for damaged entries, and for those that could fill memory."""
    entries = archive.infolist()
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError("its entries are compressed, but torch does not compress them")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("its entries are larger than the file")
    damaged = archive.testzip()
    if damaged:
        raise ValueError(f"{damaged} is damaged: its CRC-32 does not match")


def _fault(tensor: Any, size: int) -> str:
    """Return why this cannot be a weight: it is not a tensor's own data, as one whose strides are 0
    and which is larger than the file, or it has NaN or infinity; empty if it can.
    """
    if not isinstance(tensor, Tensor):
        return f"a {type(tensor).__name__}, but it must be a tensor"
    is_dense = tensor.layout == torch.strided and not tensor.is_quantized
    if not is_dense or tensor.device.type != "cpu" or tensor.nbytes > size:
        return f"{tuple(tensor.shape)}, which is not a tensor's data"
    if torch.isfinite(tensor).all():
        return ""
    # A mask has both of these, and nothing else.
    zeros = tensor == 0
    barred = tensor == -math.inf
    is_mask = (zeros | barred).all() and zeros.any() and barred.any()
    return "" if is_mask else "it contains NaN or infinity"


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0][:500]
