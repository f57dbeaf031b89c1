"""Store the layers of a frozen encoder for the sentences of a data set: computed once, kept on
disk.

A store is a folder of memory-mapped arrays: the keys of the sentences, the position where each
begins, and one file for each layer that a run has requested. `store.json` is written last and
records the shape, type and checksum of each file; files that it does not list do not count. The
name of the folder identifies the encoder and the sentences. The mix is not stored: s_j and gamma
stay trainable.

Opening a store verifies the checksums of the files to read. A damaged file is renamed to
FILE.damaged and computed again.

Axes: L layers, B batch, T tokens, D encoder, S sentences.
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
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from rich.progress import (
    BarColumn,
    TaskProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from torch import Tensor

from elmo_bench.files import Bars, alone, atomic, hold, read_json, remove_unheld, reserve

from .encode import BATCH_TOKENS, device_of, encode_batches, forget_words, to_host

log = logging.getLogger(__name__)
KEY_BYTES = 16
SHARE = 0.5  # maximum share of the free disk space for a store
# (sentences, layers, the store's folder, dtype) -> whether to store these layers.
IsWorth = Callable[[Sequence[Sequence[str]], Sequence[int], Path, str], bool]
VERSION = "v2"
HEADER, KEYS, STARTS, ASIDE = "store.json", "keys.bin", "starts.bin", ".damaged"
# Limits of a GPU's batch, including padding, and of its layers; two or three copies are in memory.
GPU_TOKENS, GPU_BYTES = 1 << 15, 1 << 30
COPIED = 1 << 15  # rows copied to a device at once
BLOCK, THREADS = 1 << 20, 4  # for checksums: 3.9 GB/s on two cores, 3.0 GB/s on one


def sentence_key(sentence: Sequence[str]) -> bytes:
    """Return a 16-byte key of a sentence's words."""
    return hashlib.blake2b(json.dumps([*sentence]).encode(), digest_size=KEY_BYTES).digest()


class LayerStore:
    """Read the layers of stored sentences: the requested layers, in that order.

    The store is checked once, before it is read. It may then be sent to data loader workers, which
    map the same files. A store that is not to be kept is deleted when it is closed.
    """

    def __init__(self, folder: Path, layers: Sequence[int], *, keep: bool = True) -> None:
        self.folder, self.layers, self.keep = folder, list(layers), keep
        self.files: dict[str, Any] = {}  # header entries of the intact files
        self._held: int | None = None

    def __getstate__(self) -> dict[str, Any]:
        mapped = ("_starts", "_arrays")
        kept = {name: value for name, value in self.__dict__.items() if name not in mapped}
        return {**kept, "_held": None}

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

    def check(self) -> dict[str, str]:
        """Compare the files to read with the header; return what is wrong, by file.

        This takes 0.3 s per gigabyte in the page cache, otherwise as long as reading from disk,
        which training then need not do.
        """
        try:
            self.files = _header(self.folder)
        except FileNotFoundError:  # no file is complete yet
            self.files = {}
        except ValueError as error:
            self.files = {}
            return {HEADER: str(error)}
        faults = {
            name: fault
            for name in self.names
            if name in self.files and (fault := _fault(self.folder / name, self.files[name]))
        }
        self.files = {name: about for name, about in self.files.items() if name not in faults}
        return faults

    @property
    def names(self) -> list[str]:
        """The files to read."""
        return [KEYS, STARTS, *map(_layer_file, self.layers)]

    @property
    def missing(self) -> list[str]:
        """The files that were missing or damaged when the store was checked."""
        return [name for name in self.names if name not in self.files]

    @property
    def seconds(self) -> float | None:
        """The time that the encoder took for the layers to read, in whichever run; None if an
        earlier version computed them.
        """
        # Each layer of a pass has the time of the whole pass.
        passes = {self.files[_layer_file(layer)].get("seconds") for layer in self.layers}
        return None if None in passes else sum(passes)

    def _map(self, name: str) -> np.ndarray:
        about = self.files[name]
        return np.memmap(self.folder / name, about["dtype"], "r", shape=tuple(about["shape"]))

    @cached_property
    def _starts(self) -> dict[bytes, int]:
        keys, starts = np.asarray(self._map(KEYS)), np.asarray(self._map(STARTS))
        return {key.tobytes(): int(start) for key, start in zip(keys, starts, strict=True)}

    @cached_property
    def _arrays(self) -> dict[int, np.ndarray]:
        return {layer: self._map(_layer_file(layer)) for layer in self.layers}

    def __call__(
        self, sentences: Sequence[Sequence[str]], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "L B T D"] | None:
        """Return the layers of a batch, 0 after the end of a sentence; None if a sentence is not
        stored.
        """
        if (rows := self._rows(sentences, mask, past=0)) is None:
            return None
        layers = torch.from_numpy(np.stack([array[rows] for array in self._arrays.values()]))
        layers[:, ~mask] = 0
        return layers

    def rows(
        self, sentences: Sequence[Sequence[str]], mask: Bool[Tensor, "B T"]
    ) -> Int[Tensor, "B T"] | None:
        """Return the row of each word in a layer; after the end of a sentence, the row after the
        last one. None if a sentence is not stored.
        """
        rows = self._rows(sentences, mask, past=self.num_words)
        return None if rows is None else torch.from_numpy(rows)

    def _rows(
        self, sentences: Sequence[Sequence[str]], mask: Bool[Tensor, "B T"], *, past: int
    ) -> Int[np.ndarray, "B T"] | None:
        starts = [
            self._starts.get(sentence_key(sentence)) if sentence else 0 for sentence in sentences
        ]
        if None in starts:
            return None
        return np.where(mask, np.array(starts)[:, None] + np.arange(mask.shape[1]), past)

    @property
    def num_words(self) -> int:
        """The number of rows of a layer."""
        return self._shape[0]

    @property
    def num_bytes(self) -> int:
        """The size of the layers to read."""
        files = [self.files[_layer_file(layer)] for layer in self.layers]
        return sum(math.prod(about["shape"]) * np.dtype(about["dtype"]).itemsize for about in files)

    @property
    def _shape(self) -> tuple[int, int]:
        rows, width = self.files[_layer_file(self.layers[0])]["shape"]
        return rows, width

    def on(self, device: torch.device) -> "DeviceLayers":
        """Copy all layers to read to a device."""
        rows, width = self._shape
        first = next(iter(self._arrays.values()))
        dtype = torch.from_numpy(first[:0].copy()).dtype
        layers = torch.zeros(len(self.layers), rows + 1, width, dtype=dtype, device=device)
        for layer, array in zip(layers, self._arrays.values(), strict=True):
            for start in range(0, rows, COPIED):
                part = torch.from_numpy(array[start : start + COPIED].copy())
                layer[start : start + len(part)] = part.to(device)
        return DeviceLayers(layers)


