"""Files of an encoder's vectors, one array a sentence, named "0", "1" ...: HDF5, which a killed run
goes on with, or safetensors, which is written in one go.

Axes: L layers, T tokens of a sentence, D encoder.
"""

import hashlib
import logging
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from jaxtyping import Float
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from elmo_bench.files import atomic, in_bytes

log = logging.getLogger(__name__)
Array = Float[np.ndarray, "..."]  # of shape "L T D" or "T D"
Pieces = Callable[[int], Iterable[Sequence[Array]]]  # the arrays from a sentence on, in pieces
HDF5, SAFETENSORS = (".hdf5", ".h5"), (".safetensors",)
PROGRESS = "progress"  # attribute of an unfinished file: complete sentences, and their sha256
INDEX = "sentence_to_index"  # AllenNLP's name of it
LAYOUT = 400  # bytes a sentence at least besides its vectors


def write_hdf5(output: Path, pieces: Pieces, purpose: Mapping[str, Any], index: str | None) -> None:
    """Write all arrays to OUTPUT.part, which then becomes `output`, with AllenNLP's index.

    `purpose` records the inputs. After each piece the file is complete up to there. A part file of
    the same purpose is continued; one of another, or a damaged one, is replaced, and the log gives
    the reason. Raises OSError, which names the file, where the disk is full, and what `pieces`
    raises.
    """
    part = output.with_name(f"{output.name}.part")
    done, digest = _done(part, purpose)
    with _named_errors(part):
        file = h5py.File(part, "a" if done else "w")
    try:
        with _named_errors(part):
            file.attrs.update(purpose)
            for name in [*file]:
                if name == INDEX or int(name) >= done:  # what a kill has left
                    del file[name]
        for piece in pieces(done):
            with _named_errors(part):
                _append(file, piece, done, digest)
            done += len(piece)
        with _named_errors(part):
            if index is not None:
                file.create_dataset(INDEX, (1,), dtype=h5py.string_dtype())[0] = index
            file.attrs.pop(PROGRESS, None)
    finally:
        with _named_errors(part):
            file.close()
    part.replace(output)


def _append(file: h5py.File, piece: Sequence[Array], done: int, digest: Any) -> None:
    """Add arrays to a file of `done` sentences, and then the number that it has."""
    for number, array in enumerate(piece, done):
        file.create_dataset(str(number), data=array)
        digest.update(array.tobytes())
    file.flush()  # the arrays, before the file says that they are there
    file.attrs[PROGRESS] = f"{done + len(piece)} {digest.hexdigest()}"
    file.flush()
    os.fsync(file.id.get_vfd_handle())


def _done(part: Path, purpose: Mapping[str, Any]) -> tuple[int, Any]:
    """Return how many sentences of a part file are complete, and the digest of their arrays."""
    if not part.is_file():
        return 0, hashlib.sha256()
    digest = hashlib.sha256()
    try:
        with h5py.File(part, "r") as file:
            changed = [key for key, value in purpose.items() if file.attrs.get(key) != value]
            done, _, expected = str(file.attrs.get(PROGRESS, "0")).partition(" ")
            for number in range(0 if changed else int(done)):
                digest.update(file[str(number)][()].tobytes())
    except Exception:  # a damaged file causes many types of errors
        changed, expected = [], "damaged"
    if changed:
        keys = ", ".join(changed)
        log.info("%s was written by a run with a different %s: starting again", part, keys)
    elif expected == digest.hexdigest():
        log.info("%s has %s sentences: continuing after them", part, f"{int(done):,}")
        return int(done), digest
    elif expected:
        log.warning("%s is damaged: starting again", part)
    return 0, hashlib.sha256()


def write_safetensors(output: Path, pieces: Pieces, purpose: Mapping[str, Any]) -> None:
    """Write all arrays to `output`, atomically; memory holds all of them, as the library needs."""
    arrays = (array for piece in pieces(0) for array in piece)
    named = {str(number): np.ascontiguousarray(array) for number, array in enumerate(arrays)}
    with atomic(output) as part, _named_errors(output):
        save_file(named, part, {key: str(value) for key, value in purpose.items()})


def check_room(output: Path, sizes: Iterable[int]) -> None:
    """Raise OSError unless arrays of these bytes fit onto the disk; and ValueError if a safetensors
    file of them does not fit into memory.
    """
    size = sum(LAYOUT + each for each in sizes)
    part = output.with_name(f"{output.name}.part")
    free = shutil.disk_usage(output.absolute().parent).free
    free += part.stat().st_size if part.is_file() else 0
    if size > free:
        raise OSError(
            f"output={output}: it needs {in_bytes(size)}, but only {in_bytes(free)} are free "
            "(layers=top or average needs a third, dtype=float16 half)"
        )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if output.suffix in SAFETENSORS and size > memory:
        raise ValueError(
            f"output={output}: a safetensors file is written from memory, and {in_bytes(size)} are "
            "more than this machine has: use output=FILE.hdf5"
        )


@contextmanager
def _named_errors(path: Path) -> Iterator[None]:
    """Add the file's name to the libraries' errors of a full disk, which lack it."""
    try:
        yield
    except (OSError, RuntimeError, SafetensorError) as error:
        if isinstance(error, OSError) and error.filename is not None:
            raise
        free = in_bytes(shutil.disk_usage(path.absolute().parent).free)
        said = str(error).partition("\n")[0]
        raise OSError(f"cannot write {path} ({free} free): {said}") from error


def is_vectors(path: Path) -> bool:
    """Whether a file is one that `write_hdf5` or `write_safetensors` has written."""
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
