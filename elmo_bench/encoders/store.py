"""Store the layers of a frozen encoder for the sentences of a data set: computed once, kept on
disk.

A store is a folder with a safetensors file for each layer that a run has requested, and one with
the keys of the sentences. The name of the folder identifies the encoder and the sentences. A file
has its name only once it is complete, so a killed build goes on with the layers that are missing.
The mix is not stored: s_j and gamma stay trainable.

Axes: L layers, B batch, T tokens, D encoder, S sentences, N words of all sentences.
"""

import fcntl
import hashlib
import itertools
import json
import logging
import math
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from elmo_bench.files import Bars, alone, atomic, hold, remove_unheld

from .encode import BATCH_TOKENS, device_of, encode_batches, forget_words, to_host

log = logging.getLogger(__name__)
KEY_BYTES = 16
SHARE = 0.5  # maximum share of the free disk space for a store
VERSION = "v3"
KEYS, LAYER = "keys", "layer"  # the tensors of the two kinds of files
TYPES = {"float32": "F32", "float16": "F16"}  # safetensors' names
# Limits of a GPU's batch, including padding, and of its layers; two or three copies are in memory.
GPU_TOKENS, GPU_BYTES = 1 << 15, 1 << 30
Sentence = tuple[str, ...]


def sentence_key(sentence: Sequence[str]) -> bytes:
    """Return a 16-byte key of a sentence's words."""
    return hashlib.blake2b(json.dumps([*sentence]).encode(), digest_size=KEY_BYTES).digest()


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
        return {name: value for name, value in self.__dict__.items() if name != "_mapped"} | {
            "_held": None
        }

    def hold(self) -> "LayerStore":
        """Prevent others from deleting the store until this process closes it or ends; record its
        use.
        """
        while self._held is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._held = hold(self.folder)
        with suppress(OSError):  # owned by another user, or on a read-only disk
            os.utime(self.folder)
        return self

    def close(self) -> None:
        """Allow others to delete the store; one that is not to be kept is deleted with its last
        reader.
        """
        if self._held is not None:
            with suppress(OSError):  # also unlocks it for workers, which inherit the descriptor
                fcntl.flock(self._held, fcntl.LOCK_UN)
            os.close(self._held)
            self._held = None
        if not self.keep and self.folder.is_dir():
            remove_unheld(self.folder)

    def missing(self) -> list[int]:
        """Return the layers to read that have no file yet; a damaged file is none, with a
        warning.
        """
        missing = []
        for layer in dict.fromkeys(self.layers):
            try:
                _map(self.folder, layer)
            except FileNotFoundError:
                missing.append(layer)
            except ValueError as error:
                log.warning("%s: it is not used", error)
                missing.append(layer)
        return missing

    @cached_property
    def _mapped(self) -> list[tuple[Float[Tensor, "N D"], float]]:
        return [_map(self.folder, layer) for layer in self.layers]

    @property
    def tensors(self) -> list[Float[Tensor, "N D"]]:
        """The layers to read, mapped from their files."""
        return [tensor for tensor, _ in self._mapped]

    @property
    def seconds(self) -> float:
        """The time that the encoder took for the layers to read, in whichever run."""
        return sum({seconds for _, seconds in self._mapped})  # layers of a pass have the same

    @property
    def num_words(self) -> int:
        """The number of rows of a layer."""
        return len(self.tensors[0])

    @property
    def num_bytes(self) -> int:
        """The size of the layers to read."""
        return sum(tensor.nbytes for tensor in self.tensors)

    def rows(self, sentences: Sequence[Sequence[str]]) -> Int[Tensor, "B T"]:
        """Return the row of each word in a layer, and -1 after the end of a sentence."""
        lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
        starts = [self.starts[tuple(sentence)] if sentence else 0 for sentence in sentences]
        places = np.arange(lengths.max(initial=0))
        rows = np.array(starts, dtype=np.int64)[:, None] + places
        return torch.from_numpy(np.where(places < lengths[:, None], rows, -1))

    def __call__(self, rows: Int[Tensor, "B T"]) -> Float[Tensor, "L B T D"]:
        """Return the layers of a batch from the rows of its words; 0 for row -1."""
        layers = torch.stack([tensor[rows] for tensor in self.tensors])
        layers[:, rows < 0] = 0
        return layers

    def on(self, device: torch.device) -> "DeviceLayers":
        """Copy all layers to read to a device."""
        first = self.tensors[0]
        shape = len(self.layers), len(first) + 1, first.shape[1]
        layers = torch.zeros(shape, dtype=first.dtype, device=device)
        for layer, tensor in zip(layers, self.tensors, strict=True):
            layer[:-1].copy_(tensor)
        return DeviceLayers(layers)


