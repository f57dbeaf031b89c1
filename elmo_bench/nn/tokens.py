"""The input of all models: a batch of sentences.

Axes: B batch, T tokens, C characters.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.elmo import Layers
from elmo_bench.text import Vocab
from elmo_bench.text.chars import PAD, char_ids


class Tokens(NamedTuple):
    """Word numbers and a mask of words, the words' characters if x_k reads them, and what ELMo
    reads: the layers, or the encoder's inputs.

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
        """Add the words' characters, up to the end of the longest word, unless they are there."""
        if self.chars is not None:
            return self
        chars = char_ids(self.sentences or ())
        longest = int(((chars > 0) & (chars != PAD)).any(0).any(0).sum())
        return self._replace(chars=chars[:, :, : max(1, longest)])

    def cut(self, rows: Sequence[int], length: int) -> "Tokens":
        """Return the sentences with these numbers, cut after `length` words.

        An encoder still reads whole sentences.
        """

        def chosen(part: Tensor, axis: int = 0) -> Tensor:
            return part.index_select(axis, to_device(torch.tensor(rows), part))

        sentences = None
        chars = self.chars
        if self.sentences is not None:
            sentences = [self.sentences[row] for row in rows]
            chars = self.with_chars().chars
        elmo = self.elmo
        if isinstance(elmo, Layers):
            elmo = Layers(chosen(elmo.layers, 1)[:, :, :length])
        elif elmo is not None:  # an encoder's inputs, of which some stay on the host
            elmo = type(elmo)(*map(chosen, elmo))
        return Tokens(
            words=chosen(self.words)[:, :length],
            mask=chosen(self.mask)[:, :length],
            lengths=self.lengths[list(rows)].clip(max=length),
            sentences=sentences,
            chars=None if chars is None else chosen(chars)[:, :length],
            elmo=elmo,
        )


def to_device(values: Tensor, like: Tensor) -> Tensor:
    """Copy a tensor from the host to the device of `like`, without waiting for a GPU."""
    if like.device.type == "cuda":
        return values.pin_memory().to(like.device, non_blocking=True)
    return values.to(like.device, non_blocking=True)


def tokens(sentences: Sequence[Sequence[str]], vocab: Vocab) -> Tokens:
    """Number the words of a batch of sentences."""
    rows = []
    for sentence in sentences:
        numbers = [vocab.word_id(word) for word in sentence]
        rows.append(torch.tensor(numbers, dtype=torch.long))
    words = pad_sequence(rows, batch_first=True)
    lengths = np.array([len(sentence) for sentence in sentences], dtype=np.int64)
    mask = torch.from_numpy(np.arange(words.shape[1]) < lengths[:, None])
    return Tokens(words, mask, lengths, sentences)
