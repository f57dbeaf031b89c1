"""A frozen encoder's layers for a data set's sentences, computed once and kept on disk.

A store is a folder of arrays that are mapped into memory: the sentences' keys, where each begins,
and a file for each layer that some run has asked for. Its name says whose layers these are and of
which sentences. The mix is not in it: s_j and gamma stay trainable.

Axes: L layers, B batch, T tokens, D encoder.
"""

import fcntl
import hashlib
import itertools
import json
import logging
import math
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from rich.progress import (
    BarColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from torch import Tensor

from elmo_bench.files import alone

from .encode import encode_each

log = logging.getLogger(__name__)
KEY_BYTES = 16
SHARE = 0.5  # of the free disk, that a store may take


def sentence_key(sentence: Sequence[str]) -> bytes:
    """A sentence's words, in 16 bytes."""
    return hashlib.blake2b(json.dumps([*sentence]).encode(), digest_size=KEY_BYTES).digest()


class LayerStore:
    """Reads the layers of sentences that a store holds: those asked for, in that order.

    It may be sent to a loader's workers: they map the same files. One that is not to be kept goes
    when it is closed.
    """

    def __init__(self, folder: Path, layers: Sequence[int], *, keep: bool = True) -> None:
        self.folder, self.layers, self.keep = folder, list(layers), keep
        self._held: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        mapped = ("_starts", "_arrays")
        kept = {name: value for name, value in self.__dict__.items() if name not in mapped}
        return {**kept, "_held": None}

    def hold(self) -> "LayerStore":
        """Let nobody remove the store until this process closes it or ends; note its use."""
        while self._held is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            held = os.open(self.folder, os.O_RDONLY)
            with suppress(OSError):  # no such locks on this file system: no store is removed there
                fcntl.flock(held, fcntl.LOCK_SH)
            if self.folder.is_dir() and os.path.samestat(os.fstat(held), self.folder.stat()):
                self._held = held
            else:  # somebody has removed it meanwhile
                os.close(held)
        with suppress(PermissionError):
            os.utime(self.folder)
        return self

    def close(self) -> None:
        """Let others remove the store; one that is not to be kept goes with its last reader."""
        if self._held is not None:
            with suppress(OSError):  # also for the workers, who have inherited it
                fcntl.flock(self._held, fcntl.LOCK_UN)
            os.close(self._held)
            self._held = None
        if not self.keep and self.folder.is_dir():
            remove_store(self.folder)

    @cached_property
    def _starts(self) -> dict[bytes, int]:
        keys, starts = np.load(self.folder / "keys.npy"), np.load(self.folder / "starts.npy")
        return {key.tobytes(): int(start) for key, start in zip(keys, starts, strict=True)}

    @cached_property
    def _arrays(self) -> dict[int, np.ndarray]:
        return {
            layer: np.load(_layer_file(self.folder, layer), mmap_mode="r") for layer in self.layers
        }

    def __call__(
        self, sentences: Sequence[Sequence[str]], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "L B T D"] | None:
        """The layers of a batch, 0 past a sentence's end; None if the store lacks a sentence."""
        starts = [
            self._starts.get(sentence_key(sentence)) if sentence else 0 for sentence in sentences
        ]
        if None in starts:
            return None
        positions = np.where(mask, np.array(starts)[:, None] + np.arange(mask.shape[1]), 0)
        layers = torch.from_numpy(np.stack([array[positions] for array in self._arrays.values()]))
        layers[:, ~mask] = 0
        return layers


def build_store(
    encoder: Any,
    sentences: Iterable[Sequence[str]],
    layers: Sequence[int],
    folder: Path,
    *,
    dtype: str = "float32",
    max_bytes: float = math.inf,
    keep: bool = True,
) -> LayerStore | None:
    """The store of these sentences below `folder`; one process computes what it lacks.

    All stores below `folder` take at most `max_bytes`: those that were used least recently, and
    that no process reads, make room. None, and a line that says why, where that or the disk is not
    enough. The encoder runs where it is. Raises FloatingPointError where it gives something that is
    no finite number.
    """
    unique = {sentence_key(sentence): sentence for sentence in sentences if sentence}
    keys = sorted(unique)
    text = hashlib.sha256(b"".join(keys)).hexdigest()
    path = folder / f"{_name(encoder)}-{text[:12]}-{dtype}"
    store = LayerStore(path, layers, keep=keep).hold()
    if not (missing := _missing(store)):
        return store
    with alone(path, "another run computes the encoder's layers for this data: waiting for it"):
        if missing := _missing(store):
            count = sum(map(len, unique.values()))
            size = count * len(missing) * encoder.dim * np.dtype(dtype).itemsize
            if not _make_room(size, path, max_bytes):
                log.info(
                    "the encoder runs on every batch: its layers for this data would take %.1f GB. "
                    "Stores may take %.1f GB in all (cache.max_bytes), and one of them %.0f %% of "
                    "the %.1f GB that are free at %s",
                    size / 1e9,
                    max_bytes / 1e9,
                    100 * SHARE,
                    shutil.disk_usage(folder).free / 1e9,
                    folder,
                )
                store.keep = any(path.iterdir())
                store.close()
                return None
            log.info(
                "the encoder reads %s sentences once, %s tokens; "
                "layers %s take %.2f GB of %.0f GB that are free: %s",
                f"{len(keys):,}",
                f"{count:,}",
                ", ".join(map(str, missing)),
                size / 1e9,
                shutil.disk_usage(folder).free / 1e9,
                path,
            )
            _write(store, encoder, [unique[key] for key in keys], keys, missing, dtype)
    return store


def find_store(
    encoder: Any,
    sentences: Iterable[Sequence[str]],
    layers: Sequence[int],
    folder: Path,
    *,
    dtype: str = "float32",
) -> LayerStore | None:
    """The store below `folder` that holds the most of these sentences; None if none holds any.

    Nothing is computed: the encoder runs on a batch with a sentence that is not there.
    """
    keys = {sentence_key(sentence) for sentence in sentences if sentence}
    paths = sorted(folder.glob(f"{_name(encoder)}-*-{dtype}"))
    stores = [store for path in paths if not _missing(store := LayerStore(path, layers))]
    counts = [len(keys & store._starts.keys()) for store in stores]
    if not any(counts):
        return None
    best = stores[counts.index(max(counts))].hold()
    if _missing(best):  # it made room for another one meanwhile
        best.keep = False
        best.close()
        return None
    return best


def remove_store(folder: Path) -> bool:
    """Delete a store unless a process reads it; whether it is gone."""
    held = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    except OSError:
        return False
    finally:
        os.close(held)
    return True


def _make_room(size: int, store: Path, max_bytes: float) -> bool:
    """Whether a store may grow by `size` bytes; the least recently used others go if that helps."""
    folder = store.parent
    others = [path for path in folder.iterdir() if path.is_dir() and path != store]
    others.sort(key=lambda path: path.stat().st_mtime)
    sizes = {
        path: sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        for path in (store, *others)
    }
    free, used = shutil.disk_usage(folder).free, sum(sizes.values())
    if sizes[store] + size > max_bytes or size > SHARE * (free + used - sizes[store]):
        return False
    for other in others:
        if used + size <= max_bytes and size <= SHARE * free:
            break
        if remove_store(other):
            log.info("%s makes room: %.2f GB", other, sizes[other] / 1e9)
            free, used = shutil.disk_usage(folder).free, used - sizes[other]
    return used + size <= max_bytes and size <= SHARE * free


def _layer_file(folder: Path, layer: int) -> Path:
    return folder / f"layer{layer}.npy"


def _missing(store: LayerStore) -> list[int]:
    return [layer for layer in store.layers if not _layer_file(store.folder, layer).is_file()]


def _name(encoder: Any) -> str:
    """What tells an encoder's stores from those of others."""
    return f"e{hashlib.sha256(encoder.fingerprint().encode()).hexdigest()[:12]}"


def _write(
    store: LayerStore,
    encoder: Any,
    sentences: Sequence[Sequence[str]],
    keys: Sequence[bytes],
    layers: Sequence[int],
    dtype: str,
) -> None:
    """Compute in a scratch folder, then move the files, so that each is whole or not there."""
    starts = np.array([0, *itertools.accumulate(map(len, sentences))], dtype=np.int64)
    for stale in store.folder.glob(".*"):  # a killed run's
        shutil.rmtree(stale)
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with (
        tempfile.TemporaryDirectory(prefix=".", dir=store.folder) as scratch,
        Progress(*columns) as progress,
    ):
        files = [_layer_file(Path(scratch), layer) for layer in layers]
        count = int(starts[-1])
        shape = (count, encoder.dim)
        arrays = [np.lib.format.open_memmap(file, "w+", np.dtype(dtype), shape) for file in files]
        bar = progress.add_task("encoder", total=count)
        empty: list[str] = []  # the words that the encoder has nothing for
        for number, vectors in encode_each(encoder, sentences, layers):
            stored = vectors.to(getattr(torch, dtype)).cpu()
            if not stored.isfinite().all():
                text = " ".join(sentences[number])[:80]
                raise FloatingPointError(
                    f"the encoder's layers of {text!r} are no finite numbers in {dtype}"
                )
            empty += itertools.compress(sentences[number], (stored == 0).all(-1).all(0).tolist())
            for array, layer in zip(arrays, stored.numpy(), strict=True):
                array[starts[number] : starts[number + 1]] = layer
            progress.update(bar, advance=vectors.shape[1])
        if empty:
            log.info(
                "the encoder gives zeros for %s of %s words, such as %s",
                f"{len(empty):,}",
                f"{count:,}",
                ", ".join(repr(word) for word in dict.fromkeys(empty[:5])),
            )
        rows = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
        np.save(Path(scratch, "keys.npy"), rows)
        np.save(Path(scratch, "starts.npy"), starts[:-1])
        for array in arrays:
            array.flush()
        for name in ("keys.npy", "starts.npy", *(file.name for file in files)):
            Path(scratch, name).replace(store.folder / name)
