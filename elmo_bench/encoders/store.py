"""The layers of a frozen encoder for the sentences of a data set: computed once, kept on disk in a
folder with a safetensors file for each layer that some run reads.

A file has the words of all distinct sentences, shortest first and then by their hashes, which is
the order in which an encoder reads them. The name of the folder identifies the encoder and the
sentences. A file has its name only once it is complete, so a killed build goes on with the layers
that are missing. The mix is not stored: s_j and gamma stay trainable.

Axes: L layers, B batch, T tokens, D encoder, N words of all sentences, W numbers of a vector there.
"""

import fcntl
import hashlib
import itertools
import json
import logging
import math
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from elmo_bench.files import alone, hold, remove_unheld
from elmo_bench.text import Sentences

from .encode import device_of
from .layer_files import is_complete, read_layer, row_bytes, unpack, write_layers

log = logging.getLogger(__name__)
VERSION = "v5"
Sentence = tuple[str, ...]
SHARE = 0.5  # maximum share of the free space, on disk or in memory, for the layers of a data set


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
        """Keep others from deleting the store until it is closed or this process ends; record its
        use.
        """
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

    def __call__(self, sentences: Sentences) -> Float[Tensor, "L B T D"]:
        """Return the layers of a batch of sentences; 0 after the end of a sentence."""
        rows = word_rows(self.starts, sentences)
        layers = unpack(torch.stack([tensor[rows] for tensor, _ in self._mapped]))
        layers[:, rows < 0] = 0
        return layers


def word_rows(starts: Mapping[Sentence, int], sentences: Sentences) -> Int[Tensor, "B T"]:
    """Return the row of each word of a batch; -1 after the end of a sentence."""
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    firsts = [starts[tuple(sentence)] if sentence else 0 for sentence in sentences]
    positions = np.arange(lengths.max(initial=0))
    rows = np.array(firsts, np.int64)[:, None] + positions
    return torch.from_numpy(np.where(positions < lengths[:, None], rows, -1))


def build_store(
    encoder: Any,
    sentences: Iterable[Sequence[str]],
    layers: Sequence[int],
    folder: Path,
    *,
    dtype: str = "float32",
    max_bytes: float = math.inf,
    keep: bool = True,
    device: torch.device | None = None,
) -> LayerStore | None:
    """Open or build the store of these sentences below `folder`; one process computes the missing
    layers, on `device` or where its encoder is.

    Returns None, and logs why, if all stores below `folder` together would have more than
    `max_bytes`, if the disk is too small, or if nothing can be written. Raises FloatingPointError
    if the encoder's output is not finite.
    """
    distinct, starts = ordered(sentences)
    if not distinct:
        return None
    text = hashlib.sha256(b"".join(map(key, distinct)))
    name = hashlib.sha256(encoder.fingerprint().encode()).hexdigest()  # reads all weights
    path = folder / f"{VERSION}-e{name[:12]}-{text.hexdigest()[:12]}-{dtype}"
    store, is_ready = LayerStore(path, layers, starts, keep), False
    waiting = "another run is computing the layers of this data: waiting for it"
    try:
        store.hold()
        with alone(path, waiting) if store.missing() else nullcontext():
            if missing := store.missing():  # the other run has not computed them
                tokens = sum(map(len, distinct))
                size = len(missing) * tokens * row_bytes(encoder.dim, dtype)
                if not _has_room(size, folder, max_bytes):
                    return None
                log.info("encoding %s tokens once (%.2f GB): %s", tokens, size / 1e9, path)
                encoder.to(device or device_of(encoder))
                write_layers(path, missing, encoder, distinct, dtype)
        is_ready = True
    except OSError as error:
        reason = f"cannot write or read {path} ({error.strerror or error})"
        log.warning("%s: running the encoder on every batch", reason)
    finally:
        if not is_ready:
            store.close()
    return store if is_ready else None


def _has_room(size: int, folder: Path, max_bytes: float) -> bool:
    """Whether a store may take so many bytes; logs why not."""
    used = 0
    for path in folder.rglob("*"):
        with suppress(OSError):  # another run has just deleted it
            used += path.stat().st_size if path.is_file() else 0
    free = shutil.disk_usage(folder).free
    if used + size <= max_bytes and size <= SHARE * free:
        return True
    log.warning(
        "running the encoder on every batch: its layers for this data would take %.1f GB, but all "
        "stores may take %.1f GB (store.max_bytes) and have %.1f GB, and a new one may take half "
        "of the %.1f GB that are free at %s. job=cache clear=layers deletes all stores",
        *(size / 1e9, max_bytes / 1e9, used / 1e9, free / 1e9, folder),
    )
    return False


def ordered(sentences: Iterable[Sequence[str]]) -> tuple[list[Sentence], dict[Sentence, int]]:
    """Return the distinct sentences, shortest first and then by their keys, as a store has them,
    and the row where each begins.
    """
    distinct = sorted({*map(tuple, sentences)} - {()}, key=lambda each: (len(each), key(each)))
    ends = itertools.accumulate(map(len, distinct), initial=0)
    return distinct, dict(zip(distinct, ends, strict=False))


def key(sentence: Sentence) -> bytes:
    """Return a hash by which sentences of a length are sorted."""
    return hashlib.blake2b(json.dumps(sentence).encode(), digest_size=16).digest()
