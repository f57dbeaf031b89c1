"""Open torch files that a stranger may have written, such as best.ckpt or last.ckpt.

Checks precede reading: the file must be a zip with uncompressed entries inside the file and valid
checksums (CRC-32), and its pickle may name only tensors, their types and sizes, and two kinds of
dict. Then torch reads it with `weights_only`, and only plain data and tensors are copied, none
larger than the file.
"""

import math
import pickletools
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor

NAMES = re.compile(
    r"collections (OrderedDict|Counter)|torch (\w+Storage|Size|bool|(b?float|u?int|complex)\d+)"
    r"|torch\._utils _rebuild_(tensor_v2|parameter|parameter_with_state)"
)
WEIGHTS = ("state_dict", "current_weights", "model")  # keys under which NaN and infinity are wrong
DEPTH = 50  # maximum nesting of dicts and lists
SHARED = 4  # maximum ratio of tensors' size to the file's, since tied tensors share data
INTEGERS = range(-(2**64), 2**64)


def load(path: str | Path) -> dict[Any, Any]:
    """Read a torch file: a dict of dicts, Counters, lists, tuples, numbers, texts, None, tensors,
    and their types and sizes. Weights have no NaN, and infinity only in masks.

    Raises OSError if the file cannot be opened, and ValueError, with the file and possibly a key,
    if it is damaged or contains anything else.
    """
    path = Path(path)
    size = path.stat().st_size
    with path.open("rb") as file:
        try:
            with zipfile.ZipFile(file) as archive:
                _check_archive(archive, size)
            file.seek(0)
            content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # damaged files cause many types of errors
            raise ValueError(
                f"{path}: not a checkpoint, or damaged: {_first_line(error)}"
            ) from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path}: not a checkpoint: it contains a {type(content).__name__} instead of a dict"
        )
    copied: dict[Any, Any] = _Copy(path, size).of(content)
    for key in WEIGHTS:
        if key in copied:
            _check_weights(copied[key], f"{path}: {key}")
    return copied


@contextmanager
def refusing(path: str | Path, what: str) -> Iterator[None]:
    """Turn errors of a block, due to unexpected content, into a ValueError with the file.

    OSError and MemoryError are not changed, since the file does not cause them.
    """
    try:
        yield
    except (OSError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if isinstance(error, ValueError) and str(error).startswith(str(path)):
            raise
        kind = "" if isinstance(error, ValueError) else f"{type(error).__name__}: "
        raise ValueError(f"{path}: {what}: {kind}{_first_line(error)}") from error


def _check_archive(archive: zipfile.ZipFile, size: int) -> None:
    """Raise ValueError for compressed, oversized or damaged entries, and for a pickle that names
    anything but tensors.
    """
    entries = archive.infolist()
    if any(
        e.compress_type != zipfile.ZIP_STORED or e.file_size != e.compress_size for e in entries
    ):
        raise ValueError("its entries are compressed, but torch does not compress them")
    if sum(entry.file_size for entry in entries) > size:
        raise ValueError("its entries are larger than the file")
    if len({entry.filename for entry in entries}) < len(entries):
        raise ValueError("two of its entries have the same name")
    if damaged := archive.testzip():
        raise ValueError(f"{damaged} is damaged: its CRC-32 does not match")
    for entry in entries:
        if not entry.filename.endswith("data.pkl"):
            continue
        for opcode, name, _ in pickletools.genops(archive.read(entry)):
            if opcode.name == "GLOBAL" and not NAMES.fullmatch(str(name)):
                raise ValueError(
                    f"it refers to {str(name)[:100]}, but it may only contain plain data"
                )


class _Copy:
    """Copies plain data and tensors, and refuses all else; a dict of any kind becomes a dict, but
    for a Counter, which a schedule may keep; a parameter becomes a tensor.
    """

    def __init__(self, path: Path, size: int) -> None:
        self.path, self.size = path, size
        self.nodes, self.bytes = size, SHARED * size  # remaining limits

    def of(self, node: Any, key: tuple[Any, ...] = ()) -> Any:
        self.nodes -= 1
        if self.nodes < 0 or len(key) > DEPTH:  # lists that contain themselves, or share contents
            self._refuse(key, "dicts and lists are nested too deep")
        kind = type(node)
        if kind in (str, float, bool, torch.dtype) or node is None:
            return node
        if kind is int and node in INTEGERS:
            return node
        if kind in (list, tuple, torch.Size):
            return kind(self.of(value, (*key, number)) for number, value in enumerate(node))
        if isinstance(node, dict):
            copied = {
                self._name(name, key): self.of(value, (*key, name))
                for name, value in dict.items(node)
            }
            return Counter(copied) if kind is Counter else copied
        if isinstance(node, Tensor):
            return self._tensor(node, key)
        description = "an integer of over 64 bits" if kind is int else f"a {kind.__name__}"
        self._refuse(
            key, f"it contains {description}, but it may only contain plain data and tensors"
        )

    def _name(self, name: Any, key: tuple[Any, ...]) -> Any:
        if type(name) is not str and (type(name) is not int or name not in INTEGERS):
            self._refuse(key, f"one of its keys is a {type(name).__name__}")
        return name

    def _tensor(self, tensor: Tensor, key: tuple[Any, ...]) -> Tensor:
        tensor = Tensor.detach(tensor)  # drops attributes, which may hide methods
        # Optimizers drop the imaginary parts of complex numbers.
        is_plain = type(tensor) is Tensor and tensor.layout == torch.strided
        is_plain = is_plain and not tensor.is_complex()
        if not is_plain or tensor.device.type != "cpu" or tensor.is_quantized:
            self._refuse(key, "a tensor, but not a plain one")
        self.bytes -= tensor.numel() * tensor.element_size()
        if self.bytes < 0 or tensor.untyped_storage().nbytes() > self.size:
            self._refuse(key, f"a tensor {tuple(tensor.shape)} in a file of {self.size:,} bytes")
        return tensor

    def _refuse(self, key: tuple[Any, ...], why: str) -> NoReturn:
        where = ".".join(str(name)[:100] for name in key[:10])
        raise ValueError(f"{self.path}: {where + ': ' if where else ''}{why}") from None


def _check_weights(weights: Any, where: str) -> None:
    """Raise ValueError unless the weights are tensors by name, without NaN and infinity.

    A tensor of only 0 and -infinity is allowed, since models may store masks with their weights.
    """
    if not isinstance(weights, dict):
        raise ValueError(
            f"{where}: a {type(weights).__name__}, but it must be a mapping from names to tensors"
        )
    for name, tensor in weights.items():
        if not isinstance(name, str) or not isinstance(tensor, Tensor):
            raise ValueError(
                f"{where}.{str(name)[:100]}: a {type(tensor).__name__}, but it must be a "
                "tensor with a string as its name"
            )
        if not torch.isfinite(tensor).all() and not _is_mask(tensor):
            raise ValueError(f"{where}.{name[:100]}: it contains NaN or infinity")


def _is_mask(tensor: Tensor) -> bool:
    """Whether it holds 0 and -infinity, both, and nothing else."""
    zeros, barred = tensor == 0, tensor == -math.inf
    return bool((zeros | barred).all() and zeros.any() and barred.any())


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).partition("\n")[0][:500]
