"""Decide whether a frozen encoder's layers are stored on disk or computed for every batch. One
batch is measured both ways, and later runs reuse the decision.

The results are equal either way, except for the rounding of a batch (1e-7) and of the store's data
type; with a type narrower than float32, layers are always stored.
"""

import json
import logging
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch

from elmo_bench.files import atomic, read_json

from .encode import device_of, encode_batches
from .store import LayerStore, sentence_key, write

log = logging.getLogger(__name__)
BATCH = 32  # sentences that are timed
LEAST = 200 * BATCH  # sentences; with fewer, timing would be much of the work
# Layers are stored if reading is so many times faster: 3 for word vectors, 36 for the mini biLM.
CLEARLY = 5.0
CHOICE = "choice.json"  # file in the store's folder


class Seconds(NamedTuple):
    """Time per token."""

    compute: float  # seconds per token, by the encoder
    read: float  # seconds per token, from a store to the encoder's device


def is_kept(
    encoder: Any,
    sentences: Sequence[Sequence[str]],
    layers: Sequence[int],
    folder: Path,
    dtype: str,
) -> bool:
    """Whether to store the layers of these sentences in `folder`: if reading is clearly faster than
    computing. The time to build the store does not count, since all runs of a sweep share it.

    An earlier decision is reused, so that no result depends on timing; a new one is logged and
    saved in `folder`. Layers of few sentences are stored without a measurement.
    """
    if len(sentences) < LEAST or dtype != "float32":
        return True
    if (kept := _chosen(folder / CHOICE)) is not None:
        reason = "as an earlier run chose from its measurements"
    else:
        seconds = measure(encoder, sentences, layers, folder)
        kept = CLEARLY * seconds.read <= seconds.compute
        compute, read = (1e6 * value for value in seconds)
        reason = f"per token, {compute:.1f} µs to compute and {read:.1f} µs to read"
        with atomic(folder / CHOICE) as part:
            content = {"kept": kept, "compute": seconds.compute, "read": seconds.read}
            part.write_text(json.dumps(content) + "\n", encoding="utf-8")
    decision = "storing the layers" if kept else "running the encoder on every batch"
    log.info("elmo.cache=auto: %s (%s)", decision, reason)
    return kept


def _chosen(path: Path) -> bool | None:
    """Return the decision of an earlier run; None if there is none or its file is damaged."""
    try:
        kept = read_json(path).get("kept")
    except FileNotFoundError:
        return None
    except ValueError as error:
        log.warning("%s: measuring again", error)
        return None
    return kept if isinstance(kept, bool) else None


def measure(
    encoder: Any, sentences: Sequence[Sequence[str]], layers: Sequence[int], folder: Path
) -> Seconds:
    """Time one batch of sentences from all parts of the data; another batch warms up."""
    chosen = sentences[:: max(len(sentences) // (2 * BATCH), 1)][: 2 * BATCH]
    warming, batch = chosen[::2], chosen[1::2]
    device = device_of(encoder)

    def compute(some: Sequence[Sequence[str]]) -> None:
        for _ in encode_batches(encoder, some, layers):
            pass

    compute(warming)
    with tempfile.TemporaryDirectory(prefix=".", dir=folder) as name:
        store = LayerStore(Path(name), layers)
        write(store, encoder, {sentence_key(words): words for words in batch}, layers, "float32")
        lengths = torch.tensor([len(sentence) for sentence in batch])
        mask = torch.arange(int(lengths.max())) < lengths[:, None]

        def read() -> None:
            vectors = store(batch, mask)
            if vectors is not None:
                vectors.to(device)

        read()  # the first call locates the sentences; not timed
        tokens = int(lengths.sum())
        return Seconds(
            _seconds(lambda: compute(batch), device) / tokens, _seconds(read, device) / tokens
        )


def _seconds(call: Callable[[], object], device: torch.device) -> float:
    """Return the minimum of three times, including the device's work."""
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        times.append(time.perf_counter() - begun)
    return min(times)
