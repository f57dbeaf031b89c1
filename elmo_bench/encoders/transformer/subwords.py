"""From words to the subwords ("pieces") of a tokenizer.

A text is tokenised whole and raw, with one space between words, so that each word has the same
pieces as in running text (byte-level BPE encodes " word" and "word" differently).

Marks stand for special tokens; a text is what is between two of them.

Axes: N words and marks, E entries (the marks, then each word of each text), P their pieces.
"""

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from elmo_bench.text.joined import BREAK, SUMMARY

# The special tokens at the ends of a sequence.
BEFORE = "\ufdd0before"
AFTER = "\ufdd0after"
MARKS = BEFORE, SUMMARY, BREAK, AFTER  # are the first entries, in this order
TEXT = 1000  # words that are tokenised as one text, to see what is known of them
SPACES = ("▁", "Ġ", " ")  # pieces that are only a space


class Entries(NamedTuple):
    """The pieces of entries, one after another."""

    starts: Int[np.ndarray, " E"]  # an entry's first piece
    counts: Int[np.ndarray, " E"]  # its number of pieces
    ids: Int[np.ndarray, " P"]
    shares: Float[np.ndarray, " P"]  # weight of a piece in its word's vector


class Subwords:
    """Splits texts into the pieces of a fast tokenizer of transformers.

    `pooling` says whether the vector of a word is that of its first piece (which is not only a
    space), its last, or the mean of all.
    """

    def __init__(self, tokenizer: Any, pooling: str, marks: Sequence[Sequence[int]]) -> None:
        # `marks`: the special tokens in the place of each of MARKS
        self.tokenizer = tokenizer
        self.pooling = pooling
        spaces = tokenizer.convert_tokens_to_ids(list(SPACES))
        unknown = tokenizer.unk_token_id
        self._spaces = [space for space in spaces if isinstance(space, int) and space != unknown]
        entries = self._entries(list(chain.from_iterable(marks)), [len(mark) for mark in marks])
        self._marks = entries._replace(shares=np.zeros_like(entries.shares))

    def __call__(self, words: Sequence[str]) -> tuple[Int[np.ndarray, " N"], Entries]:
        """Return the number of each word's entry, and the entries."""
        numbers = []
        texts: list[list[str]] = []
        num_entries = len(MARKS)
        is_after_mark = True
        for word in words:
            if word in MARKS:
                numbers.append(MARKS.index(word))
                is_after_mark = True
                continue
            if is_after_mark:
                texts.append([])
                is_after_mark = False
            texts[-1].append(word)
            numbers.append(num_entries)
            num_entries += 1
        marks = self._marks
        own = self._words(texts)
        entries = Entries(
            starts=np.concatenate([marks.starts, own.starts + len(marks.ids)]),
            counts=np.concatenate([marks.counts, own.counts]),
            ids=np.concatenate([marks.ids, own.ids]),
            shares=np.concatenate([marks.shares, own.shares]),
        )
        return np.array(numbers, np.int64), entries

    def known(self, words: Sequence[str]) -> list[bool]:
        """Return of each word whether one of its pieces is neither unknown nor only a space.

        Words of bytes are all known; one without characters has no piece.
        """
        unread = list(self._spaces)
        if self.tokenizer.unk_token_id is not None:
            unread.append(self.tokenizer.unk_token_id)
        entries = self._words([words[k : k + TEXT] for k in range(0, len(words), TEXT)])
        owner = np.repeat(np.arange(len(words)), entries.counts)
        is_read = ~np.isin(entries.ids, unread)
        num_read = np.bincount(owner[is_read], minlength=len(words))
        return (num_read > 0).tolist()

    def _words(self, texts: Sequence[Sequence[str]]) -> Entries:
        """Return an entry for each word of these texts."""
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True  # a word such as "</s>" is an ordinary word
        raw_texts = []
        for text in texts:
            raw = " ".join(filter(str.strip, text))
            # No tokenizer reads lone surrogates.
            raw_texts.append(raw.encode("utf-8", "replace").decode())
        ids: list[int] = []
        counts: list[int] = []
        encodings = backend.encode_batch(raw_texts, add_special_tokens=False)
        for text, encoding in zip(texts, encodings, strict=True):
            if any(word.strip() for word in text):
                ids += encoding.ids
                counts += _num_pieces(text, encoding.offsets)
            else:
                counts += [0] * len(text)
        return self._entries(ids, counts)

    def _entries(self, ids: Sequence[int], num_pieces: Sequence[int]) -> Entries:
        """Return entries with so many pieces each, one after another."""
        pieces = np.array(ids, np.int64)
        counts = np.array(num_pieces, np.int64)
        starts = np.cumsum(counts) - counts
        shares = np.zeros(len(pieces), np.float32)
        if self.pooling == "mean":
            shares[:] = np.repeat(1 / np.maximum(counts, 1), counts)
            return Entries(starts, counts, pieces, shares)
        chosen = starts + counts - 1
        if self.pooling == "first":  # that is not only a space, if there is one
            is_space = np.isin(pieces, self._spaces)
            others = np.append(np.flatnonzero(~is_space), len(pieces))
            next_other = others[np.searchsorted(others, starts)]
            chosen = np.where(next_other <= chosen, next_other, starts)
        shares[chosen[counts > 0]] = 1
        return Entries(starts, counts, pieces, shares)


def _num_pieces(text: Sequence[str], offsets: Sequence[tuple[int, int]]) -> list[int]:
    """Return the number of pieces of each word of a text, given where each piece begins and ends in
    its words with a space between. A word of spaces is not part of it, and has no piece.
    """
    visible = [number for number, word in enumerate(text) if word.strip()]
    # A word includes the space before it. A piece without characters may follow.
    ends = np.cumsum([len(text[number]) + 1 for number in visible])
    begins = np.array([begin + 1 for begin, _ in offsets], np.int64)
    word = np.searchsorted(ends, begins, side="right")
    word = np.maximum.accumulate(np.minimum(word, len(visible) - 1))
    counts = np.zeros(len(text), np.int64)
    counts[visible] = np.bincount(word, minlength=len(visible))
    return counts.tolist()


def ragged(starts: Int[np.ndarray, " R"], counts: Int[np.ndarray, " R"]) -> Int[np.ndarray, " K"]:
    """Count up from each start, so many numbers.

    >>> ragged(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    # A range of the result begins after those before it: at the sum of their lengths.
    begins = np.cumsum(counts) - counts
    return np.repeat(starts - begins, counts) + np.arange(counts.sum())
