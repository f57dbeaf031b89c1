"""What a transformer reads: the pieces of sentences with special tokens, in windows of its size.

The windows of a long sentence overlap by half. Several texts in one sentence (`text.joined`) are
read in one sequence; if it is longer than a window, but the first text takes at most half of one,
the first text is in each window.

Axes: B batch, T tokens (words), W windows of a sentence, S pieces of a window with its special
tokens, P pieces of all sequences of a batch, K pieces of one window.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from elmo_bench.text import Sentences
from elmo_bench.text.joined import BREAK, SUMMARY

from .subwords import AFTER, BEFORE, Subwords, ragged


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


class WordSequence(NamedTuple):
    """All that is read of one sentence, as words, with marks in the place of special tokens."""

    words: list[str]
    has_summary: bool


class FlatPieces(NamedTuple):
    """The pieces of all sequences of a batch, one after another."""

    ids: Int[np.ndarray, " P"]
    words: Int[np.ndarray, " P"]  # each piece's word; no word of the sentence if its share is 0
    shares: Float[np.ndarray, " P"]  # weight of a piece in its word's vector
    kinds: Int[np.ndarray, " P"]  # token types


class Window(NamedTuple):
    """What the model reads at once of a sequence; vectors are read of the window's pieces from
    `read_from` to before `read_to`.
    """

    sentence: int  # its number in the batch
    number: int  # of the window in its sentence
    pieces: Int[np.ndarray, " K"]  # their numbers in the batch
    read_from: int
    read_to: int
    summary: float  # weight of the window's summary in that of the sentence


class Windows:
    """Lays out sentences in windows of at most `size` pieces, with special tokens.

    Of the two copies of a piece in windows that overlap, the one with more context is read: the one
    farther from its window's ends, or from its beginning if the model reads only from the left. Of
    what is in each window, the first copy is read.
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
    ) -> None:
        self.special = special
        self.size = size
        self.pad = pad
        self.left_only = left_only
        self.sums_up_first = sums_up_first
        # Of each of MARKS; a summary has no piece of its own.
        of_marks = (special.before, (), special.between, special.after)
        self.subwords = Subwords(tokenizer, pooling, of_marks)
        self._num_special = len(special.before) + len(special.after)
        self._room = size - self._num_special

    def split(self, sentences: Sentences) -> Pieces:
        """Return the pieces of a batch, in the windows that the model will read."""
        sequences = [self._sequence(sentence) for sentence in sentences]
        pieces, starts = self._pieces(sequences)
        windows: list[Window] = []
        first_word = 0
        for number, sequence in enumerate(sequences):
            next_word = first_word + len(sequence.words)
            windows += self._cut(number, sequence, starts[first_word : next_word + 1])
            first_word = next_word
        lengths = np.array([len(sentence) for sentence in sentences], np.int64)
        mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
        return self._lay_out(pieces, windows, mask)

    def _sequence(self, sentence: Sequence[str]) -> WordSequence:
        """Return all that is read of a sentence, with marks."""
        words = [BEFORE]
        words += sentence
        words.append(AFTER)
        has_summary = words[1] == SUMMARY
        num_texts = 1 + words.count(BREAK)
        if has_summary and num_texts > 2:
            raise ValueError(
                f"a sentence joins {num_texts} texts, but a transformer reads at most two in "
                "one sequence: join fewer"
            )
        return WordSequence(words, has_summary)

    def _pieces(self, sequences: Sequence[WordSequence]) -> tuple[FlatPieces, list[int]]:
        """Return the pieces of all sequences, and the number of each word's first piece; the last
        number is that of all pieces.
        """
        words: list[str] = []
        positions: list[int] = []  # of each word in its sentence
        kinds: list[int] = []
        for sequence in sequences:
            words += sequence.words
            positions += range(-1, len(sequence.words) - 1)  # BEFORE is ahead of the sentence
            kinds += self._kinds(sequence)
        numbers, entries = self.subwords(words)
        counts = entries.counts[numbers]
        in_order = ragged(entries.starts[numbers], counts)
        pieces = FlatPieces(
            ids=entries.ids[in_order],
            words=np.repeat(np.array(positions, np.int64), counts),
            shares=entries.shares[in_order],  # 0 for marks
            kinds=np.repeat(np.array(kinds, np.int64), counts),
        )
        starts = np.zeros(len(words) + 1, np.int64)
        starts[1:] = np.cumsum(counts)
        return pieces, starts.tolist()

    def _kinds(self, sequence: WordSequence) -> list[int]:
        """Return the token type of each word; 0 unless the sequence is a pair of texts."""
        if BREAK not in sequence.words:
            return [0] * len(sequence.words)
        before, first, between, second, after = self.special.kinds
        kinds = [before]
        of_text = first
        for word in sequence.words[1:-1]:
            if word == BREAK:
                kinds.append(between)
                of_text = second
            else:
                kinds.append(of_text)
        kinds.append(after)
        return kinds

    def _cut(self, sentence: int, sequence: WordSequence, starts: Sequence[int]) -> list[Window]:
        """Return the windows of a sequence; `starts` are the numbers of each word's first piece,
        and of the piece after the sequence.
        """
        total = starts[-1] - starts[0]
        if total > self.size:
            return self._slide(sentence, sequence, starts)
        if total <= self._num_special and not sequence.has_summary:
            return []  # there is nothing to read
        pieces = np.arange(starts[0], starts[-1])
        return [Window(sentence, 0, pieces, 0, total, float(sequence.has_summary))]

    def _slide(self, sentence: int, sequence: WordSequence, starts: Sequence[int]) -> list[Window]:
        """Return the windows of a long sequence, which overlap by half of what slides in them.

        The special tokens at both ends are in each window, and so is the first of two texts if
        that leaves half of a window.
        """
        first = starts[0]
        slides_from = first + len(self.special.before)
        slides_to = starts[-1] - len(self.special.after)
        if BREAK in sequence.words:
            second_text = starts[sequence.words.index(BREAK) + 1]
            if second_text - slides_from <= self._room // 2:
                slides_from = second_text
        fixed = np.arange(first, slides_from)
        after = np.arange(slides_to, starts[-1])
        room = self.size - len(fixed) - len(after)
        overlap = room // 2
        # Where two windows overlap, the later one is read from this piece of it on.
        handover = len(fixed) + (overlap if self.left_only else overlap - overlap // 2)
        begins = range(slides_from, slides_to - overlap, room - overlap)
        windows = []
        for number, begin in enumerate(begins):
            is_last = number == len(begins) - 1
            sliding = np.arange(begin, min(begin + room, slides_to))
            pieces = np.concatenate([fixed, sliding, after])
            read_from = handover if number > 0 else 0
            read_to = len(pieces) if is_last else handover + room - overlap
            summary = 0.0
            if sequence.has_summary:
                summary = 1 / len(begins) if self.sums_up_first else float(is_last)
            windows.append(Window(sentence, number, pieces, read_from, read_to, summary))
        return windows

    def _lay_out(
        self, pieces: FlatPieces, windows: Sequence[Window], mask: Bool[np.ndarray, "B T"]
    ) -> Pieces:
        """Return the windows of a batch side by side in tensors."""
        num_windows = max((window.number + 1 for window in windows), default=0)
        longest = max((len(window.pieces) for window in windows), default=0)
        shape = (len(mask), num_windows, longest)
        ids = np.full(shape, self.pad, np.int64)
        sizes = np.zeros(shape[:2], np.int64)
        words = np.zeros(shape, np.int64)
        shares = np.zeros(shape, np.float32)
        summaries = np.zeros(shape[:2], np.float32)
        kinds = np.zeros(shape, np.int64)
        for window in windows:
            place = (window.sentence, window.number)
            size = len(window.pieces)
            ids[place][:size] = pieces.ids[window.pieces]
            words[place][:size] = pieces.words[window.pieces]
            kinds[place][:size] = pieces.kinds[window.pieces]
            read = slice(window.read_from, window.read_to)
            shares[place][read] = pieces.shares[window.pieces[read]]
            sizes[place] = size
            summaries[place] = window.summary
        arrays = (ids, sizes, words, shares, summaries, kinds, mask)
        return Pieces(*(torch.from_numpy(array) for array in arrays))


def special_tokens(tokenizer: Any, config: Any) -> Special:
    """Return the special tokens of a tokenizer's sequences, and the token types in a pair of texts
    as far as the model has them.
    """
    one = tokenizer("a b", return_special_tokens_mask=True)
    ids = one["input_ids"]
    is_special = one["special_tokens_mask"]
    if 0 not in is_special:
        raise ValueError("its tokenizer returns no subwords for 'a b': check its files")
    num_before = is_special.index(0)
    num_after = is_special[::-1].index(0)
    pair = tokenizer("a", "b", return_token_type_ids=True)
    texts = pair.sequence_ids(0)
    first_end = len(texts) - texts[::-1].index(0)
    second_begin = texts.index(1)
    between = pair["input_ids"][first_end:second_begin]
    if not between:  # words at the seam would read as one
        marks = (tokenizer.sep_token_id, tokenizer.eos_token_id)
        usable = [mark for mark in marks if mark is not None and mark < config.vocab_size]
        between = usable[:1]
    types = pair["token_type_ids"]
    kinds = (types[0], types[first_end - 1], types[first_end], types[second_begin], types[-1])
    num_types = getattr(config, "type_vocab_size", 0) or 0
    if max(kinds) >= num_types:
        kinds = (0, 0, 0, 0, 0)
    return Special(ids[:num_before], between, ids[len(ids) - num_after :], kinds)
