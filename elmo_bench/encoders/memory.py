"""The layers of a frozen encoder for all sentences of a run, in the memory of a device.

Axes: L layers, B batch, T tokens, D encoder.
"""

import math
import os
import re
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from elmo_bench.text import Sentences

from .frozen_layers import SHARE, ordered, packed_layers
from .static import Rows
from .store import row_bytes, unpack, word_rows


class LayerMemory:
    """The layers of all sentences in the memory of a device. A batch brings only the rows of its
    words.

    Raises ValueError if there is no room, and FloatingPointError if the encoder's output is not
    finite.
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
        # The last row stays 0, for what is after a sentence's end.
        num_rows = sum(map(len, distinct)) + 1
        size = row_bytes(encoder.dim, dtype)
        check_room(len(layers) * num_rows * size, device, max_bytes)
        number_type = getattr(torch, dtype)
        shape = (len(layers), num_rows, size // number_type.itemsize)
        self.table = torch.zeros(shape, dtype=number_type, device=device)
        start = 0
        for packed in packed_layers(encoder.to(device), distinct, layers, dtype):
            end = start + packed.shape[1]
            self.table[:, start:end] = packed
            start = end
        self.seconds = time.perf_counter() - begun

    def prepare(self, sentences: Sentences) -> Rows:
        """Return the rows of a batch's words; -1 after the end of a sentence."""
        return Rows(word_rows(self.starts, sentences))

    def __call__(self, inputs: Rows) -> Float[Tensor, "L B T D"]:
        """Return the layers of a batch's words; 0 after the end of a sentence."""
        return unpack(self.table[:, inputs.rows])

    def close(self) -> None:
        """Release the memory."""
        self.table = self.table.new_empty(0)


def check_room(size: int, device: torch.device, max_bytes: float) -> None:
    """Raise ValueError unless layers may take so many bytes of the device's memory."""
    memory_info = Path("/proc/meminfo")
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what torch keeps for later is free, too
        free = torch.cuda.mem_get_info(device)[0]
    elif memory_info.exists():
        kilobytes = re.findall(r"MemAvailable:\s+(\d+) kB", memory_info.read_text())[0]
        free = 1024 * int(kilobytes)
    else:  # not Linux: all there is
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > min(max_bytes, SHARE * free):
        raise ValueError(
            f"store.mode=memory: the layers of this data would take {size / 1e9:.1f} GB, but they "
            f"may take {max_bytes / 1e9:.1f} GB (store.max_bytes) and half of the "
            f"{free / 1e9:.1f} GB of memory that are free on {device}; store.dtype=int8 or fewer "
            "layers (elmo.mix=top) take less, and store.mode=auto keeps them on disk"
        )
