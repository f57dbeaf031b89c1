"""From words to the subwords ("pieces") that a transformer reads, in windows of its size.

A sentence is tokenised as raw text with one space between words, so that each word has the same
pieces as in running text (byte-level BPE encodes " word" and "word" differently). The tokenizer
cuts a long sentence into windows that overlap by half.

Axes: B batch, T tokens (words), W windows of a sentence, S pieces of a window with its special
tokens, N windows of the batch, K pieces that are read.
"""

import json
import logging
from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

log = logging.getLogger(__name__)
CUTTING = {  # how the tokenizer is called
    "truncation": True,
    "padding": False,
    "verbose": False,
    "return_overflowing_tokens": True,
    "return_offsets_mapping": True,
    "return_attention_mask": False,
    "return_token_type_ids": False,
    "split_special_tokens": True,  # a word such as "</s>" is an ordinary word
}
SPACES = ("▁", "Ġ", " ")  # pieces that are only a space


class Pieces(NamedTuple):
    """A batch of sentences as subwords, in the windows that the model reads."""

    ids: Int[Tensor, "B W S"]
    sizes: Int[Tensor, "B W"]  # pieces of each window; 0: no window
    words: Int[Tensor, "B W S"]  # each piece's word
    shares: Float[Tensor, "B W S"]  # weight of a piece in its word's vector; 0: not read here
    mask: Bool[Tensor, "B T"]  # true for words, false for padding

    def to(self, *_: Any, **__: Any) -> "Pieces":
        """Stay on the host, where `Transformer` lays out what it sends to its device: Lightning
        would move them there, and each tensor's way back waits for the batch before.
        """
        return self


class Windows(NamedTuple):
    """The windows of all sentences of a batch, one after the other."""

    owners: Int[np.ndarray, " N"]  # each window's sentence
    ids: Int[np.ndarray, "N S"]
    sizes: Int[np.ndarray, " N"]  # pieces of each window
    words: Int[np.ndarray, "N S"]  # each piece's word, as its number among the words that are kept


