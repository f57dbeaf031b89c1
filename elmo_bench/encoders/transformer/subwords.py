"""From words to the subwords ("pieces") of a tokenizer.

A text is tokenised raw, with one space between words, so that each word has the same pieces as in
running text (byte-level BPE encodes " word" and "word" differently). With most tokenizers, these
are the same wherever the word stands, unless it is the first: each distinct word is then tokenised
once. Whether this holds is found out when a tokenizer is loaded. If it does not, or if a text has a
word that might be an exception, the whole text is tokenised.

Marks stand for special tokens; a text is what is between two of them.

Axes: N words and marks, E entries (distinct words and marks), P their pieces.
"""

import re
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int

from elmo_bench.text.joined import BREAK, SUMMARY

BEFORE, AFTER = "\ufdd0before", "\ufdd0after"  # the special tokens at the ends of a sequence
MARKS = BEFORE, SUMMARY, BREAK, AFTER  # are the first entries, in this order
SPACES = ("▁", "Ġ", " ")  # pieces that are only a space
CROSSING = re.compile("[^ ▁Ġ][ ▁Ġ]")  # of a piece that begins in one word and ends in another
DOUBT = -1  # instead of the number of an entry
MOST = 2**20  # entries; new words are doubts then
# Each follows each in the texts that show whether a word's pieces depend on the words around it.
PROBES = (
    "a An x_y it's 's ' '' `` n't . ... , - -- ( ) / 1 12 1234 3,000.50 $5 % + # @z C++ [MASK] </s>"
    " <pad> http://a.b/c?d=1&e naïve é ß ΣΑΣ İz ﬁne Ⅷ 10² — “ ” … € 東京 ひらカナ 한국 ไทย हिन्दी"
    " عربي שלום 👍 ☃"
)


class Entries(NamedTuple):
    """The pieces of entries, one after another."""

    starts: Int[np.ndarray, " E"]  # an entry's first piece
    counts: Int[np.ndarray, " E"]  # its number of pieces
    ids: Int[np.ndarray, " P"]
    shares: Float[np.ndarray, " P"]  # weight of a piece in its word's vector

    def plus(self, other: "Entries") -> "Entries":
        """Return these entries and others, whose numbers go on."""
        moved = other._replace(starts=other.starts + len(self.ids))
        return Entries(*map(np.concatenate, zip(self, moved, strict=True)))