class DeviceLayers(NamedTuple):
    """The layers of a store on a device, "L N D"; a batch only needs the row of each word. The last
    row is 0.
    """

    layers: Tensor

    def __call__(self, rows: Int[Tensor, "B T"]) -> Float[Tensor, "L B T D"]:
        """Return the layers of a batch, as the store does."""
        return self.layers.index_select(1, rows.flatten()).unflatten(1, rows.shape)


def build_store(
    encoder: Any,
    sentences: Iterable[Sequence[str]],
    layers: Sequence[int],
    folder: Path,
    *,
    dtype: str = "float32",
    max_bytes: float = math.inf,
    keep: bool = True,
    is_worth: IsWorth | None = None,
    device: torch.device | None = None,
) -> LayerStore | None:
    """Open or build the store of these sentences below `folder`; one process computes the missing
    layers.

    Returns None if `is_worth` decides against storing the missing layers.

    All stores below `folder` together use at most `max_bytes`: the least recently used ones that no
    process reads are deleted. Returns None, and logs why, if that limit or the disk is too small or
    nothing can be written. The encoder runs on `device`, where only the process that computes moves
    it, and is then where it was; by default it runs where it is. Raises FloatingPointError if its
    output is not finite.
    """
    unique = {sentence_key(sentence): sentence for sentence in sentences if sentence}
    if not unique:
        return None
    text = hashlib.sha256(b"".join(sorted(unique))).hexdigest()
    earlier = _earlier_name(encoder)
    path = folder / f"{VERSION}-{earlier}-{text[:12]}-{dtype}"
    _tell_of_earlier(earlier, folder)
    store = LayerStore(path, layers, keep=keep)
    try:
        store.hold().check()
        if not store.missing:
            return store
        waiting = "another run is computing the layers of this data: waiting for it"
        with alone(path, waiting):
            for scratch in path.glob(".*"):  # left by a killed run
                _remove(scratch)
            _set_aside(path, store.check())  # another process may have repaired it
            if not store.missing:
                return store
            with _on(device, encoder):
                if _complete(store, encoder, unique, dtype, max_bytes, is_worth):
                    return store
    except OSError as error:
        log.warning(
            "cannot write or read %s (%s): running the encoder on every batch",
            path,
            error.strerror or error,
        )
    with suppress(OSError):  # it was not made, or cannot be read: another user's
        store.keep = store.keep and any(path.iterdir())
    store.close()
    return None


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


