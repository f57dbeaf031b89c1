"""The layers of a frozen encoder for the sentences of a data set: computed once, kept on disk.

The mix is not stored: s_j and gamma stay trainable.

Axes: L layers, B batch, T tokens, D encoder, N words of all sentences, W numbers of a vector there.
"""

import fcntl
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmo_bench.files import hold, remove_unheld
from elmo_bench.text import Sentences

log = logging.getLogger(__name__)
Sentence = tuple[str, ...]
SCALE = 4  # bytes of the float32 behind an int8 vector


@dataclass
class LayerStore:
    """Read the layers of stored sentences: the requested layers, in that order.

    `starts` is the row at which each sentence begins. A store may be sent to data loader workers,
    which map the same files. A store that is not to be kept is deleted when it is closed.
    """

    folder: Path
    layers: Sequence[int]
    starts: Mapping[Sentence, int]
    keep: bool = True
    _held: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_mapped"}
        return state | {"_held": None}

    def hold(self) -> None:
        """Protect the store until it is closed or this process ends; record its use."""
        while self._held is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._held = hold(self.folder)
        with suppress(OSError):  # owned by another user, or on a read-only disk
            os.utime(self.folder)

    def close(self) -> None:
        """Allow others to delete the store; one that is not to be kept goes with its last reader,
        and one without layers now.
        """
        if self._held is not None:
            with suppress(OSError):  # also unlocks it for workers, which inherit the descriptor
                fcntl.flock(self._held, fcntl.LOCK_UN)
            os.close(self._held)
            self._held = None
        with suppress(FileNotFoundError):  # somebody has deleted it
            if not (self.keep and any(self.folder.iterdir())):
                remove_unheld(self.folder)

    def missing(self) -> list[int]:
        """Return the layers to read that have no file, or a damaged one, which is logged."""
        missing = []
        for layer in dict.fromkeys(self.layers):
            try:
                read_layer(self.folder, layer)
            except (FileNotFoundError, ValueError) as error:
                missing.append(layer)
                if isinstance(error, ValueError):
                    log.warning("%s: it is not used", error)
        return missing

    @cached_property
    def _mapped(self) -> list[tuple[Shaped[Tensor, "N W"], float]]:
        return [read_layer(self.folder, layer) for layer in self.layers]

    @property
    def seconds(self) -> float:
        """The time that the encoder took for the layers to read, in whichever run."""
        return sum({seconds for _, seconds in self._mapped})  # layers of a pass have the same

    def __call__(self, sentences: Sentences) -> Float[Tensor, "L B T D"]:
        """Return the layers of a batch of sentences; 0 after the end of a sentence."""
        rows = word_rows(self.starts, sentences)
        layers = unpack(torch.stack([tensor[rows] for tensor, _ in self._mapped]))
        layers[:, rows < 0] = 0
        return layers


def word_rows(starts: Mapping[Sentence, int], sentences: Sentences) -> Int[Tensor, "B T"]:
    """Return the row of each word of a batch; -1 after the end of a sentence.

    Raises ValueError for a sentence that has no rows.
    """
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    try:
        firsts = [starts[tuple(sentence)] if sentence else 0 for sentence in sentences]
    except KeyError as error:
        raise ValueError(
            f"the store has no layers of {error}: `collate` of a task must pass `tokens` exactly "
            "the `sentences` of its examples"
        ) from error
    positions = np.arange(lengths.max(initial=0))
    rows = np.array(firsts, np.int64)[:, None] + positions
    return torch.from_numpy(np.where(positions < lengths[:, None], rows, -1))


def read_layer(folder: Path, layer: int) -> tuple[Shaped[Tensor, "N W"], float]:
    """Map the file of a layer; return it and the seconds that the encoder took.

    Raises FileNotFoundError, or ValueError for a file that is damaged or of another store.
    """
    path = layer_path(folder, layer)
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("store") != folder.name or about.get("layer") != str(layer):
                raise ValueError(f"{path}: damaged (a layer of another store)")
            return file.get_tensor("layer"), float(about["seconds"])
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{path}: damaged ({error})") from error


def layer_path(folder: Path, layer: int) -> Path:
    """Return the path of the file of a layer."""
    return folder / f"layer{layer}.safetensors"


def row_bytes(dim: int, dtype: str) -> int:
    """Return how many bytes a vector of so many numbers takes."""
    return dim * getattr(torch, dtype).itemsize + (SCALE if dtype == "int8" else 0)


def pack(vectors: Float[Tensor, "*N D"], dtype: str) -> Shaped[Tensor, "*N W"]:
    """Round vectors to a type: floats to the nearest one, int8 to the nearest multiple of a scale.

    The scale of an int8 vector is a 127th of its largest absolute value, and its bytes stand behind
    it: a number moves by at most a 254th of the largest one of its vector, and 0 stays 0.
    """
    if dtype != "int8":
        return vectors.to(getattr(torch, dtype))
    largest = vectors.float().abs().amax(-1, keepdim=True)
    scale = (largest / 127).clamp(min=torch.finfo(torch.float32).tiny)
    return torch.cat([(vectors / scale).round().to(torch.int8), scale.view(torch.int8)], -1)


def unpack(packed: Shaped[Tensor, "*N W"]) -> Float[Tensor, "*N D"]:
    """Return the vectors: int8 ones as float32, others in their type."""
    if packed.is_floating_point():
        return packed
    return packed[..., :-SCALE] * packed[..., -SCALE:].contiguous().view(torch.float32)
