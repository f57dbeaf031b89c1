"""What a transformer reads: the pieces of sentences with special tokens, in windows of its size.

The windows of a long sentence overlap by half. Several texts in one sentence (`text.joined`) are
read in one sequence; if it is longer than a window, but the first text takes at most half of one,
the first text is in each window.

Axes: B batch, T tokens (words), W windows of a sentence, S pieces of a window with its special
tokens.
"""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from elmo_bench.text import Sentences
from elmo_bench.text.joined import BREAK, SUMMARY

from .subwords import AFTER, BEFORE, MARKS, Subwords, ragged

# Of all windows: the sentence, and the window's number there; which pieces it has, in three parts:
# what is in each window of its sentence, a part of what slides, and special tokens; the range of
# its pieces whose vectors count; the weight of its summary in that of the sentence.
PARTS = [("row", int), ("number", int), ("starts", int, 3), ("counts", int, 3)]
WINDOW = np.dtype([*PARTS, ("low", int), ("high", int), ("summary", np.float32)])


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


class Windows:
    """Lays out sentences in windows of at most `size` pieces, with special tokens.

    Of the two copies of a piece in windows that overlap, the one with more context is read: the one
    farther from its window's ends, or from its beginning if the model reads only from the left. Of
    what is in each window, the first copy is read.

    `prompt` is read before each sentence, and each sentence `repeat` times; the last copy has its
    vectors.
    """

    def __init__(
        self,
        tokenizer: Any,
        pooling: str,
        special: Special,
        size: int,
        pad: int = 0,  # the id that fills up windows
        left_only: bool = False,  # whether the model reads only from left to right
        sums_up_first: bool = True,  # whether a window's summary is its first piece, else its last
        prompt: str = "",
        repeat: int = 1,
    ) -> None:
        self.special, self.size, self.pad, self.left_only = special, size, pad, left_only
        self.sums_up_first, self.repeat = sums_up_first, repeat
        self.prompt = [word for word in prompt.split(" ") if word]
        marks = special.before, (), special.between, special.after
        self.subwords = Subwords(tokenizer, pooling, marks)
        self._room = size - len(special.before) - len(special.after)
        numbers, entries = self.subwords([BEFORE, *self.prompt])
        if (count := entries.counts[numbers[1:]].sum()) > self._room // 2:
            raise ValueError(
                f"encoder.prompt has {count} subwords, but it may take half of the {self._room} of "
                "a window: choose a shorter one, or a larger encoder.window"
            )

    def split(self, sentences: Sentences) -> Pieces:
        """Return the pieces of a batch, in the windows that the model will read."""
        words = [*chain.from_iterable(map(self._read, sentences))]
        numbers, entries = self.subwords(words)
        counts = entries.counts[numbers]
        piece = ragged(entries.starts[numbers], counts)
        at = [np.flatnonzero(numbers == number) for number in range(len(MARKS))]
        begins, _, breaks, lasts = at
        marked = numbers[begins + 1] == MARKS.index(SUMMARY)
        lengths = np.array([*map(len, sentences)], np.int64)
        # Of each word, its sentence, and where it is there; what is before its words is context.
        row = np.repeat(np.arange(len(begins)), lasts + 1 - begins)
        position = np.arange(len(words)) - (lasts - lengths)[row]
        shares = entries.shares[piece] * np.repeat(position >= marked[row], counts)
        # Token types; 0 unless a sentence is a pair of texts.
        before = np.cumsum(numbers == MARKS.index(BREAK))
        part = 1 + 2 * ((before - before[begins][row]) % 2)
        part[begins], part[breaks], part[lasts] = 0, 2, 4
        kinds = np.array(self.special.kinds)[part] * (before[lasts] > before[begins])[row]
        pieces = [entries.ids[piece], np.repeat(position, counts), shares, np.repeat(kinds, counts)]
        ends = np.concatenate([[0], np.cumsum(counts)])
        windows = self._cut(ends, at, marked)
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        arrays = [*self._lay_out(pieces, windows, len(sentences)), mask]
        return Pieces._make(map(torch.from_numpy, arrays))

    def _read(self, sentence: Sequence[str]) -> list[str]:
        """Return all that is read of a sentence, with marks, a prompt and copies."""
        is_marked = len(sentence) > 0 and sentence[0] == SUMMARY
        mark, text = sentence[: int(is_marked)], sentence[int(is_marked) :]
        texts = 1 + text.count(BREAK) if is_marked else 1
        if texts > 2:
            raise ValueError(
                f"a sentence joins {texts} texts, but a transformer reads at most two in one "
                "sequence: join fewer"
            )
        copy = [*text, BREAK] if texts == 2 else [*text]
        before = [*self.prompt, *copy * (self.repeat - 1)]
        return [BEFORE, *mark, *before, *text, AFTER]

    def _cut(
        self, ends: Int[np.ndarray, " N1"], at: Sequence[np.ndarray], marked: Bool[np.ndarray, " B"]
    ) -> np.ndarray:
        """Return the windows of all sentences, given how many pieces there are before each word,
        where each of MARKS is, and which sentences have a summary.
        """
        begins, _, breaks, lasts = at
        first, total = ends[begins], ends[lasts + 1] - ends[begins]
        fixed = ends[begins + 1 + marked + len(self.prompt)] - first  # pieces in each window
        if self.repeat == 1:
            row = np.searchsorted(begins, breaks) - 1
            texts = ends[breaks + 1] - first[row]
            fits = texts - len(self.special.before) <= self._room // 2
            fixed[row[fits]] = texts[fits]
        row = np.flatnonzero((total <= self.size) & (marked | (total > self.size - self._room)))
        whole = np.zeros(len(row), WINDOW)
        whole["row"], whole["high"], whole["summary"] = row, self.size, marked[row]
        whole["starts"][:, 0], whole["counts"][:, 0] = first[row], total[row]
        parts = [
            (row, *window, marked[row] * summary)
            for row in np.flatnonzero(total > self.size)
            for *window, summary in self._slide(*map(int, (first[row], total[row], fixed[row])))
        ]
        return np.concatenate([whole, np.array(parts, WINDOW)])

    def _slide(self, first: int, total: int, fixed: int) -> Iterator[tuple]:
        """Yield the windows of a long sentence of `total` pieces from `first` on, of which the
        first `fixed` ones are in each window.
        """
        after = len(self.special.after)
        room, slides = self.size - fixed - after, total - fixed - after
        overlap = room // 2
        begins = range(0, slides - overlap, room - overlap)
        # Where two windows overlap, the later one counts from here on.
        later = fixed + (overlap if self.left_only else overlap - overlap // 2)
        for number, begin in enumerate(begins):
            is_last = begin == begins[-1]
            starts = first, first + fixed + begin, first + total - after
            counts = fixed, min(room, slides - begin), after
            low, high = later if number else 0, self.size if is_last else later + room - overlap
            summary = 1 / len(begins) if self.sums_up_first else float(is_last)
            yield number, starts, counts, low, high, summary

    def _lay_out(
        self, pieces: Sequence[np.ndarray], windows: np.ndarray, rows: int
    ) -> list[np.ndarray]:
        """Return all fields of `Pieces` but the mask, from each piece's id, word, share, type."""
        size = windows["counts"].sum(1)
        shape = rows, windows["number"].max(initial=-1) + 1, size.max(initial=0)
        # Of each piece of a window: the window, the place there, and the number among all pieces.
        window, place = np.repeat(windows, size), ragged(0 * size, size)
        piece = ragged(windows["starts"], windows["counts"])
        ids, words, shares, kinds = (values[piece] for values in pieces)
        shares = shares * ((window["low"] <= place) & (place < window["high"]))

        def laid_out(values: np.ndarray, fill: int = 0) -> np.ndarray:
            array = np.full(shape, fill, values.dtype)
            array[window["row"], window["number"], place] = values
            return array

        sizes, summaries = np.zeros(shape[:2], np.int64), np.zeros(shape[:2], np.float32)
        at = windows["row"], windows["number"]
        sizes[at], summaries[at] = size, windows["summary"]
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
