"""A batch of sentences as every model reads it.

Axes: B batch, T tokens, C characters.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.elmo import char_ids
from elmo_bench.text import Vocab


class Tokens(NamedTuple):
    """Word numbers, character ids, which places hold a word, and (where they are known already) the biLM's layers."""

    words: Int[Tensor, "B T"]
    chars: Int[Tensor, "B T C"]
    mask: Bool[Tensor, "B T"]
    layers: tuple[Float[Tensor, "B T _"], ...] | None = None  # those that the mix takes, as the store has them


def tokens(sentences: Sequence[Sequence[str]], vocab: Vocab) -> Tokens:
    """Number the words and characters of a batch of sentences."""
    words = pad_sequence([torch.tensor([vocab.word_id(w) for w in s], dtype=torch.long) for s in sentences], True)
    lengths = torch.tensor([len(sentence) for sentence in sentences])
    return Tokens(words, char_ids(sentences), torch.arange(words.shape[1]) < lengths[:, None])