class DeviceLayers(NamedTuple):
    """The layers of a store on a device, "L N D"; a batch only needs the row of each word. The last
    row is 0.
    """

    layers: Tensor

    def __call__(self, rows: Int[Tensor, "B T"]) -> Float[Tensor, "L B T D"]:
        """Return the layers of a batch, as the store does."""
        places = rows.flatten() % self.layers.shape[1]  # -1 is the last row
        return self.layers.index_select(1, places).unflatten(1, rows.shape)


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
    layers.

    Returns None, and logs why, if all stores below `folder` together would have more than
    `max_bytes`, if the disk is too small, or if nothing can be written. The encoder runs on
    `device`, where only the process that computes moves it, and is then where it was; by default it
    runs where it is. Raises FloatingPointError if its output is not finite.
    """
    keys = _keys(sentences)
    if not keys:
        return None
    text = hashlib.sha256(b"".join(keys)).hexdigest()[:12]
    path = folder / f"{VERSION}-{_name(encoder)}-{text}-{dtype}"
    store = LayerStore(path, layers, _starts(keys), keep=keep)

    is_complete = False
    try:
        is_complete = _complete(store.hold(), encoder, keys, dtype, max_bytes, device)
    except OSError as error:
        log.warning(
            "cannot write or read %s (%s): running the encoder on every batch",
            path,
            error.strerror or error,
        )
    finally:
        if not is_complete:
            _give_up(store)
    return store if is_complete else None


def _complete(
    store: LayerStore,
    encoder: Any,
    keys: Mapping[bytes, Sentence],
    dtype: str,
    max_bytes: float,
    device: torch.device | None,
) -> bool:
    """Compute the missing layers; return whether there was room for them."""
    if not store.missing():
        return True
    with alone(store.folder, "another run is computing the layers of this data: waiting for it"):
        if not (missing := store.missing()):
            return True
        size = sum(map(len, store.starts)) * len(missing) * encoder.dim
        has_room = _has_room(size * np.dtype(dtype).itemsize, store.folder.parent, max_bytes)
        if has_room:
            with _on(device, encoder):
                _write(store, missing, encoder, keys, dtype)
        return has_room


def find_store(
    encoder: Any,
    sentences: Iterable[Sequence[str]],
    layers: Sequence[int],
    folder: Path,
    *,
    dtype: str = "float32",
) -> LayerStore | None:
    """Return a store below `folder` that has all of these sentences; None if there is none.

    Nothing is computed.
    """
    wanted = _keys(sentences)
    for path in sorted(folder.glob(f"{VERSION}-{_name(encoder)}-*-{dtype}")):
        with suppress(OSError, SafetensorError):  # just deleted, unreadable or damaged
            with safe_open(path / _file(KEYS), framework="pt") as file:
                keys, ends = file.get_tensor(KEYS).numpy(), file.get_tensor("ends").tolist()
            starts = dict(zip(map(bytes, keys), [0, *ends], strict=False))
            if wanted and wanted.keys() <= starts.keys():
                known = {sentence: starts[key] for key, sentence in wanted.items()}
                store = LayerStore(path, layers, known).hold()
                if not store.missing():
                    return store
                _give_up(store)
    return None


def _give_up(store: LayerStore) -> None:
    store.close()
    with suppress(OSError):  # it was not made, or has layers
        store.folder.rmdir()


def _keys(sentences: Iterable[Sequence[str]]) -> dict[bytes, Sentence]:
    """Return the distinct sentences with a word by their keys, in the order of the keys."""
    distinct = {tuple(sentence) for sentence in sentences if sentence}
    return dict(sorted((sentence_key(sentence), sentence) for sentence in distinct))


def _starts(keys: Mapping[bytes, Sentence]) -> dict[Sentence, int]:
    ends = itertools.accumulate(map(len, keys.values()), initial=0)
    return dict(zip(keys.values(), ends, strict=False))


def _name(encoder: Any) -> str:
    """Return the part of a store's name that is the encoder's. Reads all weights."""
    return f"e{hashlib.sha256(encoder.fingerprint().encode()).hexdigest()[:12]}"


def _file(name: str | int) -> str:
    return f"{name if name == KEYS else f'{LAYER}{name}'}.safetensors"


def _map(folder: Path, layer: int) -> tuple[Float[Tensor, "N D"], float]:
    """Map the file of a layer; return it and the seconds that the encoder took.

    Raises FileNotFoundError, or ValueError for a file that is damaged or of another store.
    """
    path = folder / _file(layer)
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("store") != folder.name or about.get("layer") != str(layer):
                raise ValueError(f"{path}: damaged (a layer of another store)")
            return file.get_tensor(LAYER), float(about["seconds"])
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{path}: damaged ({error})") from error


@contextmanager
def _on(device: torch.device | None, encoder: Any) -> Iterator[None]:
    """Move an encoder to a device, and back; give the device's memory back to other processes."""
    before = device_of(encoder)
    if device in (None, before):
        yield
        return
    encoder.to(device)
    try:
        yield
    finally:
        encoder.to(before)
        if device.type == "cuda":
            torch.cuda.empty_cache()


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
        "running the encoder on every batch: its layers for this data would take %.1f GB. All "
        "stores together may take %.1f GB (store.max_bytes) and have %.1f GB; one store may take "
        "%.0f %% of the %.1f GB that are free at %s. job=cache clear=layers deletes all stores",
        size / 1e9,
        max_bytes / 1e9,
        used / 1e9,
        100 * SHARE,
        free / 1e9,
        folder,
    )
    return False


