"""From words to the subwords ("pieces") that a transformer reads, in windows of its size.

A sentence is tokenised once, as raw text with one space between words, so that each word has the
same pieces as in running text (byte-level BPE encodes " word" and "word" differently).

Axes: B batch, T tokens (words), P pieces of a sentence, W windows of a sentence.
"""

import json
import logging
from collections.abc import Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

log = logging.getLogger(__name__)
SPACES = ("▁", "Ġ", " ")  # pieces that are only a space
_BEGIN = itemgetter(0)
_BARE: dict[str, Any] = {  # tokenizer arguments for all pieces, and only pieces
    **{"add_special_tokens": False, "padding": False, "truncation": False, "verbose": False},
    **{"return_attention_mask": False, "return_token_type_ids": False},
    "split_special_tokens": True,  # a word that looks like one, such as "</s>", is an ordinary word
}


class Pieces(NamedTuple):
    """A batch of sentences as subwords, without special tokens."""

    ids: Int[Tensor, "B P"]
    words: Int[Tensor, "B P"]  # each piece's word; -1 past the sentence's last piece
    shares: Float[Tensor, "B P"]  # weight of a piece in its word's vector: 1/n for mean
    homes: Int[Tensor, "B P"]  # the window whose vector of a piece is used
    windows: Int[Tensor, "B W 2"]  # first piece, and the one after the last; 0, 0: no window
    mask: Bool[Tensor, "B T"]  # true for words, false for padding

    def to(self, *_: Any, **__: Any) -> "Pieces":
        """Stay on the host, where `Transformer` lays out what it sends to its device: Lightning
        would move them there, and each tensor's way back waits for the batch before.
        """
        return self


class Split(NamedTuple):
    """The subwords of all sentences, concatenated (K of them)."""

    ids: Int[np.ndarray, " K"]
    words: Int[np.ndarray, " K"]  # each piece's word, as its number in the sentence
    sizes: Int[np.ndarray, " B"]  # number of pieces of each sentence


