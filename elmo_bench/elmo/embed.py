"""Sentences to the layers of a biLM, in batches of sentences of about one length.

Axes: L layers, T tokens of a sentence, D biLM.
"""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from .chars import char_ids
from .fast import BiLm

BATCH_TOKENS = 4096  # with padding and boundaries: what a batch may hold


def batches(lengths: Sequence[int], batch_tokens: int = BATCH_TOKENS) -> Iterator[list[int]]:
    """The places of the sentences, shortest first, in batches of at most `batch_tokens`; a longer sentence is a batch by itself.

    A sentence counts as the longest of its batch, and with its two boundaries.

    >>> list(batches([3, 1, 90, 2], batch_tokens=12))
    [[1, 3], [0], [2]]
    """
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        if batch and (len(batch) + 1) * (lengths[place] + 2) > batch_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def embed(
    bilm: BiLm, sentences: Sequence[Sequence[str]], *, batch_tokens: int = BATCH_TOKENS
) -> Iterator[tuple[int, Float[Tensor, "L T D"]]]:
    """Yield (place, all layers) of every sentence, the shortest first, on the biLM's device.

    Each starts from a zero state and without dropout, so that its vectors depend on no other sentence. A sentence without tokens
    has layers without tokens. A batch takes memory in proportion to `batch_tokens`, or to the longest sentence.
    """
    device, training = next(bilm.parameters()).device, bilm.training
    bilm.eval()
    try:
        for places in batches([len(sentence) for sentence in sentences], batch_tokens):
            chars = char_ids([sentences[place] for place in places], bilm.options.max_characters)
            with torch.no_grad():
                layers, _ = bilm(chars.to(device))
            for row, place in enumerate(places):
                yield place, layers[:, row, : len(sentences[place])]
    finally:
        bilm.train(training)
