"""A file of vectors, one array a sentence, that is written in pieces and survives a kill.

All sizes are known before the first array is computed. The complete file is therefore laid out
first, as OUTPUT.part, and each array is written to its final position. A kill can then only damage
values that will be computed again. OUTPUT.part.json records the inputs, the number of complete
sentences and their checksum.

Axes: N sentences.
"""

import json
import logging
import os
import shutil
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
import torch
from jaxtyping import Int
from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmo_bench.files import atomic, read_json, reserve, scratch_path

log = logging.getLogger(__name__)
Shapes = Sequence[tuple[int, ...]]
HDF5, SAFETENSORS = (".hdf5", ".h5"), (".safetensors",)
LAYOUT = {True: 360, False: 64}  # bytes a sentence at least besides its vectors, in HDF5 or not
HEADER_LIMIT = 100_000_000  # bytes; readers of safetensors reject longer headers


class VectorFile:
    """The part file of an output; its first `done` sentences are complete.

    `write` writes a sentence's array, `close` renames the file to `output`.

    `purpose` records the inputs, as plain data. A part file with the same purpose is resumed. One
    with another purpose, or a damaged one, is replaced, and the log gives the reason.
    """

    def __init__(
        self,
        output: Path,
        shapes: Shapes,
        dtype: torch.dtype,
        purpose: dict[str, Any],
        index: str | None,
    ) -> None:
        self.output, self.part = output, output.with_name(f"{output.name}.part")
        self.journal = output.with_name(f"{output.name}.part.json")
        self.dtype, self.purpose = dtype, purpose
        item = np.dtype(_name(dtype)).itemsize
        counts = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
        self._sizes = np.array(counts, dtype=np.int64) * item
        self.done, self._crc = 0, 0  # number and checksum of the written vectors
        layout = LAYOUT[output.suffix in HDF5] * len(shapes) + len(index or "")
        _room(output, layout + (0 if self.part.is_file() else int(self._sizes.sum())))
        with scratch_path(self.part) as fresh, self._named_errors():
            lay_out = lay_out_hdf5 if output.suffix in HDF5 else lay_out_safetensors
            try:
                lay_out(fresh, shapes, dtype, purpose, index)
            except RuntimeError as error:  # HDF5's own, of a disk that has become full, say
                said = str(error).partition("\n")[0]
                raise OSError(f"cannot write {self.part}{self._free()}: {said}") from error
            if output.suffix in HDF5:
                self._offsets = offsets_in_hdf5(fresh, len(shapes))
            else:
                self._offsets = self._offsets_in_safetensors(fresh)
            if not self._resume(fresh):
                self.journal.unlink(missing_ok=True)
                self.part.unlink(missing_ok=True)
                with fresh.open("r+b") as file:
                    reserve(file, fresh.stat().st_size)
                fresh.replace(self.part)

    def _resume(self, fresh: Path) -> bool:
        """Go on with a part file of the same purpose, if it is as it was left; `fresh` is one
        without vectors.
        """
        if not self.part.is_file() or not self.journal.is_file():
            return False
        try:
            left = read_json(self.journal)
            before, done, crc = dict(left["purpose"]), int(left["done"]), int(left["crc32"])
        except (ValueError, KeyError, TypeError):
            before, done, crc = {}, 0, 0
        if changed := [key for key, value in self.purpose.items() if before.get(key) != value]:
            keys = ", ".join(changed)
            log.info("%s was written by a run with a different %s: starting again", self.part, keys)
            return False
        with self.part.open("rb") as part, fresh.open("rb") as new:
            is_sound = (
                0 <= done <= len(self._sizes)
                and self.part.stat().st_size == fresh.stat().st_size
                and self._crc_of(part, self._layout()) == self._crc_of(new, self._layout())
                and self._crc_of(part, self._vectors(0, done)) == crc
            )
        if not is_sound:
            log.warning("%s is damaged: starting again", self.part)
            return False
        self.done, self._crc = done, crc
        return True

    def _vectors(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        """Yield the ranges of the sentences' vectors in the file."""
        for offset, size in zip(self._offsets[first:last], self._sizes[first:last], strict=True):
            yield int(offset), int(offset + size)

    def _layout(self) -> Iterator[tuple[int, int]]:
        """Yield the ranges of everything else in the file."""
        end = 0
        for start, stop in sorted(self._vectors(0, len(self._sizes))):
            yield end, start
            end = max(end, stop)
        yield end, self.part.stat().st_size

    @staticmethod
    def _crc_of(file: IO[bytes], ranges: Iterable[tuple[int, int]], crc: int = 0) -> int:
        """Continue a CRC-32 over ranges of a file."""
        for start, stop in ranges:
            if start < stop:
                file.seek(start)
                crc = zlib.crc32(file.read(stop - start), crc)
        return crc

    def _offsets_in_safetensors(self, path: Path) -> Int[np.ndarray, " N"]:
        with path.open("rb") as file:
            start = 8 + int.from_bytes(file.read(8), "little")
        return start + np.cumsum(self._sizes) - self._sizes

    @contextmanager
    def filling(self) -> Iterator["VectorFile"]:
        """Open for `write` and `keep`; OSError, which names the file, where the disk is full."""
        with self._named_errors(), self.part.open("r+b") as self._file:
            yield self

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        """Add the file's name to errors of the system that lack it, such as a full disk."""
        try:
            yield
        except OSError as error:
            if error.filename is not None or error.errno is None:
                raise
            raise OSError(
                f"cannot write {self.part}: {os.strerror(error.errno)}{self._free()}; "
                f"{self.done:,} sentences are kept, and the same command continues after them"
            ) from error

    def _free(self) -> str:
        return f" ({in_bytes(shutil.disk_usage(self.part.absolute().parent).free)} free)"

    def write(self, number: int, vectors: Tensor) -> None:
        """Write the array of a sentence where it belongs. Raises FloatingPointError if it is not
        finite.
        """
        if self._sizes[number]:
            stored = vectors.to(self.dtype).cpu()
            if not stored.isfinite().all():
                kind = f"{self.dtype}".removeprefix("torch.")
                raise FloatingPointError(
                    f"{self.output}: the vectors of line {number + 1} are not finite in {kind}"
                    f"{': use dtype=float32' if kind == 'float16' else ''}"
                )
            array = np.ascontiguousarray(stored.numpy())
            self._file.seek(int(self._offsets[number]))
            self._file.write(array.astype(_name(self.dtype)).data)

    def keep(self, done: int) -> None:
        """Flush the first `done` sentences to disk; a killed run resumes after them."""
        self._file.flush()
        file = self._file.fileno()
        os.fsync(file)
        if not self.part.is_file() or not os.path.samestat(self.part.stat(), os.fstat(file)):
            raise OSError(
                f"{self.part}: another run has started to write the same output, or the "
                "file was deleted: this run stops"
            )
        self._crc = self._crc_of(self._file, self._vectors(self.done, done), self._crc)
        self.done = done
        left = {"purpose": self.purpose, "done": done, "crc32": self._crc}
        with atomic(self.journal) as part:
            part.write_text(json.dumps(left), encoding="utf-8")

    def close(self) -> None:
        """Rename the complete file to `output`."""
        self.part.replace(self.output)
        self.journal.unlink(missing_ok=True)


def is_vectors(path: Path) -> bool:
    """Whether a file has the mark of a `VectorFile`."""
    return notes(path) >= {"input", "encoder", "layers", "dtype"}


def notes(path: Path) -> set[str]:
    """Return the names of what an HDF5 or safetensors file says about itself; empty for others."""
    try:
        if path.suffix in HDF5:
            with h5py.File(path, "r") as file:
                return {*file.attrs}
        with safe_open(path, framework="np") as file:
            return {*(file.metadata() or ())}
    except (OSError, ValueError, RuntimeError, SafetensorError):
        return set()


def _name(dtype: torch.dtype) -> str:
    return {torch.float32: "<f4", torch.float16: "<f2"}[dtype]


def _room(output: Path, size: int) -> None:
    free = shutil.disk_usage(output.absolute().parent).free
    if size > free:
        raise OSError(
            f"output={output}: it needs {in_bytes(size)}, but only {in_bytes(free)} are free "
            "(layers=top or average needs a third, dtype=float16 half)"
        )


def in_bytes(size: int | float) -> str:
    """Return a number of bytes in a unit that suits it.

    >>> in_bytes(12), in_bytes(45_600), in_bytes(7.89e9), in_bytes(4e12)
    ('12 bytes', '45.6 kB', '7.9 GB', '4,000.0 GB')
    """
    for unit, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= unit:
            return f"{size / unit:,.1f} {name}"
    return f"{size:.0f} bytes"


def lay_out_hdf5(
    path: Path, shapes: Shapes, dtype: torch.dtype, purpose: dict[str, Any], index: str | None
) -> None:
    """Create an empty dataset "0", "1" ... for each shape, and AllenNLP's index."""
    settings = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    settings.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    settings.set_fill_time(h5py.h5d.FILL_TIME_NEVER)
    settings.set_obj_track_times(False)  # equal inputs give equal bytes
    kind = h5py.h5t.py_create(np.dtype(_name(dtype)))
    with h5py.File(path, "w") as file:
        file.attrs.update(purpose)
        for number, shape in enumerate(shapes):
            space = h5py.h5s.create_simple(shape)
            h5py.h5d.create(file.id, str(number).encode(), kind, space, settings)
        if index is not None:
            file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())[0] = index