class Subwords:
    """Splits words into the pieces of a tokenizer, and lays these out in windows.

    Args:
        tokenizer: a tokenizer of transformers, fast or slow.
        special: the special tokens before and after the pieces of a window.
        window: the maximum number of pieces in a window, including special tokens.
        pooling: the pieces whose vectors are a word's vector: first, last or mean.
        left_only: whether the model reads only from left to right.
        num_embeddings: the number of pieces for which the model has an embedding.

    """

    def __init__(
        self,
        tokenizer: Any,
        special: tuple[list[int], list[int]],
        *,
        window: int,
        pooling: str,
        left_only: bool,
        num_embeddings: int,
    ) -> None:
        self.tokenizer = tokenizer
        self.prefix, self.suffix = special
        self.capacity = window - len(self.prefix) - len(self.suffix)
        self.pooling = pooling
        self.left_only = left_only
        self.num_embeddings = num_embeddings
        self._spaces = _space_ids(tokenizer)
        self._between = " " if tokenizer.is_fast else _between(tokenizer)
        self._said = False  # whether words without a piece were reported

    def split(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Return the subwords of a batch, in the windows that the model will read. Raises
        ValueError for a subword without an embedding.
        """
        split = self._as_text if self.tokenizer.is_fast else self._by_word
        all_ids, all_words, sizes = split(sentences)
        count, length = len(sizes), int(sizes.max(initial=0))
        ids, homes = np.zeros((2, count, length), dtype=np.int64)
        words = np.full((count, length), -1)
        there = np.arange(length) < sizes[:, None]
        ids[there], words[there] = all_ids, all_words
        windows = self._windows(sizes, words, homes)
        shares = self._shares(ids, words)
        self._check(sentences, ids, words, shares)
        lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64)
        mask = torch.arange(int(lengths.max()) if count else 0) < lengths[:, None]
        arrays = [torch.from_numpy(array) for array in (ids, words, shares, homes, windows)]
        return Pieces._make([*arrays, mask])

    def _windows(
        self,
        sizes: Int[np.ndarray, " B"],
        words: Int[np.ndarray, "B P"],
        homes: Int[np.ndarray, "B P"],
    ) -> Int[np.ndarray, "B W 2"]:
        """Return the windows of each sentence; `homes` is filled for sentences with several."""
        several = {}
        for row in (sizes > self.capacity).nonzero()[0]:
            several[row], homes[row, : sizes[row]] = windows_of(
                words[row, : sizes[row]], self.capacity, left_only=self.left_only
            )
        most = max(map(len, several.values()), default=int(sizes.max(initial=0) > 0))
        windows = np.zeros((len(sizes), most, 2), dtype=np.int64)
        if most:
            windows[:, 0, 1] = sizes
        for row, spans in several.items():
            windows[row, : len(spans)] = spans
        return windows

    def _as_text(self, sentences: Sequence[Sequence[str]]) -> Split:
        """Split into subwords with a fast tokenizer, which returns the position of each subword in
        the text.
        """
        kept = [
            [n for n, word in enumerate(words) if word and not word.isspace()]
            for words in sentences
        ]
        texts = [
            _valid(" ".join([words[n] for n in numbers]))
            for words, numbers in zip(sentences, kept, strict=True)
        ]
        if not texts:
            return Split._make(np.empty((3, 0), int))
        encoded = self.tokenizer(texts, **_BARE, return_offsets_mapping=True)
        ids, offsets = (
            [pieces if text else [] for pieces, text in zip(encoded[name], texts, strict=True)]
            for name in ("input_ids", "offset_mapping")
        )
        sizes = np.array([*map(len, ids)])
        # Offsets as in one text, in which each word includes the space before it.
        ends = np.cumsum(
            [
                len(words[n]) + 1
                for words, numbers in zip(sentences, kept, strict=True)
                for n in numbers
            ]
        )
        first = np.cumsum([0, *(len(text) + bool(text) for text in texts[:-1])])
        begins = np.fromiter(map(_BEGIN, chain.from_iterable(offsets)), int, sizes.sum())
        word = np.searchsorted(ends, 1 + begins + np.repeat(first, sizes), side="right")
        # A piece without characters may follow the text.
        word = np.minimum(word, np.repeat(np.cumsum([*map(len, kept)]) - 1, sizes))
        numbers = np.fromiter(chain.from_iterable(kept), int, len(ends))
        all_ids = np.fromiter(chain.from_iterable(ids), int, sizes.sum())
        return Split(all_ids, numbers[np.maximum.accumulate(word)], sizes)

    def _by_word(self, sentences: Sequence[Sequence[str]]) -> Split:
        """Split into subwords with a slow tokenizer, one word at a time; each word includes the
        space before it if the tokenizer has spaces.
        """
        pieces: list[int] = []
        numbers: list[int] = []
        sizes = []
        for sentence in sentences:
            begin = len(pieces)
            for number, word in enumerate(sentence):
                if word and not word.isspace():
                    ids = _ids(
                        self.tokenizer, (self._between if len(pieces) > begin else "") + word
                    )
                    pieces += ids
                    numbers += [number] * len(ids)
            sizes.append(len(pieces) - begin)
        return Split._make(np.array(values, int) for values in (pieces, numbers, sizes))

    def _shares(
        self, ids: Int[np.ndarray, "B P"], words: Int[np.ndarray, "B P"]
    ) -> Float[np.ndarray, "B P"]:
        """Return the share of each subword in the vector of its word; 0 after the end of a
        sentence.
        """
        there = words >= 0
        before, after = (
            np.pad(words, ((0, 0), (1, 1)), constant_values=-1)[:, side] != words
            for side in (slice(None, -2), slice(2, None))
        )
        if self.pooling == "last":
            return (after & there).astype(np.float32)
        first = before & there
        if self.pooling == "mean":
            number = first.cumsum().reshape(words.shape)[there]  # number of each word in the batch
            shares = np.zeros(words.shape, np.float32)
            shares[there] = 1 / np.bincount(number)[number]
            return shares
        spaces = np.isin(ids, self._spaces) if self._spaces else np.zeros_like(first)
        for row, piece in zip(*(first & spaces).nonzero(), strict=True):
            of_word = (words[row] == words[row, piece]) & ~spaces[row]
            if (others := of_word[piece:].nonzero()[0]).size:
                first[row, piece], first[row, piece + others[0]] = False, True
        return first.astype(np.float32)

    def _check(
        self,
        sentences: Sequence[Sequence[str]],
        ids: np.ndarray,
        words: np.ndarray,
        shares: np.ndarray,
    ) -> None:
        """Warn once about words without subwords; raise ValueError for a subword without an
        embedding.
        """
        if ids.size and ids.max() >= self.num_embeddings:
            piece = self.tokenizer.convert_ids_to_tokens(int(ids.max()))
            raise ValueError(
                f"the tokenizer maps subword {piece!r} to {ids.max()}, but the model of "
                f"encoder.model has only {self.num_embeddings} embeddings: use the tokenizer of "
                "this model"
            )
        if not self._said and round(shares.sum(dtype=float)) < sum(map(len, sentences)):
            without = [
                word
                for sentence, row in zip(sentences, words, strict=True)
                for word in (sentence[n] for n in sorted({*range(len(sentence))} - {*row.tolist()}))
            ]
            self._said = True
            log.warning(
                "%d words of this batch have no subword in the tokenizer, such as %.40r: "
                "such words have zeros in all layers",
                *(len(without), without[0]),
            )


def special_pieces(tokenizer: Any, model: Any) -> tuple[list[int], list[int]]:
    """Return the special tokens that the tokenizer adds before and after a text."""
    inner = _ids(tokenizer, "a b")
    whole = _ids(tokenizer, "a b", add_special_tokens=True, split_special_tokens=False)
    for number in range(len(whole) - len(inner) + 1):
        if inner and whole[number : number + len(inner)] == inner:
            return whole[:number], whole[number + len(inner) :]
    raise ValueError(
        f"encoder.model={model}: its tokenizer returns no subwords for 'a b': check that "
        "its files are complete"
    )


def _ids(tokenizer: Any, text: str, **settings: Any) -> list[int]:
    return list(tokenizer(_valid(text), **(_BARE | settings))["input_ids"])


def _valid(text: str) -> str:
    """Replace lone surrogates, which no tokenizer reads, by "?"."""
    return text.encode("utf-8", "replace").decode("utf-8")


def _space_ids(tokenizer: Any) -> list[int]:
    ids = tokenizer.convert_tokens_to_ids([*SPACES])
    return [
        number for number in ids if isinstance(number, int) and number != tokenizer.unk_token_id
    ]


def _between(tokenizer: Any) -> str:
    """Return what precedes a word in mid-sentence for a slow tokenizer that reads one word at a
    time: a space, or nothing.
    """
    text, first, word = _ids(tokenizer, "a b"), _ids(tokenizer, "a"), _ids(tokenizer, "b")
    return " " if text != first + word and text == first + _ids(tokenizer, " b") else ""


def tokenizer_text(tokenizer: Any) -> Any:
    """Return a text that identifies a tokenizer."""
    if tokenizer.is_fast:
        state = json.loads(tokenizer.backend_tokenizer.to_str())
        # Calls of the tokenizer change these two.
        return {key: value for key, value in state.items() if key not in ("truncation", "padding")}
    kwargs = {
        key: value
        for key, value in tokenizer.init_kwargs.items()
        if key not in ("name_or_path", "is_local", "local_files_only") and not key.endswith("_file")
    }
    ranks = sorted(map(str, getattr(tokenizer, "bpe_ranks", {}).items()))
    vocabulary = sorted(tokenizer.get_vocab().items())
    return [type(tokenizer).__name__, vocabulary, kwargs, ranks]


def windows_of(
    words: np.ndarray, capacity: int, *, left_only: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Return the windows of a sentence, [first piece, one after the last], and each piece's window.

    Windows begin and end at words, or between the pieces of a word larger than a window. Each
    begins half a window after the previous one. A word is taken from the window in which it is
    farthest from the ends; for models that read only from left to right (`left_only`), farthest
    from the beginning.

    >>> windows_of(np.array([0, 1, 1, 2, 3, 4]), 4, left_only=False)
    (array([[0, 4],
           [1, 5],
           [3, 6]]), array([0, 0, 0, 1, 2, 2]))
    """
    size = len(words)
    if size <= capacity:
        return np.array([[0, size]] * (size > 0)).reshape(-1, 2), np.zeros(size, int)
    starts = np.flatnonzero(np.insert(words[1:] != words[:-1], 0, True))
    sizes = np.diff(starts, append=size)
    large = np.repeat(sizes > capacity, sizes)
    # Starts of units: words, or pieces of large words.
    cuts = np.union1d(starts, np.flatnonzero(large))
    ends = np.append(cuts[1:], size)
    spans, begin = [], 0
    while True:
        last = size - begin <= capacity
        if last:
            # Begin with as many units before it as fit.
            begin = int(cuts[np.searchsorted(cuts, size - capacity)])
        end = size if last else int(ends[np.searchsorted(ends, begin + capacity, side="right") - 1])
        spans.append((begin, end))
        if last:
            break
        half = int(cuts[np.searchsorted(cuts, begin + max(capacity // 2, 1), side="right") - 1])
        begin = half if half > begin else int(cuts[np.searchsorted(cuts, begin, side="right")])
    best, homes = np.full(len(cuts), -1), np.zeros(len(cuts), int)
    for number, (begin, end) in enumerate(spans):
        units = slice(np.searchsorted(cuts, begin), np.searchsorted(ends, end, side="right"))
        context = cuts[units] - begin
        if not left_only:
            context = np.minimum(context, end - ends[units])
        better = context > best[units]
        best[units][better], homes[units][better] = context[better], number
    return np.array(spans), np.repeat(homes, ends - cuts)
