"""Whether a frozen encoder's layers are kept on disk or computed for every batch: one batch is
measured both ways.

Either way the numbers are the same, but for their rounding to a store's type: where that is
narrower than float32, layers are kept.
"""

import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from .encode import device_of, encode_batches
from .store import LayerStore, sentence_key, write

log = logging.getLogger(__name__)
BATCH = 32  # sentences that are measured
LEAST = 200 * BATCH  # sentences: of fewer, measuring would be a good part of the work


class Seconds(NamedTuple):
    """What a token takes."""

    compute: float  # by the encoder, for a batch
    build: float  # by the encoder, and writing it to a store
    read: float  # from a store, to where the encoder is


def is_kept(
    encoder: Any,
    reads: int,
    sentences: Sequence[Sequence[str]],
    layers: Sequence[int],
    folder: Path,
    dtype: str,
) -> bool:
    """Whether a store of these sentences, below `folder`, saves time where `reads` tokens are read
    in all; so it is said in a line.

    Of few sentences layers are kept without a measurement.
    """
    if len(sentences) < LEAST or dtype != "float32":
        return True
    seconds = measure(encoder, sentences, layers, folder)
    once = seconds.build * sum(map(len, sentences))
    kept, anew = once + seconds.read * reads, seconds.compute * reads
    log.info(
        "elmo.cache=auto: %s: once %.1f s to compute them and %.1f s to read %s tokens, at most; "
        "on every batch %.1f s (a token: %.1f µs to compute, %.1f to read)",
        "the encoder's layers are kept" if kept <= anew else "the encoder runs on every batch",
        *(once, seconds.read * reads, f"{reads:,}", anew),
        *(1e6 * seconds.compute, 1e6 * seconds.read),
    )
    return kept <= anew


def measure(
    encoder: Any, sentences: Sequence[Sequence[str]], layers: Sequence[int], folder: Path
) -> Seconds:
    """The times of one batch, from sentences all over the data; another batch warms up."""
    chosen = sentences[:: max(len(sentences) // (2 * BATCH), 1)][: 2 * BATCH]
    warming, batch = chosen[::2], chosen[1::2]
    device = device_of(encoder)

    def compute(some: Sequence[Sequence[str]]) -> None:
        for _ in encode_batches(encoder, some, layers):
            pass

    compute(warming)
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as name:
        store = LayerStore(Path(name), layers)
        keyed = {sentence_key(sentence): sentence for sentence in batch}
        lengths = torch.tensor([len(sentence) for sentence in batch])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]

        def read() -> None:
            vectors = store(batch, mask)
            if vectors is not None:
                vectors.to(device)

        computing = _seconds(lambda: compute(batch), device)
        building = _seconds(lambda: write(store, encoder, keyed, layers, "float32"), device)
        read()  # finds where the sentences are
        reading = _seconds(read, device)
    tokens = int(lengths.sum())
    return Seconds(computing / tokens, building / tokens, reading / tokens)


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    """The device's work included."""
    begun = time.perf_counter()
    call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begun
