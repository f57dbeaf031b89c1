"""x_k: the task's own context-independent word vectors, which ELMo is concatenated to.

Axes: B batch, T tokens, C characters, X x_k.
"""

from collections.abc import Mapping
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.bounds import MAX_SIZE, Dropout, Positive, Probability, Size
from elmo_bench.text.chars import NUM_CHARACTERS, PAD
from elmo_bench.text.vocab import PADDING, UNKNOWN, Vocab

from .tokens import Tokens


class Embed(nn.Module):
    """The contract of x_k: a module that gives the words of a batch, `Tokens`, vectors "B T X"."""

    dim: int  # X
    reads_chars: bool = True  # whether the batch must have the words' characters

    def extend(self, vectors: Mapping[str, np.ndarray]) -> None:
        """Append pretrained vectors of new words, in the order of their vocabulary numbers; only an
        embedding that takes `vectors` is asked to.
        """
        raise NotImplementedError


class Words(Embed):
    """A trained embedding of words, initialised from `vectors`, and at random for other words.

    `vectors` gives words their vectors, all of one length, which then replaces `word_dim`. With
    them, `freeze` keeps them constant and sets all other words to zero. During training, a word
    without a pretrained vector is replaced by the unknown word with probability `unknown_rate`.
    This trains the vector of the unknown word, which most names in new text get.
    """

    reads_chars = False
    _pretrained: Tensor

    def __init__(
        self,
        *,
        vocab: Vocab,
        vectors: Mapping[str, np.ndarray],
        word_dim: Annotated[int, Ge(0), Le(MAX_SIZE)],
        freeze: bool = False,
        unknown_rate: Probability = 0.0,
    ) -> None:
        super().__init__()
        self.dim = len(next(iter(vectors.values()))) if vectors else word_dim
        self.unknown_rate = unknown_rate
        has_vector = [True, True]  # padding and the unknown word are not replaced
        has_vector += [word in vectors for word in vocab.words]
        self.register_buffer("_pretrained", torch.tensor(has_vector), persistent=False)
        self.embedding = nn.Embedding(vocab.num_words, self.dim, padding_idx=PADDING)
        deviation = float(np.std(list(vectors.values()))) if vectors else 0.1
        nn.init.normal_(self.embedding.weight, std=deviation)
        frozen = freeze and bool(vectors)
        with torch.no_grad():
            self.embedding.weight[PADDING] = 0
            if frozen:
                # Otherwise words without a pretrained vector would keep random vectors.
                self.embedding.weight.zero_()
            for word, vector in vectors.items():
                self.embedding.weight[vocab.word_id(word)] = torch.from_numpy(vector)
        # The gradient of vectors without numbers is an illegal access on a GPU (torch 2.11).
        self.embedding.weight.requires_grad_(self.dim > 0 and not frozen)

    def extend(self, vectors: Mapping[str, np.ndarray]) -> None:
        """Append pretrained vectors of new words, in the order of their vocabulary numbers.

        Raises ValueError if their width differs from that in training.
        """
        weight = self.embedding.weight
        more = torch.from_numpy(np.stack(list(vectors.values()))).to(weight)
        if more.shape[1] != weight.shape[1]:
            raise ValueError(
                f"vocab.vectors: the vectors have {more.shape[1]} numbers, but the model was "
                f"trained with {weight.shape[1]}: give those of the training"
            )
        self.embedding = nn.Embedding.from_pretrained(
            torch.cat([weight.detach(), more]), freeze=not weight.requires_grad, padding_idx=PADDING
        )
        self._pretrained = torch.cat([self._pretrained, self._pretrained.new_ones(len(more))])

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T X"]:
        words = tokens.words
        if self.training and self.unknown_rate:
            drawn = torch.rand(words.shape, device=words.device) < self.unknown_rate
            words = words.masked_fill(drawn & ~self._pretrained[words], UNKNOWN)
        return self.embedding(words)


class Characters(nn.Module):
    """A convolution over a word's characters, at all places where it covers one, and max pooling.

    `dropout` applies to the characters' vectors, before the convolution. Their initial distribution
    is uniform between minus and plus `scale` or, without `scale`, standard normal.
    """

    def __init__(
        self, char_dim: int, num_filters: int, width: int, dropout: float, scale: float | None
    ) -> None:
        super().__init__()
        self.width = width
        self.dropout = dropout
        self.embedding = nn.Embedding(NUM_CHARACTERS, char_dim, padding_idx=0)
        if scale is not None:
            nn.init.uniform_(self.embedding.weight[1:], -scale, scale)
        self.convolution = nn.Conv1d(char_dim, num_filters, width, padding=width - 1)

    def forward(self, chars: Int[Tensor, "B T C"]) -> Float[Tensor, "B T X"]:
        unpadded = chars.masked_fill(chars == PAD, 0)
        lengths = (unpadded > 0).sum(-1)
        characters = self.embedding(unpadded.flatten(0, 1))
        characters = F.dropout(characters, self.dropout, self.training)
        features = torch.relu(self.convolution(characters.transpose(1, 2)))
        positions = torch.arange(features.shape[-1], device=chars.device)
        # These positions exist only because the batch has a longer word.
        outside = positions >= lengths.flatten()[:, None, None] + self.width - 1
        return features.masked_fill(outside, 0).amax(-1).unflatten(0, chars.shape[:2])


class WordsChars(Words):
    """Word vectors and a character convolution, concatenated: the paper's x_k for NER."""

    reads_chars = True

    def __init__(
        self,
        *,
        vocab: Vocab,
        vectors: Mapping[str, np.ndarray],
        word_dim: Annotated[int, Ge(0), Le(MAX_SIZE)],
        freeze: bool = False,
        unknown_rate: Probability = 0.0,
        char_dim: Size,
        num_filters: Size,
        width: Size,
        char_dropout: Dropout = 0.0,
        char_scale: Positive | None = None,
    ) -> None:
        super().__init__(
            vocab=vocab,
            vectors=vectors,
            word_dim=word_dim,
            freeze=freeze,
            unknown_rate=unknown_rate,
        )
        self.characters = Characters(char_dim, num_filters, width, char_dropout, char_scale)
        self.dim += num_filters

    def forward(self, tokens: Tokens) -> Float[Tensor, "B T X"]:
        return torch.cat([super().forward(tokens), self.characters(tokens.with_chars().chars)], -1)
