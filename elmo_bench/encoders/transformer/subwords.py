"""From words to the subwords ("pieces") of a tokenizer.

A text is tokenised whole and raw, with one space between words, so that each word has the same
pieces as in running text (byte-level BPE encodes " word" and "word" differently).

Marks stand for special tokens; a text is what is between two of them.

Axes: N words and marks, E entries (the marks, then each word of each text), P their pieces.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from elmo_bench.text.joined import BREAK, SUMMARY

BEFORE, AFTER = "\ufdd0before", "\ufdd0after"  # the special tokens at the ends of a sequence
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
        self.tokenizer, self.pooling = tokenizer, pooling
        spaces = tokenizer.convert_tokens_to_ids([*SPACES])
        self._spaces = [n for n in spaces if isinstance(n, int) and n != tokenizer.unk_token_id]
        made = self._made(chain.from_iterable(marks), [*map(len, marks)])
        self._marks = made._replace(shares=np.zeros_like(made.shares))

    def __call__(self, words: Sequence[str]) -> tuple[Int[np.ndarray, " N"], Entries]:
        """Return the number of each word, and the entries. A mark stands before the first word."""
        numbers = np.array([MARKS.index(word) if word in MARKS else -1 for word in words], np.int64)
        places, text = np.flatnonzero(numbers < 0), np.cumsum(numbers >= 0)
        parts = np.split(places, 1 + np.flatnonzero(np.diff(text[places])))
        numbers[places] = len(MARKS) + np.arange(len(places))
        own = self._words([[words[k] for k in part] for part in parts])
        own = own._replace(starts=own.starts + len(self._marks.ids))
        return numbers, Entries(*map(np.concatenate, zip(self._marks, own, strict=True)))

    def known(self, words: Sequence[str]) -> list[bool]:
        """Return of each word whether one of its pieces is neither unknown nor only a space.

        Words of bytes are all known; one without characters has no piece.
        """
        unread = [*self._spaces, self.tokenizer.unk_token_id]
        entries = self._words([words[k : k + TEXT] for k in range(0, len(words), TEXT)])
        owner = np.repeat(np.arange(len(words)), entries.counts)
        is_read = ~np.isin(entries.ids, [number for number in unread if number is not None])
        read = np.bincount(owner[is_read], minlength=len(words))
        return (read > 0).tolist()

    def _words(self, texts: Sequence[Sequence[str]]) -> Entries:
        """Return an entry for each word of these texts."""
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True  # a word such as "</s>" is an ordinary word
        ids, counts = [], []
        raw = [" ".join(filter(str.strip, text)) for text in texts]
        # No tokenizer reads lone surrogates.
        raw = [text.encode("utf-8", "replace").decode() for text in raw]
        encodings = backend.encode_batch(raw, add_special_tokens=False)
        for text, one in zip(texts, encodings, strict=True):
            count = np.zeros(len(text), np.int64)
            if kept := [k for k, word in enumerate(text) if word.strip()]:
                # A word includes the space before it. A piece without characters may follow.
                ends = np.cumsum([len(text[k]) + 1 for k in kept])
                begin = np.array([begin + 1 for begin, _ in one.offsets], np.int64)
                word = np.searchsorted(ends, begin, side="right")
                word = np.maximum.accumulate(np.minimum(word, len(kept) - 1))
                count[kept] = np.bincount(word, minlength=len(kept))
                ids += one.ids
            counts.append(count)
        return self._made(ids, np.concatenate(counts))

    def _made(self, ids: Iterable[int], counts: Sequence[int] | Int[np.ndarray, " E"]) -> Entries:
        """Return entries with so many pieces each, one after another."""
        pieces, count = np.fromiter(ids, np.int64), np.asarray(counts, np.int64)
        starts = np.cumsum(count) - count
        shares = np.zeros(len(pieces), np.float32)
        if self.pooling == "mean":
            shares[:] = np.repeat(1 / np.maximum(count, 1), count)
            return Entries(starts, count, pieces, shares)
        chosen = starts + count - 1
        if self.pooling == "first":  # that is not only a space, if there is one
            others = np.append(np.flatnonzero(~np.isin(pieces, self._spaces)), len(pieces))
            other = others[np.searchsorted(others, starts)]
            chosen = np.where(other <= chosen, other, starts)
        shares[chosen[count > 0]] = 1
        return Entries(starts, count, pieces, shares)


def ragged(starts: Int[np.ndarray, "*X"], counts: Int[np.ndarray, "*X"]) -> Int[np.ndarray, " K"]:
    """Count up from each start, so many numbers.

    >>> ragged(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    starts, counts = starts.ravel(), counts.ravel()
    return np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