def _write(
    store: LayerStore,
    layers: Sequence[int],
    encoder: Any,
    keys: Mapping[bytes, Sentence],
    dtype: str,
) -> None:
    """Compute layers and write a file for each; each is renamed when all are complete."""
    ends = [*itertools.accumulate(map(len, keys.values()))]
    with atomic(store.folder / _file(KEYS)) as part:
        rows = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
        save_file({KEYS: torch.from_numpy(rows.copy()), "ends": torch.tensor(ends)}, part)
    shape = ends[-1], encoder.dim
    size = len(layers) * math.prod(shape) * np.dtype(dtype).itemsize
    log.info(
        "encoding %s sentences once, %s tokens; layers %s take %.2f GB of %.0f GB free: %s",
        f"{len(keys):,}",
        f"{ends[-1]:,}",
        ", ".join(map(str, layers)),
        size / 1e9,
        shutil.disk_usage(store.folder).free / 1e9,
        store.folder,
    )
    begun = time.perf_counter()
    with ExitStack() as stack:
        paths = [stack.enter_context(atomic(store.folder / _file(layer))) for layer in layers]
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for layer, file in zip(layers, files, strict=True):
            file.write(_header(store.folder.name, layer, shape, dtype, 0.0))
        _write_layers(files, layers, encoder, list(keys.values()), dtype)
        seconds = time.perf_counter() - begun
        for layer, file in zip(layers, files, strict=True):
            file.seek(0)
            file.write(_header(store.folder.name, layer, shape, dtype, seconds))
            file.flush()
            os.fsync(file.fileno())


def _header(store: str, layer: int, shape: tuple[int, int], dtype: str, seconds: float) -> bytes:
    """Return the header of a layer's safetensors file; its length does not depend on `seconds`."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    about = {"store": store, "layer": str(layer), "seconds": f"{seconds:020.6f}"}
    tensor = {"dtype": TYPES[dtype], "shape": [*shape], "data_offsets": [0, size]}
    text = json.dumps({"__metadata__": about, LAYER: tensor}).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _write_layers(
    files: Sequence[IO[bytes]],
    layers: Sequence[int],
    encoder: Any,
    sentences: Sequence[Sentence],
    dtype: str,
) -> None:
    """Write the layers behind the headers of their files.

    A thread writes a batch while the next one is computed. No memory map is used: on a full disk
    that would end the process without a message.
    """
    begin = files[0].tell()
    row = encoder.dim * np.dtype(dtype).itemsize
    at = [begin + row * start for start in itertools.accumulate(map(len, sentences), initial=0)]
    forget_words(encoder)  # a store does not depend on what was read before
    with ThreadPoolExecutor(1) as writer, Bars() as bars:
        bar = bars.add_task("encoder", total=sum(map(len, sentences)))
        writing: Future[None] | None = None
        tokens = BATCH_TOKENS
        if device_of(encoder).type == "cuda":
            fitting = GPU_BYTES // (4 * encoder.dim * len(layers))
            tokens = max(tokens, min(GPU_TOKENS, fitting))
        for numbers, vectors in encode_batches(encoder, sentences, layers, batch_tokens=tokens):
            batch = {at[number]: sentences[number] for number in numbers}
            copy, wait = to_host(vectors.to(getattr(torch, dtype)))
            if writing is not None:
                writing.result()  # limits the host to two batches
            writing = writer.submit(_write_batch, files, batch, copy, wait)
            bars.advance(bar, sum(map(len, batch.values())))
        if writing is not None:
            writing.result()


def _write_batch(
    files: Sequence[IO[bytes]],
    batch: Mapping[int, Sentence],
    copy: Float[Tensor, "L B T D"],
    wait: Callable[[], object],
) -> None:
    """Write a batch once it is on the host: each layer to its file, each sentence at its offset."""
    wait()
    copy = copy.contiguous()
    if copy.numel() and not torch.stack(copy.aminmax()).isfinite().all():
        finite = copy.isfinite().all(-1).all(-1).all(0)
        text = " ".join([*batch.values()][finite.tolist().index(False)])[:80]
        dtype = f"{copy.dtype}".removeprefix("torch.")
        raise FloatingPointError(f"the encoder's layers of {text!r} are not finite in {dtype}")
    for number, (start, sentence) in enumerate(batch.items()):
        for file, layer in zip(files, copy[:, number, : len(sentence)].numpy(), strict=True):
            file.seek(start)
            file.write(layer.data)
