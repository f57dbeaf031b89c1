"""From words to the subwords ("pieces") that a transformer reads, in windows of its size.

A sentence is tokenised as raw text with one space between words, so that each word has the same
pieces as in running text (byte-level BPE encodes " word" and "word" differently). The tokenizer
cuts a long sentence into windows that overlap by half.

Axes: B batch, T tokens (words), W windows of a sentence, S pieces of a window with its special
tokens, K pieces that are read.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

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


@dataclass
class Subwords:
    """Splits words into the pieces of a tokenizer, and lays these out in windows.

    Of the two copies of a piece in windows that overlap, the one with more context is read: the one
    farther from its window's ends, or from its beginning if the model reads only from the left.
    """

    tokenizer: Any  # a fast one of transformers
    marks: Sequence[int]  # 1 for each special token of a text, 0 for the pieces between them
    window: int  # the maximum number of pieces in a window, with special tokens
    pooling: str  # the pieces whose vectors are a word's vector: first, last or mean
    left_only: bool  # whether the model reads only from left to right
    pad: int  # the id that fills up windows

    def __post_init__(self) -> None:
        self.tokenizer.truncation_side = "right"
        capacity = self.window - sum(self.marks)
        stride = capacity // 2  # pieces that two windows share
        self._bounds = {"max_length": self.window, "stride": stride}
        # Pieces from `begin` up to `end` of a window are read; those before the first window's
        # `begin` and after the last one's `end`, too.
        self._before = self.marks.index(0)
        self._end = self._before + (capacity if self.left_only else capacity - stride // 2)
        self._begin = self._end - (capacity - stride)
        spaces = self.tokenizer.convert_tokens_to_ids([*SPACES])
        unknown = self.tokenizer.unk_token_id
        self._spaces = [n for n in spaces if isinstance(n, int) and n != unknown]

    def split(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Return the subwords of a batch, in the windows that the model will read."""
        kept = [
            [(number, word) for number, word in enumerate(sentence) if word and not word.isspace()]
            for sentence in sentences
        ]
        windows = self._windows([[word for _, word in words] for words in kept])
        sizes = [len(pieces) for row in windows for pieces, _ in row]
        shape = len(sentences), max(map(len, windows), default=0), max(sizes, default=0)
        ids, words = np.full(shape, self.pad), np.zeros(shape, np.int64)
        read, size = np.zeros(shape, bool), np.zeros(shape[:2], np.int64)
        first = 0  # the number of a sentence's first word among all that are kept
        for row, (in_row, spelled) in enumerate(zip(windows, kept, strict=True)):
            for number, (pieces, word) in enumerate(in_row):
                size[row, number] = len(pieces)
                ids[row, number, : len(pieces)] = pieces
                words[row, number, : len(pieces)] = first + word
                begin, end = self._begin if number else self._before, self._end
                if number == len(in_row) - 1:
                    end = len(pieces) - sum(self.marks) + self._before
                read[row, number, begin:end] = True
            first += len(spelled)
        shares = np.zeros(shape, np.float32)
        shares[read] = self._shares(ids[read], words[read])
        position = np.array([number for words_ in kept for number, _ in words_], np.int64)
        lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64)
        mask = torch.arange(int(lengths.max()) if len(lengths) else 0) < lengths[:, None]
        arrays = ids, size, position[words] * read, shares
        return Pieces._make([*map(torch.from_numpy, arrays), mask])

    def _windows(
        self, sentences: Sequence[Sequence[str]]
    ) -> list[list[tuple[list[int], Int[np.ndarray, " S"]]]]:
        """Return the windows of each sentence: ids of pieces, and the word of each."""
        windows: list[Any] = [[] for _ in sentences]
        # No tokenizer reads lone surrogates.
        texts = [" ".join(words).encode("utf-8", "replace").decode() for words in sentences]
        if not any(texts):
            return windows
        encoded = self.tokenizer(texts, **self._bounds, **CUTTING)
        # Where in its text each word ends, with the space behind it.
        ends = [np.cumsum([len(word) + 1 for word in words]) for words in sentences]
        keys = "overflow_to_sample_mapping", "input_ids", "offset_mapping"
        for row, ids, offsets in zip(*map(encoded.get, keys), strict=True):
            if texts[row]:
                # A word includes the space before it. A piece without characters may follow.
                begins = np.array([begin + 1 for begin, _ in offsets])
                word = np.searchsorted(ends[row], begins, side="right")
                word = np.maximum.accumulate(np.minimum(word, len(ends[row]) - 1))
                windows[row].append((ids, word))
        return windows

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


def special_marks(tokenizer: Any) -> list[int]:
    """Return 1 for each special token of a text, and 0 for the pieces between them."""
    marks: list[int] = tokenizer("a b", return_special_tokens_mask=True)["special_tokens_mask"]
    if 0 not in marks:
        raise ValueError("its tokenizer returns no subwords for 'a b': check its files")
    return marks


def tokenizer_state(tokenizer: Any) -> dict[str, Any]:
    """Return what identifies a tokenizer."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    # Calls of the tokenizer change these two.
    return {key: value for key, value in state.items() if key not in ("truncation", "padding")}
