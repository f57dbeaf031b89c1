"""The input of all models: a batch of sentences.

Axes: B batch, T tokens, C characters.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.elmo import LayerRows, Layers
from elmo_bench.text import Vocab

WORD_BYTES = 48  # longer words are cut off
NUM_CHARACTERS = 262  # 0: no token; 1 to 256: bytes; 259 to 261: begin, end and padding
BEGIN_WORD, END_WORD, PAD = 259, 260, 261


class Tokens(NamedTuple):
    """Word numbers and a mask of words, the words' characters if x_k reads them, and what ELMo
    reads: the layers, their rows on the device, or the encoder's inputs.

    The data loader makes characters and ELMo's part from the `sentences`, which it leaves out. The
    `lengths` of sentences stay on the host, so that reading them does not wait for the device.
    """

    words: Int[Tensor, "B T"]
    mask: Bool[Tensor, "B T"]
    lengths: Int[np.ndarray, " B"]
    sentences: Sequence[Sequence[str]] | None = None
    chars: Int[Tensor, "B T C"] | None = None
    elmo: Any = None

    def with_chars(self) -> "Tokens":
        """Add the words' characters, unless they are there."""
        if self.chars is not None:
            return self
        return self._replace(chars=char_ids(self.sentences or ()))

    def cut(self, rows: slice | Sequence[int], length: int) -> "Tokens":
        """Return the sentences `rows` (a slice or numbers), cut after `length` words.

        An encoder still reads whole sentences.
        """

        def index(part: Tensor) -> Any:  # on the part's device
            return rows if isinstance(rows, slice) else to_device(torch.tensor(rows), part)

        words, mask = (part[index(part), :length] for part in (self.words, self.mask))
        lengths, sentences, chars = self.lengths[rows].clip(max=length), self.sentences, self.chars
        if sentences is not None:
            numbers = range(len(sentences))[rows] if isinstance(rows, slice) else rows
            sentences, chars = [sentences[k] for k in numbers], self.with_chars().chars
        if chars is not None:
            chars = chars[index(chars), :length]
        return Tokens(words, mask, lengths, sentences, chars, self._cut_elmo(index, length))

    def _cut_elmo(self, index: Callable[[Tensor], Any], length: int) -> Any:
        match self.elmo:
            case None:
                return None
            case Layers(layers):
                return Layers(layers[:, index(layers), :length])
            case LayerRows(rows):
                return LayerRows(rows[index(rows), :length])
            case inputs:  # some encoders' stay on the host
                return type(inputs)(*(part[index(part)] for part in inputs))


def to_device(values: Tensor, like: Tensor) -> Tensor:
    """Copy a tensor from the host to the device of `like`, without waiting for a GPU."""
    if like.device.type == "cuda":
        return values.pin_memory().to(like.device, non_blocking=True)
    return values.to(like.device, non_blocking=True)


def tokens(sentences: Sequence[Sequence[str]], vocab: Vocab) -> Tokens:
    """Number the words of a batch of sentences."""
    numbers = [[vocab.word_id(word) for word in sentence] for sentence in sentences]
    words = pad_sequence([torch.tensor(row, dtype=torch.long) for row in numbers], True)
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    mask = torch.from_numpy(np.arange(words.shape[1]) < lengths[:, None])
    return Tokens(words, mask, lengths, sentences)


@lru_cache(maxsize=1 << 17)
def _characters(word: str) -> Int[np.ndarray, " C"]:
    content = [byte + 1 for byte in word.encode("utf-8", "replace")[:WORD_BYTES]]
    return np.array([BEGIN_WORD, *content, END_WORD])


def char_ids(sentences: Sequence[Sequence[str]]) -> Int[Tensor, "B T C"]:
    """Return the character ids of each word: UTF-8 bytes between begin and end; 0 past a sentence.

    >>> char_ids([["a", "bc"], ["d"]]).tolist()
    [[[259, 98, 260, 261], [259, 99, 100, 260]], [[259, 101, 260, 261], [0, 0, 0, 0]]]
    """
    characters = [[_characters(word) for word in sentence] for sentence in sentences]
    width = max((len(word) for row in characters for word in row), default=1)
    ids = np.zeros((len(sentences), max(map(len, sentences), default=0), width), dtype=np.int64)
    for numbers, row in zip(ids, characters, strict=True):
        for number, word in zip(numbers, row, strict=False):
            number[:] = PAD
            number[: len(word)] = word
    return torch.from_numpy(ids)
