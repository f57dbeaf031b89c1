"""A text as indices of word types, in memory or, if it is larger, in memory-mapped files.

An epoch is one stream: all sentences in an order of its own, concatenated without padding and cut
into `batch_size` parallel streams with carried state, as in the original's training. The position
of a token in the text is computed when it is needed, so that no epoch is ever copied, and training
can continue from any position at no cost.

Axes: B batch, T tokens, C characters, U different words, N all tokens, S sentences.
"""

import hashlib
import itertools
import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Int

from elmo_bench.encoders.bilm.chars import word_frame
from elmo_bench.files import atomic, read_json

BEGIN, END, UNKNOWN = "<S>", "</S>", "<UNK>"
FIRST = {BEGIN: 0, END: 1}  # first token of a sentence, forward and backward -> number
NO_TARGET = -1  # past the end of the text, since the last row of a batch may be shorter
Sentences = Sequence[Sequence[str]]
_CHUNK = 1 << 20  # tokens encoded before each write


class Corpus:
    """Tokenised sentences as indices of word types (0 and 1 are <S> and </S>), with the counts and
    characters of the types.
    """

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        """Hold the sentences in memory. Raises ValueError if none of them has a word."""
        types = _types()
        chunks = list(_encode(sentences, types))
        tokens, lengths = (np.concatenate([chunk[k] for chunk in chunks]) for k in range(2))
        self._set(tokens, _offsets(lengths), list(types), np.bincount(tokens, minlength=len(types)))

    def _set(
        self, tokens: np.ndarray, offsets: np.ndarray, words: list[str], counts: np.ndarray
    ) -> None:
        self.tokens: Int[np.ndarray, " N"] = tokens
        # Sentence k is tokens[offsets[k] : offsets[k + 1]].
        self.offsets: Int[np.ndarray, " S_and_1"] = offsets
        self.words, self.counts = words, counts
        self.num_tokens, self.num_sentences = len(tokens), len(offsets) - 1

    @classmethod
    def open(cls, folder: str | Path) -> "Corpus":
        """Open a corpus written by `encode`; its tokens stay on disk."""
        folder = Path(folder)
        words = read_json(folder / "words.json", list, max_bytes=1 << 32)
        lengths = np.fromfile(folder / "lengths.int32", np.int32)
        counts = np.fromfile(folder / "counts.int64", np.int64)
        try:
            size = (folder / "tokens.int32").stat().st_size
            if size % 4 or not size or not len(lengths):
                raise ValueError("tokens.int32 is truncated, or lengths.int32 is empty")
            tokens = np.memmap(folder / "tokens.int32", np.int32, "r")
            _check(tokens, lengths, words, counts)
        except ValueError as error:
            raise ValueError(
                f"{folder}: the encoded text is damaged ({error}): delete the folder to "
                "encode the text again"
            ) from error
        corpus = cls.__new__(cls)
        corpus._set(tokens, _offsets(lengths), words, counts)
        return corpus

    @classmethod
    def encode(cls, sentences: Iterable[Sequence[str]], folder: str | Path) -> "Corpus":
        """Read the sentences once and write their indices and counts to `folder`, which appears
        when it is complete.
        """
        folder, types = Path(folder), _types()
        folder.parent.mkdir(parents=True, exist_ok=True)
        counts = np.zeros(0, np.int64)
        with atomic(folder) as part:
            part.mkdir()
            with (
                (part / "tokens.int32").open("wb") as tokens_file,
                (part / "lengths.int32").open("wb") as lengths_file,
            ):
                for tokens, lengths in _encode(sentences, types):
                    tokens_file.write(tokens.data)  # numpy's tofile does not report a full disk
                    lengths_file.write(lengths.data)
                    counts = np.bincount(tokens, minlength=len(types)) + np.pad(
                        counts, (0, len(types) - len(counts))
                    )
            (part / "counts.int64").write_bytes(counts.tobytes())
            (part / "words.json").write_text(json.dumps(list(types)), encoding="utf-8")
        return cls.open(folder)

    def digest(self) -> str:
        """Return a sha256 that identifies the text, wherever its files are.

        It covers the word types in the order of their first occurrence, their counts and the number
        of sentences.
        """
        sha256 = hashlib.sha256("\n".join(self.words).encode("utf-8", "surrogatepass"))
        sha256.update(np.asarray(self.counts, dtype=np.int64).tobytes())
        sha256.update(str(self.num_sentences).encode())
        return sha256.hexdigest()

    def vocabulary(self, size: int | None = None, *, min_count: int = 1) -> list[str]:
        """Return <S>, </S>, <UNK> and the most frequent words, `size` in total; the original
        requires these first lines.
        """
        special, counts = {BEGIN, END, UNKNOWN}, self.counts.tolist()
        enough = (number for number, count in enumerate(counts) if count >= min_count)
        order = sorted(enough, key=lambda number: (-counts[number], self.words[number]))
        frequent = [
            word
            for number in order
            if (word := self.words[number]) not in special and _fits_a_line(word)
        ]
        return [BEGIN, END, UNKNOWN, *frequent[: None if size is None else max(0, size - 3)]]

    def frames(self, width: int) -> Int[np.ndarray, "U C"]:
        """Return the character ids of every word type."""
        frames = np.empty((len(self.words), width), dtype=np.int16)
        for frame, word in zip(frames, self.words, strict=True):
            frame[:] = word_frame(word, width)
        return frames

    def windows(
        self,
        direction: str,
        *,
        batch_size: int,
        unroll: int,
        rng: np.random.Generator,
        start: int = 0,
    ) -> Iterator[tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B T"]]]:
        """Yield (inputs, targets) of one epoch from window `start` on, as word types in the order
        in which the direction reads them.

        The sentences, in random order, are one stream cut into `batch_size` parallel streams: row b
        of a window continues row b of the window before. Every token is in exactly one window. The
        last window may have fewer tokens, and some of its rows may end earlier: there, targets are
        `NO_TARGET`.
        """
        order = rng.permutation(self.num_sentences)
        # The end of each sentence, including its <S>, in the stream.
        ends = np.cumsum(np.diff(self.offsets)[order] + 1)
        length = math.ceil(ends[-1] / batch_size)
        rows = length * np.arange(batch_size)[:, None]
        for first in range(start * unroll, length, unroll):
            positions = rows + np.arange(first, min(first + unroll, length))
            yield self._look_up(direction, positions, order, ends)

    def _look_up(
        self, direction: str, positions: np.ndarray, order: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens to read and to predict at positions of the stream."""
        is_past, positions = positions >= ends[-1], np.minimum(positions, ends[-1] - 1)
        which = np.searchsorted(ends, positions, "right")
        start, stop = self.offsets[order[which]], self.offsets[order[which] + 1]
        # The number of tokens before it in its sentence; 0 is <S>.
        seen = positions - (ends[which] - (stop - start) - 1)
        last = self.num_tokens - 1
        if direction == "forward":
            inputs = np.where(seen == 0, 0, self.tokens[np.maximum(start + seen - 1, 0)])
            targets = np.where(seen == stop - start, 1, self.tokens[np.minimum(start + seen, last)])
        else:
            inputs = np.where(seen == 0, 1, self.tokens[np.minimum(stop - seen, last)])
            targets = np.where(seen == stop - start, 0, self.tokens[np.maximum(stop - 1 - seen, 0)])
        return inputs, np.where(is_past, NO_TARGET, targets)

    def num_windows(self, *, batch_size: int, unroll: int) -> int:
        """The number of windows in an epoch. Raises ValueError if the text does not fill one."""
        length = math.ceil((self.num_tokens + self.num_sentences) / batch_size)
        if length < unroll:
            raise ValueError(
                f"the training text has {self.num_tokens:,} words in {self.num_sentences:,} "
                f"sentences, too few for batch_size={batch_size} x unroll={unroll} (of pretrain or "
                "adapt): choose smaller values"
            )
        return math.ceil(length / unroll)


def _fits_a_line(word: str) -> bool:
    """Whether `vocabulary.txt`, UTF-8 with one word per line, can contain a word; JSON lines may
    have any string.
    """
    return not {*"\n\r"} & {*word} and word.encode("utf-8", "ignore").decode() == word


def _types() -> dict[str, int]:
    """Assign indices to words in order of occurrence."""
    return defaultdict(itertools.count(len(FIRST)).__next__, FIRST)


def _encode(
    sentences: Iterable[Sequence[str]], types: dict[str, int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield (tokens, lengths of their sentences) for many sentences at a time."""
    tokens: list[int] = []
    lengths: list[int] = []
    for sentence in sentences:
        if sentence:
            tokens.extend(map(types.__getitem__, sentence))
            lengths.append(len(sentence))
        if len(tokens) >= _CHUNK:
            yield np.array(tokens, dtype=np.int32), np.array(lengths, dtype=np.int32)
            tokens, lengths = [], []
    if len(types) == 2:
        raise ValueError("the corpus has no sentences")
    yield np.array(tokens, dtype=np.int32), np.array(lengths, dtype=np.int32)


def _check(
    tokens: np.ndarray, lengths: np.ndarray, words: Sequence[object], counts: np.ndarray
) -> None:
    """Raise ValueError if the files of an encoded text are inconsistent; reads all tokens once."""
    if not all(isinstance(word, str) for word in words) or len(words) != len(counts):
        raise ValueError(f"words.json: {len(words)} words, counts.int64: {len(counts)} counts")
    total = lengths.sum(dtype=np.int64)
    if lengths.min(initial=1) < 1 or total != len(tokens):
        raise ValueError(f"tokens.int32: {len(tokens)} tokens, lengths.int32: {total} tokens")
    left = counts.copy()
    for start in range(0, len(tokens), _CHUNK):
        chunk = tokens[start : start + _CHUNK]
        if chunk.min() < 0 or chunk.max() >= len(words):
            raise ValueError(f"tokens.int32: an index beyond the {len(words)} words of words.json")
        left -= np.bincount(chunk, minlength=len(words))
    if left.any():
        raise ValueError("tokens.int32: its words do not have the counts of counts.int64")


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