def offsets_in_hdf5(path: Path, count: int) -> Int[np.ndarray, " N"]:
    """Return the offset of each dataset's values in the file; -1 for an empty dataset."""
    with h5py.File(path, "r") as file:
        names = (str(number).encode() for number in range(count))
        offsets = (h5py.h5d.open(file.id, name).get_offset() for name in names)
        return np.array([-1 if offset is None else offset for offset in offsets], dtype=np.int64)


def lay_out_safetensors(
    path: Path, shapes: Shapes, dtype: torch.dtype, purpose: dict[str, Any], index: str | None
) -> None:
    """Create empty tensors "0", "1" ...: the header, and a file of the size that it declares.

    The safetensors library can only write tensors that are all in memory.
    """
    item, end = np.dtype(_name(dtype)).itemsize, 0
    header: dict[str, Any] = {"__metadata__": {key: str(value) for key, value in purpose.items()}}
    for number, shape in enumerate(shapes):
        start, end = end, end + int(np.prod(shape, dtype=np.int64)) * item
        header[str(number)] = {
            "dtype": "F32" if item == 4 else "F16",
            "shape": shape,
            "data_offsets": (start, end),
        }
    content = json.dumps(header, separators=(",", ":")).encode()
    content += b" " * (-len(content) % 8)
    if len(content) > HEADER_LIMIT:
        raise ValueError(
            f"{len(shapes):,} sentences are too many for a safetensors file: use output=FILE.hdf5"
        )
    with path.open("wb") as file:
        file.write(len(content).to_bytes(8, "little") + content)
        file.truncate(8 + len(content) + end)
