"""Static word vectors as an encoder with one layer, for comparison with contextual encoders at the
same place in the model.

Axes: L layers, B batch, T tokens, D encoder.
"""

import hashlib
import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.text import Sentences, forms, read_vectors
from elmo_bench.text.vocab import Case

from .contract import Encoder, Misread

Table = tuple[dict[str, int], np.ndarray]  # the row of each word, and the vectors
NO_VECTOR = 0  # row of zeros, for padding and words that the file lacks
# Published vectors lack 10 to 35 % of the word types of a corpus in their language, mostly rare
# ones (GloVe of 120,000 words, five English corpora), and 75 to 95 % in another language.
LACKING = 0.5


class Rows(NamedTuple):
    """The row of each word's vector in a table."""

    rows: Int[Tensor, "B T"]


class WordVectors(Encoder):
    """One vector per word, independent of its context; fixed zeros for words without a vector.

    `words` maps each word to a row of `table`; row 0 is zeros. `lowercase` says how a word is
    looked up: true, false, or "fallback" (in lower case if it has no vector as written).
    """

    num_layers = 1
    is_static = True  # reading a store would take as long

    def __init__(
        self, words: Mapping[str, int], table: Float[Tensor, "N D"], *, lowercase: Case = "fallback"
    ) -> None:
        super().__init__()
        self.words = words
        self.lowercase = lowercase
        self.dim = table.shape[1]
        self.embedding = nn.Embedding.from_pretrained(table, padding_idx=NO_VECTOR)

    def fingerprint(self) -> str:
        """Return a sha256 of the words, their vectors and the way they are looked up."""
        sha256 = hashlib.sha256(json.dumps([self.lowercase, self.words]).encode())
        sha256.update(self.embedding.weight.detach().cpu().contiguous().numpy())
        return sha256.hexdigest()

    def prepare(self, sentences: Sentences) -> Rows:
        """Return the row of each word's vector; 0 after the end of a sentence."""
        rows = np.full((len(sentences), max(map(len, sentences), default=0)), NO_VECTOR)
        for row, sentence in zip(rows, sentences, strict=True):
            row[: len(sentence)] = [self._row(word) for word in sentence]
        return Rows(torch.from_numpy(rows))

    def misread(self, words: Collection[str]) -> Misread:
        """Return the words without a vector, which have zeros."""
        lacking = [word for word in words if self._row(word) == NO_VECTOR]
        return Misread("no vector for", lacking, LACKING)

    def _row(self, word: str) -> int:
        for form in forms(word, self.lowercase):
            if form in self.words:
                return self.words[form]
        return NO_VECTOR

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Return all vectors as one group."""
        return [[self.embedding.weight]]

    def forward(
        self, inputs: Rows, layers: Sequence[int] | None = None
    ) -> Float[Tensor, "L B T D"]:
        """Return the one layer as many times as it is requested."""
        vectors = self.embedding(inputs.rows)[None]
        return vectors if layers is None else vectors[list(layers)]


def load(
    vectors: str | Path | Sequence[str | Path] | None,
    *,
    lowercase: Case = "fallback",
    pretrained: bool = True,
) -> WordVectors:
    """Load vectors from a file: GloVe, word2vec or fastText text, plain or .gz. Those of several
    files are concatenated, with 0 if a file lacks the word.

    With `pretrained=False` they are random, with the standard deviation of the file's vectors.
    Raises FileNotFoundError, or ValueError with file and line for a file without valid vectors.
    """
    paths = [vectors] if isinstance(vectors, str | Path) else list(vectors or ())
    if not paths:
        raise ValueError(
            "encoder.vectors is empty: give a file of word vectors (GloVe, word2vec, fastText's "
            ".vec): encoder.vectors=FILE, or encoder.vectors=[FILE,FILE]"
        )
    words, table = _beside([_read(path, pretrained=pretrained) for path in paths])
    return WordVectors(words, torch.from_numpy(table), lowercase=lowercase)


def _read(path: str | Path, *, pretrained: bool) -> Table:
    words, table = read_vectors(Path(path).expanduser())
    if not words:
        raise ValueError(f"{path}: no vectors in this file")
    if not pretrained:
        table[1:] = float(table[1:].std()) * torch.randn(len(table) - 1, table.shape[1]).numpy()
    return words, table


def _beside(tables: Sequence[Table]) -> Table:
    """Return one table with the words and the columns of all."""
    if len(tables) == 1:
        return tables[0]
    rows: dict[str, int] = {}
    width = 0
    for words, table in tables:
        for word in words:
            rows.setdefault(word, len(rows) + 1)
        width += table.shape[1]
    joined = np.zeros((len(rows) + 1, width), np.float32)
    start = 0
    for words, table in tables:
        end = start + table.shape[1]
        joined[[rows[word] for word in words], start:end] = table[list(words.values())]
        start = end
    return rows, joined