def _complete(
    store: LayerStore,
    encoder: Any,
    sentences: Mapping[bytes, Sequence[str]],
    dtype: str,
    max_bytes: float,
    is_worth: IsWorth | None,
) -> bool:
    """Compute the missing layers of these sentences, by key; return False if that is not worthwhile
    or there is not enough space.
    """
    folder, count = store.folder.parent, sum(map(len, sentences.values()))
    layers = [layer for layer in store.layers if _layer_file(layer) in store.missing]
    if layers and is_worth and not is_worth([*sentences.values()], layers, store.folder, dtype):
        return False
    size = count * len(layers) * encoder.dim * np.dtype(dtype).itemsize
    if not _make_room(size, store.folder, max_bytes):
        log.info(
            "running the encoder on every batch: its layers for this data would take %.1f "
            "GB. All stores together may take %.1f GB (cache.max_bytes), and one store "
            "%.0f %% of the %.1f GB that are free at %s",
            size / 1e9,
            max_bytes / 1e9,
            100 * SHARE,
            shutil.disk_usage(folder).free / 1e9,
            folder,
        )
        return False
    if layers:
        log.info(
            "encoding %s sentences once, %s tokens; layers %s take %.2f GB of %.0f GB free: %s",
            f"{len(sentences):,}",
            f"{count:,}",
            ", ".join(map(str, layers)),
            size / 1e9,
            shutil.disk_usage(folder).free / 1e9,
            store.folder,
        )
    columns = [
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    ]
    with Bars(*columns) as progress:
        bar = progress.add_task("encoder", total=count)
        empty = write(store, encoder, sentences, layers, dtype, partial(progress.advance, bar))
    if empty:
        log.info(
            "the encoder returns zeros for %s of %s words, such as %s",
            f"{len(empty):,}",
            f"{count:,}",
            ", ".join(repr(word) for word in dict.fromkeys(empty[:5])),
        )
    return True


def find_store(
    encoder: Any,
    sentences: Iterable[Sequence[str]],
    layers: Sequence[int],
    folder: Path,
    *,
    dtype: str = "float32",
) -> LayerStore | None:
    """Return the store below `folder` with the most of these sentences; None if none has any.

    Nothing is computed: for a batch with a missing sentence the encoder runs.
    """
    keys = {sentence_key(sentence) for sentence in sentences if sentence}
    stores = []
    for path in sorted(folder.glob(f"{VERSION}-{_earlier_name(encoder)}-*-{dtype}")):
        # Check sentences first; layers are read only from the chosen store.
        store = LayerStore(path, [])
        _warn(path, store.check())
        if not store.missing and set(map(_layer_file, layers)) <= store.files.keys():
            with suppress(OSError):  # another run has just deleted it to make room
                stores.append((len(keys & store._starts.keys()), path))
    count, path = max(stores, default=(0, folder), key=lambda counted: counted[0])
    if not count:
        return None
    best = LayerStore(path, layers).hold()
    _warn(path, best.check())
    if best.missing:  # damaged, or deleted in the meantime to make room
        best.keep = any(path.iterdir())
        best.close()
        return None
    return best


def _warn(folder: Path, faults: Mapping[str, str]) -> None:
    for name, fault in faults.items():
        log.warning("%s %s: this store is not used", folder / name, fault)


def _make_room(size: int, store: Path, max_bytes: float) -> bool:
    """Whether a store may grow by `size` bytes. If necessary, delete damaged files first, then the
    least recently used other stores.
    """
    folder = store.parent
    used_at: dict[Path, float] = {}
    for path in folder.iterdir():
        with suppress(OSError):  # another run has just deleted it
            if path.is_dir() and path != store:
                used_at[path] = path.stat().st_mtime
    others = sorted(used_at, key=used_at.__getitem__)
    sizes = {path: _size(path) for path in (store, *others)}
    if sum(sizes.values()) + size > max_bytes or size > SHARE * shutil.disk_usage(folder).free:
        for aside in folder.glob(f"*/*{ASIDE}"):
            _remove(aside)
        sizes = {path: _size(path) for path in sizes}
    free, used = shutil.disk_usage(folder).free, sum(sizes.values())
    if sizes[store] + size > max_bytes or size > SHARE * (free + used - sizes[store]):
        return False
    for other in others:
        if used + size <= max_bytes and size <= SHARE * free:
            break
        if remove_unheld(other):
            log.info("deleting %s to free %.2f GB", other, sizes[other] / 1e9)
            free, used = shutil.disk_usage(folder).free, used - sizes[other]
    return used + size <= max_bytes and size <= SHARE * free


