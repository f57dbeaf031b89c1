"""A batch of sentences as every model reads it.

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

WORD_BYTES = 48  # further ones are cut off
NUM_CHARACTERS = 262  # 0 for "no token", 1 to 256 for a byte, and three more
BEGIN_WORD, END_WORD, PAD = 259, 260, 261


class Tokens(NamedTuple):
    """Word numbers, character ids for x_k, and a mask of words.

    For the mix a batch has the layers, in a store's type, or else the encoder's inputs, or the
    sentences themselves.
    """

    words: Int[Tensor, "B T"]
    chars: Int[Tensor, "B T C"]
    mask: Bool[Tensor, "B T"]
    sentences: Sequence[Sequence[str]] | None = None
    inputs: Any = None
    layers: Float[Tensor, "L B T D"] | None = None

    def cut(self, rows: Any, length: int) -> "Tokens":
        """Some sentences, as a slice or their numbers, and of each the first `length` words."""
        words, chars, mask = (part[rows, :length] for part in self[:3])
        inputs = self.inputs and type(self.inputs)(*(part[rows] for part in self.inputs))
        layers = None if self.layers is None else self.layers[:, rows, :length]
        sentences = self.sentences
        if sentences is not None:
            numbers = range(len(sentences))[rows] if isinstance(rows, slice) else rows.tolist()
            sentences = [sentences[number] for number in numbers]
        return Tokens(words, chars, mask, sentences, inputs, layers)


def tokens(sentences: Sequence[Sequence[str]], vocab: Vocab) -> Tokens:
    """Number the words and characters of a batch of sentences."""
    numbers = [[vocab.word_id(word) for word in sentence] for sentence in sentences]
    words = pad_sequence([torch.tensor(row, dtype=torch.long) for row in numbers], True)
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    mask = torch.arange(words.shape[1]) < lengths[:, None]
    return Tokens(words, char_ids(sentences), mask, sentences)


@lru_cache(maxsize=1 << 17)
def _characters(word: str) -> Int[np.ndarray, " C"]:
    ids = np.full(WORD_BYTES + 2, PAD, dtype=np.int64)
    content = [byte + 1 for byte in word.encode("utf-8", "replace")[:WORD_BYTES]]
    ids[: len(content) + 2] = [BEGIN_WORD, *content, END_WORD]
    return ids


def char_ids(sentences: Sequence[Sequence[str]]) -> Int[Tensor, "B T C"]:
    """The characters of each word: UTF-8 bytes between a begin and an end; 0 past a sentence.

    >>> char_ids([["a", "bc"], ["d"]])[:, :, :4].tolist()
    [[[259, 98, 260, 261], [259, 99, 100, 260]], [[259, 101, 260, 261], [0, 0, 0, 0]]]
    """
    longest = max(map(len, sentences), default=0)
    ids = np.zeros((len(sentences), longest, WORD_BYTES + 2), dtype=np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        for number, word in enumerate(sentence):
            row[number] = _characters(word)
    return torch.from_numpy(ids)
