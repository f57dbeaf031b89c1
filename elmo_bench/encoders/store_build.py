"""Build a store of layers: a folder with a safetensors file for each layer that some run reads.

A file has the words of all distinct sentences, shortest first and then by their hashes, which is
the order in which an encoder reads them. The name of the folder identifies the encoder and the
sentences. A file has its name only once it is complete, so a killed build goes on with the layers
that are missing.
"""

import hashlib
import itertools
import json
import logging
import math
import shutil
from collections.abc import Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch

from elmo_bench.files import alone

from .encode import device_of
from .layer_files import row_bytes, write_layers
from .store import SHARE, LayerStore, Sentence

log = logging.getLogger(__name__)
VERSION = "v5"


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