def _size(folder: Path) -> int:
    """Return the size of all its files; files and folders that disappear meanwhile are skipped."""
    size = 0
    with suppress(OSError):
        for path in folder.rglob("*"):
            with suppress(OSError):
                size += path.lstat().st_size if not path.is_dir() else 0
    return size


def _remove(path: Path) -> None:
    """Delete a file or a folder if it exists."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _layer_file(layer: int) -> str:
    return f"layer{layer}.bin"


def _earlier_name(encoder: Any) -> str:
    """Return the name of an encoder's stores without the `VERSION` in front that today's stores
    have. Reads all weights.
    """
    return f"e{hashlib.sha256(encoder.fingerprint().encode()).hexdigest()[:12]}"


def _tell_of_earlier(name: str, folder: Path) -> None:
    """Log that stores of an earlier version, which have no checksums, are not read."""
    for path in folder.glob(f"{name}-*"):
        if path.is_dir():
            log.info(
                "ignoring %s, which was written by an earlier version without checksums; "
                "job=cache clear=layers deletes it",
                path,
            )


def _header(folder: Path) -> dict[str, Any]:
    """Return the shape, type and checksum of each file of a store.

    Raises FileNotFoundError if there is no header yet, and ValueError if it is damaged or belongs
    to another store.
    """
    try:
        content = read_json(folder / HEADER)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ValueError(f"is damaged: {error}") from error
    files = content.get("files")
    if content != _as_header(folder, files):
        raise ValueError("is damaged, or belongs to another store")
    return files


def _as_header(folder: Path, files: Any) -> dict[str, Any]:
    text = json.dumps([folder.name, files], sort_keys=True)
    return {"store": folder.name, "files": files, "crc32": zlib.crc32(text.encode())}


def _about(path: Path, shape: Sequence[int], dtype: np.dtype) -> dict[str, Any]:
    """Return the entry of the header for a file with such an array."""
    return {"shape": [*shape], "dtype": dtype.str, "crc32": _crc32(path)}


def _fault(path: Path, about: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a file, compared with its entry in the header."""
    size = math.prod(about["shape"]) * np.dtype(about["dtype"]).itemsize
    try:
        if not path.is_file():
            return "is not there"
        if (present := path.stat().st_size) != size:
            return f"has {present:,} bytes instead of {size:,}"
        if _crc32(path) != about["crc32"]:
            return "does not match its checksum"
    except OSError as error:
        return f"cannot be read: {error.strerror}"
    return None


def _crc32(path: Path) -> int:
    """Return the CRC-32 of the CRC-32s of a file's blocks, which threads compute in parallel.

    Sums of 64-bit numbers would be twice as fast but would not detect swapped blocks.
    """
    with path.open("rb") as file, ThreadPoolExecutor(THREADS) as pool:
        starts = range(0, os.fstat(file.fileno()).st_size, BLOCK)
        sums = pool.map(lambda start: zlib.crc32(os.pread(file.fileno(), BLOCK, start)), starts)
        return zlib.crc32(np.array([*sums], dtype="<u4").tobytes())


def _set_aside(folder: Path, faults: Mapping[str, str]) -> None:
    """Rename damaged files, replacing files of the same name that were renamed before."""
    for name, fault in faults.items():
        path = folder / name
        log.warning("%s %s: renamed to %s%s and built again", path, fault, name, ASIDE)
        if path.is_symlink() or path.exists():
            aside = path.with_name(name + ASIDE)
            _remove(aside)
            path.rename(aside)