class Subwords:
    """Splits words into the pieces of a tokenizer, and lays these out in windows.

    Args:
        tokenizer: a fast tokenizer of transformers.
        marks: 1 for each special token of a text, and 0 for the pieces between them.
        window: the maximum number of pieces in a window, including special tokens.
        pooling: the pieces whose vectors are a word's vector: first, last or mean.
        left_only: whether the model reads only from left to right.
        pad: the id that fills up windows.
        num_embeddings: the number of pieces for which the model has an embedding.

    Of the two copies of a piece in windows that overlap, the one with more context is read: the one
    farther from its window's ends, or from its beginning if the model reads only from the left.

    """

    def __init__(
        self,
        tokenizer: Any,
        marks: Sequence[int],
        *,
        window: int,
        pooling: str,
        left_only: bool,
        pad: int,
        num_embeddings: int,
    ) -> None:
        self.tokenizer = tokenizer
        self.tokenizer.truncation_side = "right"
        self.pooling = pooling
        self.pad = pad
        self.num_embeddings = num_embeddings
        self.prefix, self.specials = marks.index(0), sum(marks)
        capacity = window - self.specials
        stride = capacity // 2  # pieces that two windows share
        self._bounds = {"max_length": window, "stride": stride}
        # Pieces from `begin` up to `end` of a window are read; those before the first window's
        # `begin` and after the last one's `end`, too.
        self.end = capacity if left_only else capacity - stride // 2
        self.begin = self.end - (capacity - stride)
        self._spaces = _space_ids(tokenizer)
        self._said = False  # whether words without a piece were reported

    def split(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Return the subwords of a batch, in the windows that the model will read. Raises
        ValueError for a subword without an embedding.
        """
        kept = [
            (row, number)
            for row, words in enumerate(sentences)
            for number, word in enumerate(words)
            if word and not word.isspace()
        ]
        owners, ids, sizes, words = self._windows(sentences, kept)
        order = np.arange(len(owners)) - np.searchsorted(owners, owners)  # in its sentence
        counts = np.bincount(owners, minlength=len(sentences))
        read = self._read(sizes, order, counts[owners], ids.shape[1])
        word = words[read]
        self._check(ids, sum(map(len, sentences)) - len(np.unique(word)))
        shares = np.zeros(ids.shape, np.float32)
        shares[read] = self._shares(ids[read], word)
        words[read] = np.array([number for _, number in kept], np.int64)[word]
        shape = len(sentences), int(counts.max(initial=0))

        def by_sentence(values: np.ndarray) -> Tensor:
            whole = np.zeros((*shape, *values.shape[1:]), values.dtype)
            whole[owners, order] = values
            return torch.from_numpy(whole)

        lengths = torch.tensor([len(words) for words in sentences], dtype=torch.int64)
        mask = torch.arange(int(lengths.max()) if len(lengths) else 0) < lengths[:, None]
        return Pieces._make([*map(by_sentence, (ids, sizes, words * read, shares)), mask])

    def _windows(
        self, sentences: Sequence[Sequence[str]], kept: Sequence[tuple[int, int]]
    ) -> Windows:
        """Return the windows of the words that are `kept`, given by their sentence and place."""
        rows, words = np.unique([row for row, _ in kept], return_counts=True)
        if not kept:
            none = np.zeros((0, 0), np.int64)
            return Windows(none.sum(0), none, none.sum(0), none)
        spelled = [sentences[row][number] for row, number in kept]
        last = words.cumsum() - 1  # word of each sentence
        texts = [
            _valid(" ".join(spelled[end - count : end]))
            for end, count in zip(last + 1, words, strict=True)
        ]
        encoded = self.tokenizer(texts, **self._bounds, **CUTTING)
        sizes = np.array([*map(len, encoded["input_ids"])])
        there = np.arange(sizes.max()) < sizes[:, None]
        ids, begins = np.full(there.shape, self.pad), np.zeros(there.shape, np.int64)
        ids[there] = np.fromiter(chain.from_iterable(encoded["input_ids"]), np.int64)
        begins[there] = [begin for offsets in encoded["offset_mapping"] for begin, _ in offsets]
        text = np.array(encoded["overflow_to_sample_mapping"])
        # Where pieces begin in all texts as one, in which each word includes the space before it.
        ends = np.cumsum([len(word) + 1 for word in spelled])
        begins += 1 + np.append(0, ends[last])[text, None]
        word = np.searchsorted(ends, begins, side="right")
        # A piece without characters may follow the text.
        word = np.maximum.accumulate(np.minimum(word, last[text, None]), axis=1)
        return Windows(rows[text], ids, sizes, word)

    def _read(
        self,
        sizes: Int[np.ndarray, " N"],
        order: Int[np.ndarray, " N"],
        counts: Int[np.ndarray, " N"],
        length: int,
    ) -> Bool[np.ndarray, "N S"]:
        """Return which pieces are read in which window: each of a sentence once."""
        column = np.arange(length) - self.prefix
        begin = np.where(order == 0, 0, self.begin)
        inner = sizes - self.specials
        end = np.where(order == counts - 1, inner, np.minimum(inner, self.end))
        return (begin[:, None] <= column) & (column < end[:, None])

    def _shares(
        self, ids: Int[np.ndarray, " K"], word: Int[np.ndarray, " K"]
    ) -> Float[np.ndarray, " K"]:
        """Return the share of each piece in the vector of its word."""
        if self.pooling == "mean":
            return (1 / np.bincount(word)[word]).astype(np.float32)
        order = np.arange(len(word))  # of several pieces of a word the last one here remains
        if self.pooling == "first":  # not only a space
            order = np.lexsort((-order, ~np.isin(ids, self._spaces)))
        chosen = np.full(word.max(initial=-1) + 1, -1)
        chosen[word[order]] = order
        shares = np.zeros(len(word), np.float32)
        shares[chosen[chosen >= 0]] = 1
        return shares

    def _check(self, ids: Int[np.ndarray, "N S"], without: int) -> None:
        """Warn once about words without subwords; raise ValueError for a subword without an
        embedding.
        """
        if ids.max(initial=0) >= self.num_embeddings:
            piece = self.tokenizer.convert_ids_to_tokens(int(ids.max()))
            raise ValueError(
                f"the tokenizer maps subword {piece!r} to {ids.max()}, but the model of "
                f"encoder.model has only {self.num_embeddings} embeddings: use the tokenizer of "
                "this model"
            )
        if without and not self._said:
            self._said = True
            log.warning(
                "%d words of this batch have no subword in the tokenizer: such words have zeros in "
                "all layers",
                without,
            )


def special_marks(tokenizer: Any) -> list[int]:
    """Return 1 for each special token of a text, and 0 for the pieces between them."""
    marks: list[int] = tokenizer("a b", return_special_tokens_mask=True)["special_tokens_mask"]
    if 0 not in marks:
        raise ValueError(
            "encoder.model: its tokenizer returns no subwords for 'a b': check that its files are "
            "complete"
        )
    return marks


def _valid(text: str) -> str:
    """Replace lone surrogates, which no tokenizer reads, by "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _space_ids(tokenizer: Any) -> list[int]:
    ids = tokenizer.convert_tokens_to_ids([*SPACES])
    return [
        number for number in ids if isinstance(number, int) and number != tokenizer.unk_token_id
    ]


def tokenizer_state(tokenizer: Any) -> dict[str, Any]:
    """Return what identifies a tokenizer."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    # Calls of the tokenizer change these two.
    return {key: value for key, value in state.items() if key not in ("truncation", "padding")}
