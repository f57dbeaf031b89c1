"""What a transformer reads: the pieces of sentences with special tokens, in windows of its size.

The windows of a long sentence overlap by half. Several texts in one sentence (`text.joined`) are
read in one sequence; if it is longer than a window, but the first text takes at most half of one,
the first text is in each window.

Axes: B batch, T tokens (words), W windows of a sentence, S pieces of a window with its special
tokens, N words in the order in which they are read, K pieces, X windows of all sentences.
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

from .subwords import Subwords


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
        """Stay on the host, where `Transformer` lays out what it sends to its device: Lightning
        would move them there, and each tensor's way back waits for the batch before.
        """
        return self


class Special(NamedTuple):
    """The special tokens of a sequence, and the token types of a pair of texts."""

    before: list[int]
    between: list[int]  # two texts
    after: list[int]
    kinds: tuple[int, ...]  # before, first text, between, second text, after


class Rows(NamedTuple):
    """The words that are read of each sentence. The first ones are only context: a prompt, and all
    copies of the sentence but the last.
    """

    begins: Int[np.ndarray, " B"]  # first word
    ends: Int[np.ndarray, " B"]
    context: Int[np.ndarray, " B"]  # number of words that are only context
    stays: Int[np.ndarray, " B"]  # number of words that are in each window if there is room
    marked: Bool[np.ndarray, " B"]  # whether the sentence begins with a summary, which is no word
    breaks: Int[np.ndarray, " breaks"]  # words between two texts


class Cut(NamedTuple):
    """The windows of all sentences: the pieces that are in each window of a sentence, and a part of
    the others.
    """

    row: Int[np.ndarray, " X"]  # the sentence
    number: Int[np.ndarray, " X"]  # among the windows of the sentence
    is_last: Bool[np.ndarray, " X"]
    first: Int[np.ndarray, " X"]  # the sentence's first piece
    fixed: Int[np.ndarray, " X"]  # so many pieces are in each window
    begin: Int[np.ndarray, " X"]  # the part's first piece
    length: Int[np.ndarray, " X"]
    low: Int[np.ndarray, " X"]  # the vectors of the part's pieces count from here ...
    high: Int[np.ndarray, " X"]  # ... up to here


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
        self._between = self.subwords.special(self.special.between)
        self._room = self.size - len(self.special.before) - len(self.special.after)
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
        begins = np.sort(np.concatenate([rows.begins, rows.breaks + 1]))
        ends = np.sort(np.concatenate([rows.ends, rows.breaks]))
        numbers, entries = self.subwords(words, begins, ends)
        numbers[rows.breaks] = self._between
        counts = entries.counts[numbers]
        # Where a word is in its sentence; below 0 it is context.
        size = rows.ends - rows.begins
        position = np.arange(len(words)) - np.repeat(rows.begins + rows.context, size)
        piece = ragged(entries.starts[numbers], counts)
        shares = entries.shares[piece] * np.repeat(position >= 0, counts)
        word = np.repeat(position + np.repeat(rows.marked, size), counts)
        pieces = [entries.ids[piece], word, shares, self._kinds(rows, counts)]
        cut = self._cut(np.concatenate([[0], np.cumsum(counts)]), rows)
        arrays = self._lay_out(pieces, rows, cut)
        lengths = torch.tensor([len(sentence) for sentence in sentences], dtype=torch.int64)
        mask = torch.arange(int(lengths.max()) if len(lengths) else 0) < lengths[:, None]
        return Pieces._make([*map(torch.from_numpy, arrays), mask])

    def _read(self, sentences: Sequence[Sequence[str]]) -> tuple[list[str], Rows]:
        """Return all words that are read, one sentence after another, and what they are."""
        marked = np.array([len(each) > 0 and each[0] == SUMMARY for each in sentences], bool)
        read, stays = [*sentences], np.full(len(sentences), len(self._prompt))
        is_plain = not self.prompt and self.repeat == 1
        for row in np.flatnonzero(marked).tolist() if is_plain else range(len(read)):
            read[row], stays[row] = self._sequence(sentences[row], bool(marked[row]))
        words = [*chain.from_iterable(read)]
        size = np.array([*map(len, read)], np.int64)
        lengths = np.array([*map(len, sentences)], np.int64)
        ends = np.cumsum(size)
        inside = (range(ends[row] - size[row], ends[row]) for row in np.flatnonzero(marked))
        breaks = [k for k in chain.from_iterable(inside) if words[k] == BREAK]
        context = size - (lengths - marked)
        return words, Rows(
            ends - size, ends, context, stays, marked, np.array(breaks, dtype=np.int64)
        )

    def _sequence(self, sentence: Sequence[str], is_marked: bool) -> tuple[list[str], int]:
        """Return the words that are read of a sentence, and how many are to stay in each window."""
        text = [*sentence[int(is_marked) :]]
        breaks = text.count(BREAK) if is_marked else 0
        if breaks > 1:
            raise ValueError(
                f"a sentence joins {breaks + 1} texts, but a transformer reads at most two in one "
                "sequence: join fewer"
            )
        copy = [*text, BREAK] if breaks else text
        before = [*self._prompt, *copy * (self.repeat - 1)]
        first = text.index(BREAK) + 1 if breaks and self.repeat == 1 else 0
        return [*before, *text], len(self._prompt) + first

    def _cut(self, totals: Int[np.ndarray, " N1"], rows: Rows) -> Cut:
        """Cut sentences into windows, given the number of pieces before each word."""
        first, total = totals[rows.begins], totals[rows.ends] - totals[rows.begins]
        prompt = np.minimum(rows.begins + len(self._prompt), rows.ends)
        stays, prompt = totals[rows.begins + rows.stays] - first, totals[prompt] - first
        fixed = np.where(stays <= self._room // 2, stays, prompt) * (total > self._room)
        is_read = total + rows.marked * (self.size - self._room) > 0
        room, total = self._room - fixed, total - fixed
        overlap = room // 2
        more = -(-(total - room) // (room - overlap))  # windows after the first one
        count = np.where(is_read, 1 + np.maximum(more, 0), 0)
        row, number = np.repeat(np.arange(len(count)), count), ragged(0 * count, count)
        first, fixed, room, total, overlap = (a[row] for a in (first, fixed, room, total, overlap))
        begin, is_last = number * (room - overlap), number == count[row] - 1
        length = np.minimum(room, total - begin)
        # Where two windows overlap, the later one counts from here on.
        later = overlap if self.left_only else overlap - overlap // 2
        low = np.where(number > 0, later, 0)
        high = np.where(is_last, length, room - overlap + later)
        return Cut(row, number, is_last, first, fixed, first + fixed + begin, length, low, high)

    def _kinds(self, rows: Rows, counts: Int[np.ndarray, " N"]) -> Int[np.ndarray, " K"]:
        """Return the token type of each piece, with `counts` of each word."""
        is_break = np.zeros(len(counts) + 1, np.int64)
        is_break[rows.breaks + 1] = 1
        breaks = np.cumsum(is_break)  # before each word
        text = breaks[:-1] - np.repeat(breaks[rows.begins], rows.ends - rows.begins)
        kinds = np.array(self.special.kinds)[1 + 2 * (text % 2)]
        kinds[rows.breaks] = self.special.kinds[2]
        return np.repeat(kinds, counts)

    def _lay_out(self, pieces: list[np.ndarray], rows: Rows, cut: Cut) -> list[np.ndarray]:
        """Return all fields of `Pieces` but the mask, from each piece's id, word, share and token
        type.
        """
        before, after = self.special.before, self.special.after
        size = len(before) + cut.fixed + cut.length + len(after)
        shape = len(rows.begins), cut.number.max(initial=-1) + 1, size.max(initial=0)
        at = (cut.row * shape[1] + cut.number) * shape[2]  # a window's first piece among B W S
        # The pieces that are in each window, and the part of the others; which of both are read.
        source = np.concatenate([cut.first, cut.begin])
        target = np.concatenate([at, at + cut.fixed]) + len(before)
        length = np.concatenate([cut.fixed, cut.length])
        low = np.concatenate([0 * cut.fixed, cut.low])
        high = np.concatenate([cut.fixed * (cut.number == 0), cut.high])
        every = ragged(target, length), ragged(source, length)
        read = ragged(target + low, high - low), ragged(source + low, high - low)
        fills = (self.pad, every), (0, read), (0, read), (0, every)
        laid = []
        for values, (fill, (slots, places)) in zip(pieces, fills, strict=True):
            laid.append(np.full(shape, fill, values.dtype).reshape(-1))
            laid[-1][slots] = values[places]
        has_pair = np.zeros(len(rows.begins), bool)
        has_pair[np.searchsorted(rows.begins, rows.breaks, side="right") - 1] = True
        kind = has_pair[cut.row, None] * np.array(self.special.kinds)
        for begin, tokens, number in ((at, before, 0), (at + size - len(after), after, -1)):
            slots = begin[:, None] + np.arange(len(tokens))
            laid[0][slots], laid[3][slots] = tokens, kind[:, [number]]
        sizes, summaries = np.zeros(shape[:2], np.int64), np.zeros(shape[:2], np.float32)
        sizes[cut.row, cut.number] = size
        weight = 1 / np.bincount(cut.row)[cut.row] if self.sums_up_first else cut.is_last
        summaries[cut.row, cut.number] = rows.marked[cut.row] * weight
        ids, words, shares, kinds = (each.reshape(shape) for each in laid)
        return [ids, sizes, words, shares, summaries, kinds]


def ragged(starts: Int[np.ndarray, " X"], counts: Int[np.ndarray, " X"]) -> Int[np.ndarray, " K"]:
    """Count up from each start, so many numbers.

    >>> ragged(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    return np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(counts.sum())


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
