"""Word vectors as an encoder of one layer: what a contextual encoder adds is set against them at
the same place in the model.

Axes: L layers, B batch, T tokens, D encoder.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.text import FALLBACK, Case, forms, read_table

NO_VECTOR = 0  # the row of padding and of every word that the file lacks: zeros


class Rows(NamedTuple):
    """What word vectors read of a batch: the number of each word's vector, 0 past a sentence's
    end.
    """

    rows: Int[Tensor, "B T"]


class WordVectors(nn.Module):
    """A vector a word, whatever stands around it; zeros, which stay so, for a word without one.

    `words` says in which row of `table` a word's vector is; row 0 is zeros. `lowercase` says in
    which form a word is looked up: true, false, or "fallback" (in lower case if it has no vector as
    it stands).
    """

    num_layers = 1

    def __init__(
        self,
        words: Mapping[str, int],
        table: Float[Tensor, "N D"],
        *,
        lowercase: Case = FALLBACK,
    ) -> None:
        super().__init__()
        if lowercase not in (True, False, FALLBACK):
            raise ValueError(
                f"encoder.lowercase={lowercase}, but it must be true, false or {FALLBACK}"
            )
        self.words, self.lowercase, self.dim = words, lowercase, table.shape[1]
        self.embedding = nn.Embedding.from_pretrained(table, padding_idx=NO_VECTOR)

    def fingerprint(self) -> str:
        """A sha256 of the words, their vectors and how they are looked up."""
        sha256 = hashlib.sha256(json.dumps([self.lowercase, self.words]).encode())
        sha256.update(self.embedding.weight.detach().cpu().contiguous().numpy())
        return sha256.hexdigest()

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Rows:
        """The number of each word's vector."""
        rows = np.full((len(sentences), max(map(len, sentences), default=0)), NO_VECTOR)
        for row, sentence in zip(rows, sentences, strict=True):
            row[: len(sentence)] = [self._row(word) for word in sentence]
        return Rows(torch.from_numpy(rows))

    def _row(self, word: str) -> int:
        rows = (self.words.get(form) for form in forms(word, self.lowercase))
        return next((row for row in rows if row is not None), NO_VECTOR)

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """All vectors are one group."""
        return [[self.embedding.weight]]

    def forward(
        self, inputs: Rows, layers: Sequence[int] | None = None
    ) -> Float[Tensor, "L B T D"]:
        """The one layer, as often as it is asked for."""
        vectors = self.embedding(inputs.rows)[None]
        return vectors if layers is None else vectors[list(layers)]


def load(
    vectors: str | Path | None, *, lowercase: Case = FALLBACK, pretrained: bool = True
) -> WordVectors:
    """The vectors of a file: text of GloVe, word2vec or fastText, word2vec's .bin; plain or .gz.

    Without `pretrained` they are random, with the deviation of the file's. Raises FileNotFoundError
    and ValueError, with file and line, for a file that does not hold vectors.
    """
    if vectors is None:
        raise ValueError(
            "encoder.vectors is empty: give a file of word vectors (GloVe, word2vec, fastText's "
            ".vec): encoder.vectors=FILE"
        )
    words, table = read_table(Path(vectors).expanduser())
    if not pretrained:
        table[1:] = float(table[1:].std()) * torch.randn(len(table) - 1, table.shape[1]).numpy()
    return WordVectors(words, torch.from_numpy(table), lowercase=lowercase)
