"""Sentences to the layers of an encoder, in batches of sentences of about one length.

Axes: L layers, B sentences of a batch, T tokens of a sentence, D encoder.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

BATCH_TOKENS = 4096  # with padding and boundaries: what a batch may hold


def batches(lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """The numbers of the sentences, shortest first, in batches of at most `batch_tokens`; a longer
    sentence is a batch by itself.

    A sentence counts as the longest of its batch, and with its two boundaries.

    >>> list(batches([3, 1, 90, 2], batch_tokens=12))
    [[1, 3], [0], [2]]
    """
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lambda number: lengths[number]):
        if batch and (len(batch) + 1) * (lengths[number] + 2) > batch_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def encode(
    encoder: Any,
    sentences: Sequence[Sequence[str]],
    layers: Sequence[int] | None = None,
    *,
    batch_tokens: int = BATCH_TOKENS,
) -> list[Float[Tensor, "L T D"]]:
    """The layers of each sentence (a list of words), in order: those asked for, or all.

    >>> from elmo_bench import load_encoder
    >>> [layers.shape for layers in encode(load_encoder("mini"), [["Hello", "world"], ["!"]])]
    [torch.Size([3, 2, 128]), torch.Size([3, 1, 128])]
    """
    by_number = {
        number: vectors.clone()
        for number, vectors in encode_each(encoder, sentences, layers, batch_tokens=batch_tokens)
    }
    return [by_number[number] for number in range(len(sentences))]


def encode_each(
    encoder: Any,
    sentences: Sequence[Sequence[str]],
    layers: Sequence[int] | None = None,
    *,
    batch_tokens: int = BATCH_TOKENS,
) -> Iterator[tuple[int, Float[Tensor, "L T D"]]]:
    """Yield (number, layers) of every sentence, the shortest first, on the encoder's device; all
    else is as in `encode_batches`.
    """
    for numbers, vectors in encode_batches(encoder, sentences, layers, batch_tokens=batch_tokens):
        for row, number in enumerate(numbers):
            yield number, vectors[:, row, : len(sentences[number])]


def encode_batches(
    encoder: Any,
    sentences: Sequence[Sequence[str]],
    layers: Sequence[int] | None = None,
    *,
    batch_tokens: int = BATCH_TOKENS,
) -> Iterator[tuple[list[int], Float[Tensor, "L B T D"]]]:
    """Yield (numbers, layers) of every batch of sentences, the shortest first, on the encoder's
    device.

    The encoder runs without dropout, so that a sentence's vectors depend on no other sentence. A
    sentence without tokens has layers without tokens. A batch takes memory in proportion to
    `batch_tokens`, or to the longest sentence.
    """
    training = encoder.training
    encoder.eval()
    try:
        device = device_of(encoder)
        for numbers in batches([len(sentence) for sentence in sentences], batch_tokens):
            inputs = encoder.prepare([sentences[number] for number in numbers])
            if not getattr(encoder, "moves_inputs", False):
                inputs = on(device, inputs)
            with torch.no_grad():
                vectors = encoder(inputs, layers)
            yield numbers, vectors
    finally:
        encoder.train(training)


def to_host(tensor: Tensor) -> tuple[Tensor, Callable[[], object]]:
    """A tensor on the host, and what waits until all of it has come: a GPU computes on meanwhile.

    The copy runs beside what the device is given next, into memory that the system may not move.
    """
    if tensor.device.type != "cuda":
        return tensor.cpu(), lambda: None
    copy = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
    beside = torch.cuda.Stream(tensor.device)
    beside.wait_stream(torch.cuda.current_stream(tensor.device))
    with torch.cuda.stream(beside):
        copy.copy_(tensor, non_blocking=True)
        tensor.record_stream(beside)  # else its memory is given away before it is read
    return copy, beside.synchronize


def on(device: torch.device, inputs: Any) -> Any:
    """What an encoder has prepared, on a device."""
    return type(inputs)(*(tensor.to(device) for tensor in inputs))


def device_of(encoder: Any) -> torch.device:
    """Where an encoder's numbers lie."""
    return next(iter([*encoder.parameters(), *encoder.buffers()])).device
