"""What a transformer reads: the pieces of sentences with special tokens, in windows of its size.

The windows of a long sentence overlap by half. Several texts in one sentence (`text.joined`) are
read in one sequence; if it is longer than a window, but the first text takes at most half of one,
the first text is in each window.

Axes: B batch, T tokens (words), W windows of a sentence, S pieces of a window with its special
tokens, N words and special tokens in the order in which they are read, K their pieces, X windows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from elmo_bench.text.joined import BREAK, SUMMARY

from .subwords import Subwords, ragged


class Pieces(NamedTuple):
    """A batch of sentences as pieces, in the windows that the model reads."""

    ids: Int[Tensor, "B W S"]
    sizes: Int[Tensor, "B W"]  # pieces of each window; 0: no window
    words: Int[Tensor, "B W S"]  # each piece's word
    shares: Float[Tensor, "B W S"]  # weight of a piece in its word's vector; 0: not read here
    summaries: Float[Tensor, "B W"]  # weight of a window's summary in the sentence's first word
    kinds: Int[Tensor, "B W S"]  # token types of pairs of texts
    mask: Bool[Tensor, "B T"]  # true for words, false for padding

    def to(self, *_: Any, **__: Any) -> "Pieces":
        """Stay on the host: `Transformer` lays out there what it sends to its device, and a tensor
        on its way back would wait for the batch before.
        """
        return self


class Special(NamedTuple):
    """The special tokens of a sequence, and the token types of a pair of texts."""

    before: list[int]
    between: list[int]  # two texts
    after: list[int]
    kinds: tuple[int, ...]  # before, first text, between, second text, after


class Rows(NamedTuple):
    """Where each sentence is among all that is read: special tokens, a summary, what is only
    context (a prompt, all copies of the sentence but the last), the sentence, special tokens.
    """

    begins: Int[np.ndarray, " B"]
    ends: Int[np.ndarray, " B"]
    stays: Int[np.ndarray, " B"]  # what is before is in each window, ...
    may_stay: Int[np.ndarray, " B"]  # ... and what is before here if it takes up to half of it
    marked: Bool[np.ndarray, " B"]  # whether there is a summary, which has no pieces
    breaks: Int[np.ndarray, " breaks"]  # special tokens between two texts


class Cut(NamedTuple):
    """The windows of all sentences. Each has three parts: what is in each window of its sentence, a
    part of what slides, and special tokens.
    """

    row: Int[np.ndarray, " X"]  # the sentence
    number: Int[np.ndarray, " X"]  # among the windows of the sentence
    size: Int[np.ndarray, " X"]  # pieces in the window
    first: Int[np.ndarray, " X"]  # the sentence's first piece
    fixed: Int[np.ndarray, " X"]  # pieces of the first part
    before: Int[np.ndarray, " X"]  # pieces that slide, but are in earlier windows alone
    missing: Int[np.ndarray, " X"]  # pieces of the sentence that are not in the window
    low: Int[np.ndarray, " X"]  # vectors count from this piece of the window ...
    high: Int[np.ndarray, " X"]  # ... up to this one
    summary: Float[np.ndarray, " X"]  # weight in the sentence's summary


@dataclass
class Windows:
    """Lays out sentences in windows of at most `size` pieces, with special tokens.

    Of the two copies of a piece in windows that overlap, the one with more context is read: the one
    farther from its window's ends, or from its beginning if the model reads only from the left. Of
    what is in each window, the first copy is read.
    """

    subwords: Subwords
    special: Special
    size: int
    pad: int  # the id that fills up windows
    left_only: bool  # whether the model reads only from left to right
    sums_up_first: bool  # whether a window's summary is its first piece, else its last one
    prompt: str  # is read before each sentence
    repeat: int  # how often a sentence is read; the last copy has its vectors

    def __post_init__(self) -> None:
        before, between, after, _ = self.special
        self._special = [*map(self.subwords.special, (before, between, after, []))]
        self._room = self.size - len(before) - len(after)
        self._prompt = [self.prompt] if self.prompt else []
        if self.prompt:
            self.subwords.learn(self.prompt)
            numbers, entries = self.subwords(self._prompt, np.array([0]), np.array([1]))
            if (count := entries.counts[numbers].sum()) > self._room // 2:
                raise ValueError(
                    f"encoder.prompt has {count} subwords, but it may take half of the "
                    f"{self._room} of a window: choose a shorter one, or a larger encoder.window"
                )

    def split(self, sentences: Sequence[Sequence[str]]) -> Pieces:
        """Return the pieces of a batch, in the windows that the model will read."""
        words, rows = self._read(sentences)
        begins = np.sort(np.concatenate([rows.begins + 1 + rows.marked, rows.breaks + 1]))
        ends = np.sort(np.concatenate([rows.ends - 1, rows.breaks]))
        numbers, entries = self.subwords(words, begins, ends)
        places = rows.begins, rows.breaks, rows.ends - 1, rows.begins[rows.marked] + 1
        for place, number in zip(places, self._special, strict=True):
            numbers[place] = number
        counts = entries.counts[numbers]
        piece = ragged(entries.starts[numbers], counts)
        lengths, sizes = np.array([*map(len, sentences)], np.int64), rows.ends - rows.begins
        # Where a word is in its sentence; what is before its words is context.
        position = np.arange(len(words)) - np.repeat(rows.ends - 1 - lengths, sizes)
        is_own = position >= np.repeat(rows.marked, sizes)
        shares = entries.shares[piece] * np.repeat(is_own, counts)
        kinds = np.repeat(self._kinds(rows, len(words)), counts)
        pieces = [entries.ids[piece], np.repeat(position, counts), shares, kinds]
        cut = self._cut(np.concatenate([[0], np.cumsum(counts)]), rows)
        arrays = self._lay_out(pieces, cut, rows)
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        return Pieces._make(map(torch.from_numpy, [*arrays, mask]))

    def _read(self, sentences: Sequence[Sequence[str]]) -> tuple[list[str], Rows]:
        """Return all that is read, one sentence after another, and where what is."""
        marked = np.array([len(each) > 0 and each[0] == SUMMARY for each in sentences], bool)
        read = sentences
        if self.prompt or self.repeat > 1:
            read = [self._copies(*each) for each in zip(sentences, marked.tolist(), strict=True)]
        edge = ("a",)  # in place of special tokens
        words = [*chain.from_iterable(chain(edge, each, edge) for each in read)]
        size = np.array([len(each) + 2 for each in read], np.int64)
        begins = np.cumsum(size) - size
        places = (range(begins[k], begins[k] + size[k]) for k in np.flatnonzero(marked))
        breaks = np.array([k for k in chain(*places) if words[k] == BREAK], np.int64)
        row = np.searchsorted(begins, breaks, side="right") - 1
        if (texts := np.bincount(row).max(initial=0) // self.repeat + 1) > 2:
            raise ValueError(
                f"a sentence joins {texts} texts, but a transformer reads at most two in one "
                "sequence: join fewer"
            )
        stays = begins + 1 + marked + len(self._prompt)
        may_stay = stays.copy()
        if self.repeat == 1:
            may_stay[row] = breaks + 1
        return words, Rows(begins, begins + size, stays, may_stay, marked, breaks)

    def _copies(self, sentence: Sequence[str], is_marked: bool) -> list[str]:
        """Return a sentence with what is read before it: a prompt, and copies of it."""
        mark, text = [*sentence[: int(is_marked)]], [*sentence[int(is_marked) :]]
        copy = [*text, BREAK] if is_marked and BREAK in text else text
        return [*mark, *self._prompt, *copy * (self.repeat - 1), *text]

    def _kinds(self, rows: Rows, size: int) -> Int[np.ndarray, " N"]:
        """Return the token types of all that is read; 0 unless it is of a pair of texts."""
        if not len(rows.breaks) or not any(self.special.kinds):
            return np.zeros(size, np.int64)
        breaks = np.searchsorted(rows.breaks, np.arange(size + 1))  # so many before each
        sizes, in_row = rows.ends - rows.begins, breaks[rows.ends] - breaks[rows.begins]
        text = breaks[:-1] - np.repeat(breaks[rows.begins], sizes)
        kinds = np.array(self.special.kinds)[1 + 2 * (text % 2)]
        kinds[rows.begins], kinds[rows.breaks], kinds[rows.ends - 1] = self.special.kinds[::2]
        return kinds * np.repeat(in_row > 0, sizes)

    def _cut(self, totals: Int[np.ndarray, " N1"], rows: Rows) -> Cut:
        """Cut sentences into windows, given the number of pieces before all that is read."""
        after, special = len(self.special.after), self.size - self._room
        first, total = totals[rows.begins], totals[rows.ends] - totals[rows.begins]
        fixed, may = totals[rows.stays] - first, totals[rows.may_stay] - first
        fits = (total > self.size) & (may - special + after <= self._room // 2)
        fixed = np.where(fits, may, fixed)
        room, slides = self.size - after - fixed, total - after - fixed
        overlap = room // 2
        count = 1 + np.maximum(-(-(slides - room) // (room - overlap)), 0)
        count = np.where(total > special * ~rows.marked, count, 0)
        row, number = np.repeat(np.arange(len(count)), count), ragged(0 * count, count)
        first, total, fixed, room, slides, overlap, count = (
            each[row] for each in (first, total, fixed, room, slides, overlap, count)
        )
        before, is_last = number * (room - overlap), number == count - 1
        size = fixed + np.minimum(room, slides - before) + after
        # Where two windows overlap, the later one counts from here on.
        later = fixed + (overlap if self.left_only else overlap - overlap // 2)
        low = np.where(number > 0, later, 0)
        high = np.where(is_last, size, later + room - overlap)
        summary = 1 / count if self.sums_up_first else is_last.astype(float)
        return Cut(row, number, size, first, fixed, before, total - size, low, high, summary)

    def _lay_out(self, pieces: Sequence[np.ndarray], cut: Cut, rows: Rows) -> list[np.ndarray]:
        """Return all fields of `Pieces` but the mask, from each piece's id, word, share and token
        type.
        """
        shape = len(rows.begins), cut.number.max(initial=-1) + 1, cut.size.max(initial=0)
        # Of each piece of a window: its place there, and then its number among all pieces.
        place = ragged(0 * cut.size, cut.size)
        row, number, size, first, fixed, before, missing, low, high = (
            np.repeat(each, cut.size) for each in cut[:-1]
        )
        is_end = place >= size - len(self.special.after)
        piece = first + place + np.select([place < fixed, is_end], [0, missing], before)
        ids, words, shares, kinds = (values[piece] for values in pieces)
        shares = shares * ((low <= place) & (place < high))

        def laid_out(values: np.ndarray, fill: int = 0) -> np.ndarray:
            array = np.full(shape, fill, values.dtype)
            array[row, number, place] = values
            return array

        sizes, summaries = np.zeros(shape[:2], np.int64), np.zeros(shape[:2], np.float32)
        sizes[cut.row, cut.number] = cut.size
        summaries[cut.row, cut.number] = rows.marked[cut.row] * cut.summary
        ids, words, shares, kinds = laid_out(ids, self.pad), *map(laid_out, (words, shares, kinds))
        return [ids, sizes, words, shares, summaries, kinds]


def special_tokens(tokenizer: Any, config: Any) -> Special:
    """Return the special tokens of a tokenizer's sequences, and the token types in a pair of texts
    as far as the model has them.
    """
    one = tokenizer("a b", return_special_tokens_mask=True)
    ids, marks = one["input_ids"], one["special_tokens_mask"]
    if 0 not in marks:
        raise ValueError("its tokenizer returns no subwords for 'a b': check its files")
    first, last = marks.index(0), len(marks) - marks[::-1].index(0)
    two = tokenizer("a", "b", return_token_type_ids=True)
    texts = two.sequence_ids(0)
    begin, end = len(texts) - texts[::-1].index(0), texts.index(1)
    between = two["input_ids"][begin:end]
    if not between:  # words at the seam would read as one
        marks = tokenizer.sep_token_id, tokenizer.eos_token_id
        between = [n for n in marks if n is not None and n < config.vocab_size][:1]
    types = two["token_type_ids"]
    kinds = types[0], types[begin - 1], types[begin], types[end], types[-1]
    if max(kinds) >= (getattr(config, "type_vocab_size", 0) or 0):
        kinds = (0, 0, 0, 0, 0)
    return Special(ids[:first], between, ids[last:], kinds)
