"""HDF5 files of an encoder's vectors in AllenNLP's layout: one array a sentence, named "0", "1" ...

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
from rich.filesize import decimal as in_bytes

log = logging.getLogger(__name__)
Array = Float[np.ndarray, "..."]  # of shape "L T D" or "T D"
Pieces = Callable[[int], Iterable[Sequence[Array]]]  # the arrays from a sentence on, in pieces
HDF5 = (".hdf5", ".h5")
COMPLETE = "complete"  # attribute: how many sentences the file has, and their sha256
INDEX = "sentence_to_index"  # AllenNLP's name of it


def write_vectors(output: Path, pieces: Pieces, purpose: Mapping[str, Any], index: str) -> None:
    """Write all arrays to OUTPUT.part, which then becomes `output`, with AllenNLP's index.

    `purpose` records the inputs. After each piece the file is complete up to there. A part file of
    the same purpose is continued; one of another, or a damaged one, is replaced. Raises OSError,
    which names the file, where the disk is full, and what `pieces` raises.
    """
    part = output.with_name(f"{output.name}.part")
    done, digest = _done(part, purpose)
    with _opened(part, "a" if done else "w") as file:
        file.attrs.update(purpose)
        for name in list(file):
            if name == INDEX or int(name) >= done:  # what a kill has left
                del file[name]
    for piece in pieces(done):
        with _opened(part, "a") as file:
            for number, array in enumerate(piece, done):
                file.create_dataset(str(number), data=array)
                digest.update(array.tobytes())
            file.flush()  # the arrays, before the file says that they are there
            done += len(piece)
            file.attrs[COMPLETE] = f"{done} {digest.hexdigest()}"
    with _opened(part, "a") as file:
        file.create_dataset(INDEX, (1,), dtype=h5py.string_dtype())[0] = index
    part.replace(output)


def _done(part: Path, purpose: Mapping[str, Any]) -> tuple[int, Any]:
    """Return how many sentences of a part file are complete, and the digest of their arrays."""
    digest = hashlib.sha256()
    try:
        with h5py.File(part, "r") as file:
            done, expected = str(file.attrs[COMPLETE]).split(" ")
            is_same = all(file.attrs[key] == value for key, value in purpose.items())
            for number in range(int(done) if is_same else 0):
                digest.update(file[str(number)][()].tobytes())
        if digest.hexdigest() == expected:
            log.info("%s has %s sentences: continuing after them", part, f"{int(done):,}")
            return int(done), digest
    except Exception as error:  # a damaged file causes many types of errors
        log.debug("%s: %s", part, error)
    if part.is_file():
        log.warning("%s is damaged, or of another input, encoder or setting: starting again", part)
    return 0, hashlib.sha256()


@contextmanager
def _opened(path: Path, mode: str) -> Iterator[h5py.File]:
    """Open a file, and name it in the library's errors of a full disk, which lack it."""
    try:
        with h5py.File(path, mode) as file:
            yield file
            file.flush()
            os.fsync(file.id.get_vfd_handle())
    except (OSError, RuntimeError) as error:
        free = in_bytes(shutil.disk_usage(path.absolute().parent).free)
        reason = str(error).partition("\n")[0]
        raise OSError(f"cannot write {path} ({free} free): {reason}") from error


def is_vectors(path: Path) -> bool:
    """Whether a file is one that `write_vectors` has written."""
    try:
        with h5py.File(path, "r") as file:
            return set(file.attrs) >= {"input", "encoder", "layers", "dtype"}
    except (OSError, ValueError, RuntimeError):
        return False
