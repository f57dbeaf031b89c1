"""The input of all models: a batch of sentences.

Axes: B batch, T tokens, C characters.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.text import Vocab

WORD_BYTES = 48  # longer words are cut off
NUM_CHARACTERS = 262  # 0: no token; 1 to 256: bytes; 259 to 261: begin, end and padding
BEGIN_WORD, END_WORD, PAD = 259, 260, 261


class Tokens(NamedTuple):
    """Word numbers, character ids for x_k, and a mask of words.

    For the mix, a batch has one of: the layers, in the store's type; the words' rows in layers on
    the device; the encoder's inputs; or the sentences. `num_chars` is the number of characters of
    each word, including begin and end, and 0 past a sentence. It stays on the host, so that reading
    a length does not wait for the device.
    """

    words: Int[Tensor, "B T"]
    chars: Int[Tensor, "B T C"]
    mask: Bool[Tensor, "B T"]
    sentences: Sequence[Sequence[str]] | None = None
    inputs: Any = None
    layers: Float[Tensor, "L B T D"] | None = None
    num_chars: Int[np.ndarray, "B T"] | None = None
    rows: Int[Tensor, "B T"] | None = None

    @property
    def lengths(self) -> list[int]:
        """The number of words of each sentence."""
        counts = self.mask.sum(1) if self.num_chars is None else (self.num_chars > 0).sum(1)
        return counts.tolist()

    def cut(self, rows: slice | Sequence[int], length: int) -> "Tokens":
        """Return the sentences `rows` (a slice or numbers), cut after `length` words."""

        def on(part: Tensor) -> Any:
            return rows if isinstance(rows, slice) else to_device(torch.tensor(rows), part)

        chosen = on(self.mask)
        words, chars, mask = (part[chosen, :length] for part in self[:3])
        # Some encoders' inputs stay on the host.
        inputs = self.inputs and type(self.inputs)(*(part[on(part)] for part in self.inputs))
        layers = None if self.layers is None else self.layers[:, chosen, :length]
        sentences, num_chars = self.sentences, self.num_chars
        if sentences is not None:
            numbers = range(len(sentences))[rows] if isinstance(rows, slice) else rows
            sentences = [sentences[number] for number in numbers]
        if num_chars is not None:
            num_chars = num_chars[rows, :length]
            chars = chars[..., : num_chars.max(initial=1)]
        return Tokens(words, chars, mask, sentences, inputs, layers, num_chars)


def to_device(values: Tensor, like: Tensor) -> Tensor:
    """Copy a tensor from the host to the device of `like`, without waiting for a GPU."""
    if like.device.type == "cuda":
        return values.pin_memory().to(like.device, non_blocking=True)
    return values.to(like.device, non_blocking=True)


def tokens(sentences: Sequence[Sequence[str]], vocab: Vocab) -> Tokens:
    """Number the words and characters of a batch of sentences."""
    numbers = [[vocab.word_id(word) for word in sentence] for sentence in sentences]
    words = pad_sequence([torch.tensor(row, dtype=torch.long) for row in numbers], True)
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    mask = torch.arange(words.shape[1]) < lengths[:, None]
    chars = char_ids(sentences)
    num_chars = ((chars > 0) & (chars != PAD)).sum(-1).numpy()
    # Cut the padding after the longest word.
    shown = chars[..., : num_chars.max(initial=1)].contiguous()
    return Tokens(words, shown, mask, sentences, num_chars=num_chars)


@lru_cache(maxsize=1 << 17)
def _characters(word: str) -> Int[np.ndarray, " C"]:
    ids = np.full(WORD_BYTES + 2, PAD, dtype=np.int64)
    content = [byte + 1 for byte in word.encode("utf-8", "replace")[:WORD_BYTES]]
    ids[: len(content) + 2] = [BEGIN_WORD, *content, END_WORD]
    return ids


def char_ids(sentences: Sequence[Sequence[str]]) -> Int[Tensor, "B T C"]:
    """Return the character ids of each word: UTF-8 bytes between begin and end; 0 past a sentence.

    >>> char_ids([["a", "bc"], ["d"]])[:, :, :4].tolist()
    [[[259, 98, 260, 261], [259, 99, 100, 260]], [[259, 101, 260, 261], [0, 0, 0, 0]]]
    """
    longest = max(map(len, sentences), default=0)
    ids = np.zeros((len(sentences), longest, WORD_BYTES + 2), dtype=np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        for number, word in enumerate(sentence):
            row[number] = _characters(word)
    return torch.from_numpy(ids)
