"""The files of a layer store: safetensors, written batch by batch and mapped to be read; and the
data types of its vectors.

Axes: L layers, D encoder, N words of some sentences, W numbers of a stored vector.
"""

import json
import logging
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Shaped
from safetensors import SafetensorError, safe_open
from torch import Tensor

from elmo_bench.files import Bars, atomic
from elmo_bench.text import Sentences

from .encode import BATCH_TOKENS, device_of, encode_batches, forget_words

log = logging.getLogger(__name__)
HEADER = 1024  # bytes before the vectors of a layer
TYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "int8": "I8"}  # safetensors' names
SCALE = 4  # bytes of the float32 behind an int8 vector
# Limits of a GPU's batch, including padding, and of its layers; two or three copies are in memory.
GPU_TOKENS, GPU_BYTES = 1 << 15, 1 << 30


def read_layer(folder: Path, layer: int) -> tuple[Shaped[Tensor, "N W"], float]:
    """Map the file of a layer; return it and the seconds that the encoder took.

    Raises FileNotFoundError, or ValueError for a file that is damaged or of another store.
    """
    path = _path(folder, layer)
    try:
        with safe_open(path, framework="pt") as file:
            about = file.metadata() or {}
            if about.get("store") != folder.name or about.get("layer") != str(layer):
                raise ValueError(f"{path}: damaged (a layer of another store)")
            return file.get_tensor("layer"), float(about["seconds"])
    except (SafetensorError, KeyError) as error:
        raise ValueError(f"{path}: damaged ({error})") from error


def is_complete(folder: Path, layer: int) -> bool:
    """Whether a layer has a file; a damaged file is none, with a warning."""
    try:
        read_layer(folder, layer)
    except FileNotFoundError:
        return False
    except ValueError as error:
        log.warning("%s: it is not used", error)
        return False
    return True


def write_layers(
    folder: Path, layers: Sequence[int], encoder: Any, sentences: Sentences, dtype: str
) -> None:
    """Compute layers of sentences, shortest first, and write a file for each; each is renamed when
    all are complete.
    """
    begun = time.perf_counter()
    with ExitStack() as stack:
        paths = [stack.enter_context(atomic(_path(folder, layer))) for layer in layers]
        # No memory map: on a full disk that would end the process without a message.
        files = [stack.enter_context(path.open("wb")) for path in paths]
        for file in files:
            file.seek(HEADER)
        for packed in packed_layers(encoder, sentences, layers, dtype):
            for file, vectors in zip(files, packed.cpu().view(torch.uint8).numpy(), strict=True):
                file.write(vectors.data)
        seconds = time.perf_counter() - begun
        for layer, file in zip(layers, files, strict=True):
            about = {"store": folder.name, "layer": str(layer), "seconds": f"{seconds:.6f}"}
            file.seek(0)
            file.write(_header(about, (sum(map(len, sentences)), encoder.dim), dtype))
            file.flush()
            os.fsync(file.fileno())


def _path(folder: Path, layer: int) -> Path:
    return folder / f"layer{layer}.safetensors"


def _header(about: Mapping[str, str], shape: tuple[int, int], dtype: str) -> bytes:
    row = row_bytes(shape[1], dtype)
    width, size = row // getattr(torch, dtype).itemsize, shape[0] * row
    tensor = {"dtype": TYPES[dtype], "shape": [shape[0], width], "data_offsets": [0, size]}
    text = json.dumps({"__metadata__": about, "layer": tensor}).encode().ljust(HEADER - 8)
    return len(text).to_bytes(8, "little") + text


def row_bytes(dim: int, dtype: str) -> int:
    """Return how many bytes a vector of so many numbers takes."""
    return dim * getattr(torch, dtype).itemsize + (SCALE if dtype == "int8" else 0)


def pack(vectors: Float[Tensor, "*N D"], dtype: str) -> Shaped[Tensor, "*N W"]:
    """Round vectors to a type: floats to the nearest one, int8 to the nearest multiple of a scale.

    The scale of an int8 vector is a 127th of its largest absolute value, and its bytes stand behind
    it: a number moves by at most a 254th of the largest one of its vector, and 0 stays 0.
    """
    if dtype != "int8":
        return vectors.to(getattr(torch, dtype))
    largest = vectors.float().abs().amax(-1, keepdim=True)
    scale = (largest / 127).clamp(min=torch.finfo(torch.float32).tiny)
    return torch.cat([(vectors / scale).round().to(torch.int8), scale.view(torch.int8)], -1)


def unpack(packed: Shaped[Tensor, "*N W"]) -> Float[Tensor, "*N D"]:
    """Return the vectors: int8 ones as float32, others in their type."""
    if packed.is_floating_point():
        return packed
    return packed[..., :-SCALE] * packed[..., -SCALE:].contiguous().view(torch.float32)


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
