"""The layers of a frozen encoder in the memory of the device that trains, with nothing on disk.

Axes: L layers, B batch, T tokens, D encoder, N words of all sentences, W numbers of a vector there.
"""

import logging
import math
import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from .layer_files import packed_layers
from .layer_types import row_bytes, unpack, width
from .store_build import SHARE, ordered

log = logging.getLogger(__name__)


class LayerMemory:
    """Compute the layers of all sentences on a device and read them there.

    A batch brings `word_rows(starts, sentences)`, which are small. Raises ValueError if there is no
    room, and FloatingPointError if the encoder's output is not finite.
    """

    def __init__(
        self,
        encoder: Any,
        sentences: Iterable[Sequence[str]],
        layers: Sequence[int],
        device: torch.device,
        *,
        dtype: str = "float32",
        max_bytes: float = math.inf,
    ) -> None:
        begun = time.perf_counter()
        distinct, self.starts = ordered(sentences)
        tokens = sum(map(len, distinct))
        size = len(layers) * tokens * row_bytes(encoder.dim, dtype)
        check_room(size, device, max_bytes)
        log.info("encoding %s tokens once (%.2f GB), into memory: %s", tokens, size / 1e9, device)
        shape = len(layers), tokens + 1, width(encoder.dim, dtype)  # row -1 is 0, for padding
        self.table = torch.zeros(shape, dtype=getattr(torch, dtype), device=device)
        for numbers, packed in packed_layers(encoder.to(device), distinct, layers, dtype):
            for number, vectors in zip(numbers, packed.unbind(1), strict=True):
                start, length = self.starts[distinct[number]], len(distinct[number])
                self.table[:, start : start + length] = vectors[:, :length]
        self.seconds = time.perf_counter() - begun

    def __call__(self, rows: Int[Tensor, "B T"]) -> Float[Tensor, "L B T D"]:
        """Return the layers at these rows, which are on the device."""
        return unpack(self.table[:, rows])

    def close(self) -> None:
        """Release the memory."""
        self.table = self.table.new_empty(0)


def check_room(size: int, device: torch.device, max_bytes: float = math.inf) -> None:
    """Raise ValueError unless layers may take so many bytes of the device's memory."""
    free = _free(device)
    if size > min(max_bytes, SHARE * free):
        raise ValueError(
            f"store.mode=memory: the layers of this data would take {size / 1e9:.1f} GB, but they "
            f"may take {max_bytes / 1e9:.1f} GB (store.max_bytes) and half of the "
            f"{free / 1e9:.1f} GB of memory that are free on {device}; store.dtype=int8 or fewer "
            "layers (elmo.mix=top) take less, and store.mode=auto keeps them on disk"
        )


def _free(device: torch.device) -> int:
    """Return the bytes of memory that are free: on a CPU without Linux, all there are."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if (about := Path("/proc/meminfo")).exists():
        return 1024 * int(re.findall(r"MemAvailable:\s+(\d+) kB", about.read_text())[0])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
