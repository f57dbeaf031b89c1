"""Compute the layers of a frozen encoder for the sentences of a data set into a store: a folder
with a safetensors file for each layer that some run reads. `memory.py` keeps them in the memory of
a run's device instead.

A file has the words of all distinct sentences, shortest first and then by their hashes, which is
the order in which an encoder reads them. The name of the folder identifies the encoder and the
sentences. A file has its name only once it is complete, so a killed build goes on with the layers
that are missing.

Axes: L layers, B batch, T tokens, D encoder, N words of some sentences, W numbers of a stored
vector.
"""

import hashlib
import json
import logging
import math
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Shaped
from torch import Tensor

from elmo_bench.files import alone, atomic, size_of
from elmo_bench.terminal import Bars
from elmo_bench.text import Sentences

from .encode import BATCH_TOKENS, device_of, encode_batches
from .store import LayerStore, Sentence, layer_path, pack, row_bytes, unpack

log = logging.getLogger(__name__)
VERSION = "v5"
SHARE = 0.5  # maximum share of the free space, on disk or in memory, for the layers of a data set
HEADER = 1024  # bytes before the vectors of a layer
TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "I8"}  # safetensors' names
# Limits of a GPU's batch, including padding, and of its layers; two or three copies are in memory.
GPU_TOKENS = 1 << 15
GPU_BYTES = 1 << 30


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
    path = folder / _store_name(encoder, distinct, dtype)
    store = LayerStore(path, layers, starts, keep)
    is_ready = False
    waiting = "another run is computing the layers of this data: waiting for it"
    try:
        store.hold()
        with alone(path, waiting) if store.missing() else nullcontext():
            missing = store.missing()  # again: another run may have computed them meanwhile
            if missing:
                tokens = sum(map(len, distinct))
                size = len(missing) * tokens * row_bytes(encoder.dim, dtype)
                lack = no_room(size, folder, max_bytes)
                if lack:
                    log.warning("running the encoder on every batch: %s", lack)
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


def _store_name(encoder: Any, sentences: Sequence[Sentence], dtype: str) -> str:
    """Return the name of a store's folder, which says what its layers were computed from."""
    facts = encoder.fingerprint()  # reads all weights
    precision = torch.get_float32_matmul_precision()
    if precision != "highest":  # with tf32=true
        facts += precision
    encoder_hash = hashlib.sha256(facts.encode()).hexdigest()
    text_hash = hashlib.sha256(b"".join(map(key, sentences))).hexdigest()
    return f"{VERSION}-e{encoder_hash[:12]}-{text_hash[:12]}-{dtype}"


def no_room(size: int, folder: Path, max_bytes: float) -> str:
    """Return why a store may not take so many bytes; "" if it may."""
    used = size_of(folder)
    existing = folder
    while not existing.exists():
        existing = existing.parent
    free = shutil.disk_usage(existing).free
    if used + size <= max_bytes and size <= SHARE * free:
        return ""
    return (
        f"its layers for this data would take {size / 1e9:.1f} GB, but all stores may take "
        f"{max_bytes / 1e9:.1f} GB (store.max_bytes) and have {used / 1e9:.1f} GB, and a new one "
        f"may take half of the {free / 1e9:.1f} GB that are free at {existing}. job=cache "
        "clear=layers deletes all stores"
    )


def ordered(sentences: Iterable[Sequence[str]]) -> tuple[list[Sentence], dict[Sentence, int]]:
    """Return the distinct sentences, shortest first, then by key, and the first row of each."""
    distinct = set(map(tuple, sentences)) - {()}
    in_order = sorted(distinct, key=lambda sentence: (len(sentence), key(sentence)))
    starts = {}
    num_rows = 0
    for sentence in in_order:
        starts[sentence] = num_rows
        num_rows += len(sentence)
    return in_order, starts


def key(sentence: Sentence) -> bytes:
    """Return a hash by which sentences of a length are sorted."""
    return hashlib.blake2b(json.dumps(sentence).encode(), digest_size=16).digest()


def write_layers(
    folder: Path, layers: Sequence[int], encoder: Any, sentences: Sentences, dtype: str
) -> None:
    """Compute layers of sentences, shortest first; their files are renamed when complete."""
    begun = time.perf_counter()
    with ExitStack() as stack:
        paths = [stack.enter_context(atomic(layer_path(folder, layer))) for layer in layers]
        # No memory map: on a full disk that would end the process without a message.
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for file in files:
            file.seek(HEADER)
        for packed in packed_layers(encoder, sentences, layers, dtype):
            for file, vectors in zip(files, packed.cpu().view(torch.uint8).numpy(), strict=True):
                file.write(vectors.data)
        seconds = time.perf_counter() - begun
        num_rows = sum(map(len, sentences))
        size = row_bytes(encoder.dim, dtype)
        tensor = {
            "dtype": TYPES[dtype],
            "shape": [num_rows, size // getattr(torch, dtype).itemsize],
            "data_offsets": [0, num_rows * size],
        }
        for layer, file in zip(layers, files, strict=True):
            about = {"store": folder.name, "layer": str(layer), "seconds": f"{seconds:.6f}"}
            text = json.dumps({"__metadata__": about, "layer": tensor}).encode().ljust(HEADER - 8)
            file.seek(0)
            file.write(len(text).to_bytes(8, "little") + text)


def packed_layers(
    encoder: Any, sentences: Sentences, layers: Sequence[int], dtype: str
) -> Iterator[Shaped[Tensor, "L N W"]]:
    """Yield the layers of the words of sentences, shortest first, batch by batch, in the type of a
    store, on the encoder's device. Raises FloatingPointError for a number that is not finite in
    that type.
    """
    tokens = BATCH_TOKENS
    if device_of(encoder).type == "cuda":
        tokens = max(tokens, min(GPU_TOKENS, GPU_BYTES // (4 * encoder.dim * len(layers))))
    encoder.forget_words()  # a store does not depend on what was read before
    with Bars() as bars:
        bar = bars.add_task("encoder", total=sum(map(len, sentences)))
        for numbers, vectors in encode_batches(encoder, sentences, layers, batch_tokens=tokens):
            lengths = torch.tensor([len(sentences[number]) for number in numbers])
            is_word = torch.arange(vectors.shape[2]) < lengths[:, None]
            packed = pack(vectors[:, is_word], dtype)
            is_finite = unpack(packed).isfinite().all(-1).all(0).cpu().numpy()
            if not is_finite.all():
                words = sentences[np.repeat(numbers, lengths)[~is_finite][0]]
                advice = ": use store.dtype=bfloat16" if dtype == "float16" else ""
                raise FloatingPointError(
                    f"the encoder's layers of {' '.join(words)[:80]!r} are not finite in {dtype}"
                    f"{advice}"
                )
            yield packed
            bars.advance(bar, packed.shape[1])
