"""Compute the layers of a frozen encoder for the sentences of a data set: into a store, a folder
with a safetensors file for each layer that some run reads; or into the memory of a run's device.

A file has the words of all distinct sentences, shortest first and then by their hashes, which is
the order in which an encoder reads them. The name of the folder identifies the encoder and the
sentences. A file has its name only once it is complete, so a killed build goes on with the layers
that are missing.

Axes: L layers, B batch, T tokens, D encoder, N words of some sentences, W numbers of a stored
vector.
"""

import hashlib
import itertools
import json
import logging
import math
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from elmo_bench.files import alone, atomic, size_of
from elmo_bench.terminal import Bars
from elmo_bench.text import Sentences

from .encode import BATCH_TOKENS, device_of, encode_batches, forget_words
from .static import Rows
from .store import LayerStore, Sentence, layer_path, pack, row_bytes, unpack, word_rows

log = logging.getLogger(__name__)
VERSION = "v5"
SHARE = 0.5  # maximum share of the free space, on disk or in memory, for the layers of a data set
HEADER = 1024  # bytes before the vectors of a layer
TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "I8"}  # safetensors' names
# Limits of a GPU's batch, including padding, and of its layers; two or three copies are in memory.
GPU_TOKENS, GPU_BYTES = 1 << 15, 1 << 30


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
    precision = torch.get_float32_matmul_precision()  # of tf32=true another
    facts = encoder.fingerprint() + precision * (precision != "highest")  # reads all weights
    name = hashlib.sha256(facts.encode()).hexdigest()
    path = folder / f"{VERSION}-e{name[:12]}-{text.hexdigest()[:12]}-{dtype}"
    store, is_ready = LayerStore(path, layers, starts, keep), False
    waiting = "another run is computing the layers of this data: waiting for it"
    try:
        store.hold()
        with alone(path, waiting) if store.missing() else nullcontext():
            if missing := store.missing():  # the other run has not computed them
                tokens = sum(map(len, distinct))
                size = len(missing) * tokens * row_bytes(encoder.dim, dtype)
                if lack := no_room(size, folder, max_bytes):
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


def no_room(size: int, folder: Path, max_bytes: float) -> str:
    """Return why a store may not take so many bytes; "" if it may."""
    used = size_of(folder)
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free
    if used + size <= max_bytes and size <= SHARE * free:
        return ""
    return (
        f"its layers for this data would take {size / 1e9:.1f} GB, but all stores may take "
        f"{max_bytes / 1e9:.1f} GB (store.max_bytes) and have {used / 1e9:.1f} GB, and a new one "
        f"may take half of the {free / 1e9:.1f} GB that are free at {there}. job=cache "
        "clear=layers deletes all stores"
    )


def ordered(sentences: Iterable[Sequence[str]]) -> tuple[list[Sentence], dict[Sentence, int]]:
    """Return the distinct sentences, shortest first, then by key, and the first row of each."""
    distinct = sorted({*map(tuple, sentences)} - {()}, key=lambda each: (len(each), key(each)))
    ends = itertools.accumulate(map(len, distinct), initial=0)
    return distinct, dict(zip(distinct, ends, strict=False))


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
        seconds, row = time.perf_counter() - begun, row_bytes(encoder.dim, dtype)
        shape = sum(map(len, sentences)), row // getattr(torch, dtype).itemsize
        tensor = {"dtype": TYPES[dtype], "shape": shape, "data_offsets": [0, shape[0] * row]}
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
    forget_words(encoder)  # a store does not depend on what was read before
    with Bars() as bars:
        bar = bars.add_task("encoder", total=sum(map(len, sentences)))
        for numbers, vectors in encode_batches(encoder, sentences, layers, batch_tokens=tokens):
            lengths = torch.tensor([len(sentences[number]) for number in numbers])
            is_word = torch.arange(vectors.shape[2]) < lengths[:, None]
            packed = pack(vectors[:, is_word], dtype)
            is_finite = unpack(packed).isfinite().all(-1).all(0).cpu().numpy()
            if not is_finite.all():
                words = sentences[np.repeat(numbers, lengths)[~is_finite][0]]
                raise FloatingPointError(
                    f"the encoder's layers of {' '.join(words)[:80]!r} are not finite in {dtype}"
                    f"{': use store.dtype=bfloat16' if dtype == 'float16' else ''}"
                )
            yield packed
            bars.advance(bar, packed.shape[1])


class LayerMemory:
    """The layers of all sentences in the memory of a device: ELMo reads them in place of `encoder`,
    as it reads an encoder. A batch brings only the rows of its words.

    Raises ValueError if there is no room, and FloatingPointError if the encoder's output is not
    finite.
    """

    def __init__(
        self,
        encoder: Any,
        sentences: Iterable[Sequence[str]],
        layers: Sequence[int],
        device: torch.device,
        *,
        dtype: str = "float32",
        max_bytes: float = math.inf,
    ) -> None:
        begun = time.perf_counter()
        distinct, self.starts = ordered(sentences)
        number, row = 1 + sum(map(len, distinct)), row_bytes(encoder.dim, dtype)
        check_room(len(layers) * number * row, device, max_bytes)
        kind = getattr(torch, dtype)  # the last row stays 0, for what is after a sentence's end
        shape = len(layers), number, row // kind.itemsize
        self.table = torch.zeros(shape, dtype=kind, device=device)
        end = 0
        for packed in packed_layers(encoder.to(device), distinct, layers, dtype):
            self.table[:, end : (end := end + packed.shape[1])] = packed
        self.seconds = time.perf_counter() - begun

    def prepare(self, sentences: Sentences) -> Rows:
        """Return the rows of a batch's words; -1 after the end of a sentence."""
        return Rows(word_rows(self.starts, sentences))

    def __call__(self, inputs: Rows, layers: Sequence[int] = ()) -> Float[Tensor, "L B T D"]:
        """Return the layers in memory, whatever `layers` asks for; 0 after a sentence's end."""
        return unpack(self.table[:, inputs.rows])

    def close(self) -> None:
        """Release the memory."""
        self.table = self.table.new_empty(0)


def check_room(size: int, device: torch.device, max_bytes: float) -> None:
    """Raise ValueError unless layers may take so many bytes of the device's memory."""
    if device.type == "cuda":
        torch.cuda.empty_cache()  # what torch keeps for later is free, too
        free = torch.cuda.mem_get_info(device)[0]
    elif (about := Path("/proc/meminfo")).exists():
        free = 1024 * int(re.findall(r"MemAvailable:\s+(\d+) kB", about.read_text())[0])
    else:  # not Linux: all there is
        free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > min(max_bytes, SHARE * free):
        raise ValueError(
            f"store.mode=memory: the layers of this data would take {size / 1e9:.1f} GB, but they "
            f"may take {max_bytes / 1e9:.1f} GB (store.max_bytes) and half of the "
            f"{free / 1e9:.1f} GB of memory that are free on {device}; store.dtype=int8 or fewer "
            "layers (elmo.mix=top) take less, and store.mode=auto keeps them on disk"
        )
