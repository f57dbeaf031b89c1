"""Encode sentences in batches of similar length.

Axes: L layers, B sentences of a batch, T tokens of a sentence, D encoder.
"""

import logging
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from elmo_bench.text import Sentences

log = logging.getLogger(__name__)
Chosen = Sequence[int] | None  # layers; None: all
BATCH_TOKENS = 4096  # maximum of a batch, including padding and boundaries


def batches(lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """Yield the indices of the sentences, shortest first, in batches of at most `batch_tokens`
    tokens; a longer sentence is a batch of its own.

    Each sentence counts with the length of the longest one in its batch plus two boundary tokens.

    >>> list(batches([3, 1, 90, 2], batch_tokens=12))
    [[1, 3], [0], [2]]
    """
    numbers = sorted(range(len(lengths)), key=lambda number: lengths[number])
    rest = iter(numbers)
    for size in batch_sizes([lengths[number] + 2 for number in numbers], tokens=batch_tokens):
        yield list(islice(rest, size))


def batch_sizes(
    lengths: Sequence[int | float],
    *,
    most: int | float = math.inf,
    tokens: int | None = None,
    scores: int | None = None,
) -> list[int]:
    """Return the sizes of batches of examples sorted by length, each padded to its longest example.

    >>> batch_sizes([1, 1, 1, 2, 5, 9], most=3), batch_sizes([1, 1, 1, 2, 5, 9], most=3, tokens=6)
    ([3, 3], [3, 1, 1, 1])
    """
    sizes: list[int] = []
    for length in lengths:
        size = sizes[-1] + 1 if sizes else 1
        too_many_tokens = tokens and size * length > tokens
        too_many_scores = scores and size * length**2 > scores
        if not sizes or size > most or too_many_tokens or too_many_scores:
            sizes.append(1)
        else:
            sizes[-1] = size
    return sizes


def parted(numbers: list[int], parts: int) -> list[list[int]]:
    """Split a batch into parts of equal size, but for the last; at most one for each item."""
    size = -(-len(numbers) // parts)
    return [numbers[start : start + size] for start in range(0, len(numbers), size)]


def encode(
    encoder: Any, sentences: Sentences, layers: Chosen = None, *, batch_tokens: int = BATCH_TOKENS
) -> list[Float[Tensor, "L T D"]]:
    """Return the layers of sentences.

    Args:
        encoder: What `load_encoder` returns, or any other `Encoder`.
        sentences: Each a list of words.
        layers: Numbers of the layers, in the order of the result; None: all.
        batch_tokens: Maximum number of tokens in a batch, with padding; fewer need less memory.

    Returns:
        A tensor (layers, words, width) for each sentence, in order, on the encoder's device and
        without gradients. It does not depend on the other sentences. On a GPU, a biLM's
        convolutions are rounded (TF32) unless `torch.backends.cudnn.allow_tf32 = False`.

    Raises:
        ValueError: The encoder lacks one of the layers, or a sentence is not a list of words.

    >>> from elmo_bench import load_encoder
    >>> [layers.shape for layers in encode(load_encoder("mini"), [["Hello", "world"], ["!"]])]
    [torch.Size([3, 2, 128]), torch.Size([3, 1, 128])]
    """
    encoded = encode_each(encoder, sentences, layers, batch_tokens=batch_tokens)
    by_number = {number: vectors.clone() for number, vectors in encoded}
    return [by_number[number] for number in range(len(sentences))]


def encode_each(
    encoder: Any, sentences: Sentences, layers: Chosen = None, *, batch_tokens: int = BATCH_TOKENS
) -> Iterator[tuple[int, Float[Tensor, "L T D"]]]:
    """Yield (index, layers) of every sentence, shortest first; otherwise like `encode_batches`."""
    for numbers, vectors in encode_batches(encoder, sentences, layers, batch_tokens=batch_tokens):
        for row, number in enumerate(numbers):
            yield number, vectors[:, row, : len(sentences[number])]


def encode_batches(
    encoder: Any, sentences: Sentences, layers: Chosen = None, *, batch_tokens: int = BATCH_TOKENS
) -> Iterator[tuple[list[int], Float[Tensor, "L B T D"]]]:
    """Yield (indices, layers) of every batch of sentences, shortest first and else in order, on the
    encoder's device.

    The encoder runs without dropout, so that the vectors of a sentence do not depend on other
    sentences. An empty sentence has layers with no tokens. Memory grows with `batch_tokens` and the
    longest sentence; if that of a GPU does not suffice, this and all further batches are halved.
    Raises ValueError for a layer that the encoder does not have, and for a sentence that is not a
    list of words.
    """
    count = encoder.num_layers
    if layers is not None and not set(layers) <= set(range(count)):
        asked = ",".join(map(str, layers))
        raise ValueError(f"layers=[{asked}], but this encoder has layers 0..{count - 1}")
    for sentence in sentences:
        if isinstance(sentence, str):
            raise ValueError(
                f"a sentence is the text {sentence[:80]!r}, but it must be a list of words, such "
                "as those of text.split()"
            )
    training = encoder.training
    device = device_of(encoder)
    encoder.eval()
    try:
        left = list(batches([len(sentence) for sentence in sentences], batch_tokens))
        left.reverse()  # the next one is the last
        while left:
            numbers = left[-1]
            try:
                inputs = on(device, encoder.prepare([sentences[number] for number in numbers]))
                with torch.no_grad():
                    vectors = encoder(inputs, layers)
            except torch.OutOfMemoryError:
                if len(numbers) == 1:
                    raise
                batch_tokens //= 2
                log.warning("too little memory: the encoder reads %d tokens a batch", batch_tokens)
                halves: list[list[int]] = []
                for whole in left:
                    halves += reversed(parted(whole, 2))
                left = halves
                continue
            yield left.pop(), vectors
    finally:
        encoder.train(training)


def on(device: torch.device, inputs: Any) -> Any:
    """Move what `Encoder.prepare` returns to a device, by its own `to` if it has one."""
    if hasattr(inputs, "to"):
        return inputs.to(device)
    return type(inputs)(*(tensor.to(device) for tensor in inputs))


def device_of(encoder: Any) -> torch.device:
    """Return the device of an encoder's parameters and buffers; the CPU if it has none."""
    tensors = (*encoder.parameters(), *encoder.buffers())
    return tensors[0].device if tensors else torch.device("cpu")