class Subwords:
    """Splits texts into the pieces of a fast tokenizer of transformers.

    `pooling` says whether the vector of a word is that of its first piece (which is not only a
    space), its last, or the mean of all.
    """

    def __init__(self, tokenizer: Any, pooling: str, marks: Sequence[Sequence[int]]) -> None:
        # `marks`: the special tokens in the place of each of MARKS
        self.tokenizer, self.pooling = tokenizer, pooling
        spaces = tokenizer.convert_tokens_to_ids([*SPACES])
        unknown = tokenizer.unk_token_id
        self._spaces = [n for n in spaces if isinstance(n, int) and n != unknown]
        made = self._made(chain.from_iterable(marks), [*map(len, marks)])
        self._entries = made._replace(shares=np.zeros_like(made.shares))
        self._begin(None)
        self._begin(self._proven())

    def _begin(self, before: str | None) -> None:
        """Know only marks, and have `before` stand before each word that is tokenised alone in
        place of one inside a text: nothing or a space; None: no word is tokenised alone.
        """
        self._before = before
        self._inside = {mark: number for number, mark in enumerate(MARKS)}
        self._firsts = dict[str, int]() if before else self._inside

    def __call__(self, words: Sequence[str]) -> tuple[Int[np.ndarray, " N"], Entries]:
        """Return the number of each word, and the entries. A mark stands before the first word."""
        numbers = self._numbers(words, self._inside, self._before)
        is_mark = (numbers >= 0) & (numbers < len(MARKS))
        if self._before:
            firsts = 1 + np.flatnonzero(is_mark[:-1] & ~is_mark[1:])
            numbers[firsts] = self._numbers([words[k] for k in firsts.tolist()], self._firsts, "")
        text = np.cumsum(is_mark)
        doubts = np.unique(text[numbers == DOUBT])
        if not len(doubts):
            return numbers, self._entries
        places = np.flatnonzero(np.isin(text, doubts) & ~is_mark)
        parts = np.split(places, np.searchsorted(text[places], doubts[1:]))
        texts = [[words[place] for place in part] for part in parts]
        numbers[places] = len(self._entries.starts) + np.arange(len(places))
        return numbers, self._entries.plus(self._whole(texts))

    def _numbers(
        self, words: Sequence[str], numbers: dict[str, int], before: str | None
    ) -> Int[np.ndarray, " N"]:
        """Return the numbers of words; new ones are tokenised alone, entries if that has pieces."""
        new = {*words}.difference(numbers)
        if new and before is not None and len(self._entries.starts) < MOST:
            numbers.update(dict.fromkeys(new, DOUBT))
            alone = [*filter(may_be_alone, new)]
            encodings = self._encode([before + word for word in alone])
            pieces = {word: one.ids for word, one in zip(alone, encodings, strict=True) if one.ids}
            first = len(self._entries.starts)
            numbers.update(zip(pieces, range(first, first + len(pieces)), strict=True))
            made = self._made(chain.from_iterable(pieces.values()), [*map(len, pieces.values())])
            self._entries = self._entries.plus(made)
        return np.fromiter(map(numbers.get, words, repeat(DOUBT)), np.int64, len(words))

    def _encode(self, texts: Sequence[str]) -> Any:
        """Return the tokenizer's encodings of whole texts."""
        backend = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        backend.encode_special_tokens = True  # a word such as "</s>" is an ordinary word
        return backend.encode_batch(texts, add_special_tokens=False)

    def _whole(self, texts: Sequence[Sequence[str]]) -> Entries:
        """Return an entry for each word of these texts, from the tokenised whole."""
        ids, counts = [], []
        raw = [" ".join(filter(str.strip, text)) for text in texts]
        # No tokenizer reads lone surrogates.
        encodings = self._encode([text.encode("utf-8", "replace").decode() for text in raw])
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

    def _proven(self) -> str | None:
        """Return what stands before a word that is tokenised alone (see `_begin`), or None if the
        pieces are not always the same.
        """
        added = self.tokenizer.added_tokens_decoder.values()
        texts = [[w for other in PROBES.split() for w in (word, other)] for word in PROBES.split()]
        texts += [["a", *w.split(), "1", *w.split(), ",", *w.split()] for w in map(str, added)]
        words = [*chain.from_iterable((BEFORE, *text) for text in texts)]
        if not self._crosses(" ".join(text) for text in texts):
            expected = self._pieces(words)
            for before in ("", " "):
                self._begin(before)
                if self._pieces(words) == expected:
                    return before
        return None

    def _pieces(self, words: Sequence[str]) -> list[list[int]]:
        numbers, entries = self(words)
        parts = zip(entries.starts[numbers], entries.counts[numbers], strict=True)
        return [entries.ids[start : start + count].tolist() for start, count in parts]

    def _crosses(self, texts: Iterable[str]) -> bool:
        """Whether a piece may have parts of two words: a text is not split between words before it
        is split into pieces, and not by a BPE that has no such piece.
        """
        backend = self.tokenizer.backend_tokenizer
        normal, split = backend.normalizer, backend.pre_tokenizer
        for text in texts:
            text = normal.normalize_str(text) if normal else text
            parts = split.pre_tokenize_str(text) if split else [(text, None)]
            if any(CROSSING.search(part) for part, _ in parts):
                is_bpe = type(backend.model).__name__ == "BPE"
                return not is_bpe or any(map(CROSSING.search, self.tokenizer.get_vocab()))
        return False


def may_be_alone(word: str) -> bool:
    """Whether no normaliser changes the spaces around a word, or has some in it.

    >>> [*map(may_be_alone, ["naïve", "", "a b", chr(0x200B), "´"])]
    [True, False, False, False, False]
    """
    if word.isascii() and word.isalpha():
        return True
    normal = unicodedata.normalize("NFKD", word)
    if not word or not word.isprintable() or any(odd in normal for odd in " ▁\ufffd"):
        return False
    return not unicodedata.category(normal[0]).startswith("M")  # a mark would join the space


def ragged(starts: Int[np.ndarray, "*X"], counts: Int[np.ndarray, "*X"]) -> Int[np.ndarray, " K"]:
    """Count up from each start, so many numbers.

    >>> ragged(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    starts, counts = starts.ravel(), counts.ravel()
    return np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())
