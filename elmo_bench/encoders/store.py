"""The layers of a frozen encoder for the sentences of a data set: computed once, kept on disk or in
memory.

The mix is not stored: s_j and gamma stay trainable.

Axes: L layers, B batch, T tokens, D encoder, N words of all sentences, W numbers of a vector there.
"""

import fcntl
import hashlib
import itertools
import json
import math
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from elmo_bench.files import hold, remove_unheld

from .layer_files import is_complete, packed_layers, read_layer, row_bytes, unpack

Sentence = tuple[str, ...]
SHARE = 0.5  # maximum share of the free space, on disk or in memory, for the layers of a data set


class LayerStore:
    """Read the layers of stored sentences: the requested layers, in that order.

    `starts` is the row at which each sentence begins. A store may be sent to data loader workers,
    which map the same files. A store that is not to be kept is deleted when it is closed.
    """

    def __init__(
        self,
        folder: Path,
        layers: Sequence[int],
        starts: Mapping[Sentence, int],
        *,
        keep: bool = True,
    ) -> None:
        self.folder, self.layers, self.starts, self.keep = folder, [*layers], starts, keep
        self._held: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_mapped"}
        return state | {"_held": None}

    def hold(self) -> "LayerStore":
        """Keep others from deleting the store until it is closed or this process ends; record its
        use.
        """
        while self._held is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._held = hold(self.folder)
        with suppress(OSError):  # owned by another user, or on a read-only disk
            os.utime(self.folder)
        return self

    def close(self) -> None:
        """Allow others to delete the store; one that is not to be kept goes with its last reader,
        and one without layers now.
        """
        if self._held is not None:
            with suppress(OSError):  # also unlocks it for workers, which inherit the descriptor
                fcntl.flock(self._held, fcntl.LOCK_UN)
            os.close(self._held)
            self._held = None
        if not self.keep and self.folder.is_dir():
            remove_unheld(self.folder)
        with suppress(OSError):  # it was not made, or has layers
            self.folder.rmdir()

    def missing(self) -> list[int]:
        """Return the layers to read that have no file yet."""
        return [k for k in dict.fromkeys(self.layers) if not is_complete(self.folder, k)]

    @cached_property
    def _mapped(self) -> list[tuple[Shaped[Tensor, "N W"], float]]:
        return [read_layer(self.folder, layer) for layer in self.layers]

    @property
    def seconds(self) -> float:
        """The time that the encoder took for the layers to read, in whichever run."""
        return sum({seconds for _, seconds in self._mapped})  # layers of a pass have the same

    def __call__(self, sentences: Sequence[Sequence[str]]) -> Float[Tensor, "L B T D"]:
        """Return the layers of a batch of sentences; 0 after the end of a sentence."""
        rows = word_rows(self.starts, sentences)
        layers = unpack(torch.stack([tensor[rows] for tensor, _ in self._mapped]))
        layers[:, rows < 0] = 0
        return layers


class LayerMemory:
    """Compute the layers of all sentences into the memory of a device, and read them there.

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
        number, row = 1 + sum(map(len, distinct)), row_bytes(encoder.dim, dtype)
        check_room(len(layers) * number * row, device, max_bytes)
        kind = getattr(torch, dtype)  # the last row stays 0, for what is after a sentence's end
        shape = len(layers), number, row // kind.itemsize
        self.table = torch.zeros(shape, dtype=kind, device=device)
        for numbers, packed in packed_layers(encoder.to(device), distinct, layers, dtype):
            for k, vectors in zip(numbers, packed.unbind(1), strict=True):
                start, length = self.starts[distinct[k]], len(distinct[k])
                self.table[:, start : start + length] = vectors[:, :length]
        self.seconds = time.perf_counter() - begun

    def __call__(self, rows: Int[Tensor, "B T"]) -> Float[Tensor, "L B T D"]:
        """Return the layers at these rows, which are on the device."""
        return unpack(self.table[:, rows])

    def close(self) -> None:
        """Release the memory."""
        self.table = self.table.new_empty(0)


def check_room(size: int, device: torch.device, max_bytes: float) -> None:
    """Raise ValueError unless layers may take so many bytes of the device's memory."""
    if device.type == "cuda":
        free = torch.cuda.mem_get_info(device)[0]
    elif (about := Path("/proc/meminfo")).exists():
        free = 1024 * int(re.findall(r"MemAvailable:\s+(\d+) kB", about.read_text())[0])
    else:  # not Linux: all there is
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > min(max_bytes, SHARE * free):
        raise ValueError(
            f"store.mode=memory: the layers of this data would take {size / 1e9:.1f} GB, but they "
            f"may take {max_bytes / 1e9:.1f} GB (store.max_bytes) and half of the "
            f"{free / 1e9:.1f} GB of memory that are free on {device}; store.dtype=int8 or fewer "
            "layers (elmo.mix=top) take less, and store.mode=auto keeps them on disk"
        )


def ordered(sentences: Iterable[Sequence[str]]) -> tuple[list[Sentence], dict[Sentence, int]]:
    """Return the distinct sentences in the order of their keys, and the row where each begins."""
    distinct = sorted({*map(tuple, sentences)} - {()}, key=key)
    ends = itertools.accumulate(map(len, distinct), initial=0)
    return distinct, dict(zip(distinct, ends, strict=False))


def key(sentence: Sentence) -> bytes:
    """Return a hash by which sentences are sorted."""
    return hashlib.blake2b(json.dumps(sentence).encode(), digest_size=16).digest()


def word_rows(
    starts: Mapping[Sentence, int], sentences: Sequence[Sequence[str]]
) -> Int[Tensor, "B T"]:
    """Return the row of each word of a batch; -1 after the end of a sentence."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    firsts = [starts[tuple(sentence)] if sentence else 0 for sentence in sentences]
    positions = np.arange(lengths.max(initial=0))
    rows = np.array(firsts, np.int64)[:, None] + positions
    return torch.from_numpy(np.where(positions < lengths[:, None], rows, -1))