def write(
    store: LayerStore,
    encoder: Any,
    sentences: Mapping[bytes, Sequence[str]],
    layers: Sequence[int],
    dtype: str,
    advance: Callable[[int], object] = lambda tokens: None,
) -> list[str]:
    """Compute layers in a scratch folder, move the files, and only then add them to the header;
    `advance` is called with the number of tokens of each batch. Returns the words for which the
    encoder returned only zeros.
    """
    empty: list[str] = []
    folder, keys = store.folder, sorted(sentences)
    ordered = [sentences[key] for key in keys]
    ends = np.array([*itertools.accumulate(map(len, ordered))], dtype=np.int64)
    rows = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
    starts = np.array([0, *ends[:-1]], dtype=np.int64)
    arrays: dict[str, np.ndarray] = {KEYS: rows, STARTS: starts}
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as name:
        part = Path(name)
        for file, array in arrays.items():
            (part / file).write_bytes(array.tobytes())
        files = {
            file: _about(part / file, array.shape, array.dtype) for file, array in arrays.items()
        }
        if layers:
            paths = [part / _layer_file(layer) for layer in layers]
            begun = time.perf_counter()
            empty = _write_layers(encoder, ordered, starts, layers, paths, dtype, advance)
            seconds = {"seconds": time.perf_counter() - begun}
            shape = [int(ends[-1]), encoder.dim]
            files |= {path.name: _about(path, shape, np.dtype(dtype)) | seconds for path in paths}
        for file in files:
            (part / file).replace(folder / file)
    store.files |= files
    with atomic(folder / HEADER) as part:
        part.write_text(json.dumps(_as_header(folder, store.files)), encoding="utf-8")
    for path in folder.glob("*.bin"):  # left by a killed run, or their header was damaged
        if path.name not in store.files:
            _remove(path)
    return empty


def _write_layers(
    encoder: Any,
    sentences: Sequence[Sequence[str]],
    starts: Int[np.ndarray, " S"],
    layers: Sequence[int],
    paths: Sequence[Path],
    dtype: str,
    advance: Callable[[int], object],
) -> list[str]:
    """Write one file per layer; sentence k begins at row `starts[k]`. Returns the words with only
    zeros.

    A thread writes a batch while the next one is computed. No memory map is used: on a full disk
    that would end the process without a message.
    """
    count = sum(map(len, sentences))
    row = encoder.dim * np.dtype(dtype).itemsize
    empty: list[str] = []
    with ExitStack() as stack:
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for file in files:
            reserve(file, count * row)
        writer = stack.enter_context(ThreadPoolExecutor(1))
        writing: Future[list[str]] | None = None

        def end_of_writing() -> None:
            if writing is not None:
                empty.extend(writing.result())

        forget_words(encoder)  # of a measurement, which a run that goes on does not repeat
        tokens = _batch_tokens(device_of(encoder), 4 * encoder.dim * len(layers))
        for numbers, vectors in encode_batches(encoder, sentences, layers, batch_tokens=tokens):
            batch = [sentences[number] for number in numbers]
            copy, wait = to_host(_narrowed(vectors, getattr(torch, dtype)))
            end_of_writing()  # limits the host to two batches
            at = [int(starts[number]) * row for number in numbers]
            writing = writer.submit(_write_batch, files, at, batch, copy, wait, dtype)
            advance(sum(map(len, batch)))
        end_of_writing()
    return empty


def _batch_tokens(device: torch.device, size: int) -> int:
    """Return how many tokens of so many bytes each to compute at once."""
    if device.type != "cuda":
        return BATCH_TOKENS
    return max(BATCH_TOKENS, min(GPU_TOKENS, GPU_BYTES // size))


def _narrowed(vectors: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert to the type of the store if that is narrower, so that fewer bytes are copied."""
    return vectors.to(dtype) if dtype.itemsize < vectors.dtype.itemsize else vectors


def _write_batch(
    files: Sequence[IO[bytes]],
    at: Sequence[int],
    sentences: Sequence[Sequence[str]],
    copy: Float[Tensor, "L B T D"],
    wait: Callable[[], object],
    dtype: str,
) -> list[str]:
    """Write a batch once it is on the host: each layer to its file, each sentence at its offset.
    Returns the words with only zeros.
    """
    wait()
    stored = copy.to(getattr(torch, dtype)).contiguous()
    if stored.numel() and not torch.stack(stored.aminmax()).isfinite().all():
        finite = stored.isfinite().all(-1).all(-1).all(0)
        text = " ".join(sentences[finite.tolist().index(False)])[:80]
        raise FloatingPointError(f"the encoder's layers of {text!r} are not finite in {dtype}")
    for number, (start, sentence) in enumerate(zip(at, sentences, strict=True)):
        for file, layer in zip(files, stored[:, number, : len(sentence)].numpy(), strict=True):
            file.seek(start)
            file.write(layer.data)
    # Only words whose first number is 0 need a full check, and these are few.
    rows, columns = (stored[0, ..., 0] == 0).nonzero(as_tuple=True)
    zeros = ~stored[:, rows, columns].any(-1).any(0)
    return [
        sentences[row][column]
        for row, column in zip(rows[zeros].tolist(), columns[zeros].tolist(), strict=True)
        if column < len(sentences[row])
    ]
