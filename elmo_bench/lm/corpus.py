"""A text as indices of word types.

An epoch is one stream: all sentences in an order of its own, concatenated without padding and cut
into `batch_size` parallel streams with carried state, as in the original's training. The position
of a token in the text is computed when it is needed, so that no epoch is ever copied, and training
can continue from any position at no cost.

Axes: B batch, T tokens, C characters, U different words, N all tokens, S sentences.
"""

import hashlib
import itertools
import math
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from jaxtyping import Int

BEGIN = "<S>"
END = "</S>"
UNKNOWN = "<UNK>"
SPECIAL = (BEGIN, END, UNKNOWN)  # the first words of a vocabulary
FIRST = {BEGIN: 0, END: 1}  # first token of a sentence, forward and backward -> number
NO_TARGET = -1  # past the end of the text, since the last row of a batch may be shorter
_CHUNK = 1 << 20  # tokens counted at once


class Corpus:
    """Tokenised sentences as indices of word types (0 and 1 are <S> and </S>), with the counts and
    characters of the types.

    The other types have indices in order of occurrence. A token takes four bytes, a sentence eight
    more for its <S> and </S>.
    """

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        """Read the sentences once. Raises ValueError if none of them has a word."""
        # A new word gets the next number.
        types = defaultdict(itertools.count(len(FIRST)).__next__, FIRST)
        tokens = array("i")
        lengths = array("i")
        for sentence in filter(len, sentences):
            tokens.append(FIRST[BEGIN])
            tokens.extend(map(types.__getitem__, sentence))
            tokens.append(FIRST[END])
            lengths.append(len(sentence) + 2)
        if not lengths:
            raise ValueError("the corpus has no sentences")
        self.words = list(types)
        self.tokens = np.frombuffer(tokens, np.int32)
        # Sentence k, from <S> to </S>, is tokens[offsets[k] : offsets[k + 1]].
        self.offsets: Int[np.ndarray, " S_and_1"] = np.append(0, np.cumsum(lengths, dtype=np.int64))
        self.num_sentences = len(lengths)
        self.num_tokens = len(tokens) - 2 * self.num_sentences
        self.counts: Int[np.ndarray, " U"] = np.zeros(len(types), np.int64)
        for start in range(0, len(tokens), _CHUNK):
            part = self.tokens[start : start + _CHUNK]
            self.counts += np.bincount(part, minlength=len(types))
        self.counts[: len(FIRST)] -= self.num_sentences

    def digest(self) -> str:
        """Return a sha256 of the words and their order."""
        sha256 = hashlib.sha256("\n".join(self.words).encode("utf-8", "surrogatepass"))
        sha256.update(self.tokens.data)
        return sha256.hexdigest()

    def vocabulary(self, size: int | None = None, *, min_count: int = 1) -> list[str]:
        """Return `size` words: <S>, </S>, <UNK>, as in the original, then the most frequent."""
        counts = dict(zip(self.words, self.counts.tolist(), strict=True))
        frequent = []
        for word, count in counts.items():
            if count >= min_count and word not in SPECIAL and _fits_a_line(word):
                frequent.append(word)
        frequent.sort(key=lambda word: (-counts[word], word))
        if size is not None:
            frequent = frequent[: max(0, size - len(SPECIAL))]
        return list(SPECIAL) + frequent

    def windows(
        self, direction: str, batch_size: int, unroll: int, rng: np.random.Generator, start: int = 0
    ) -> Iterator[tuple[Int[np.ndarray, "B T"], Int[np.ndarray, "B T"]]]:
        """Yield (inputs, targets) of one epoch from window `start` on, as word types in the order
        in which the direction reads them.

        Row b of a window continues row b of the window before. Every token is in exactly one
        window. The last window may have fewer tokens, and some of its rows may end earlier: there,
        targets are `NO_TARGET`.
        """
        order = rng.permutation(self.num_sentences)
        # The end of each sentence, including its <S>, in the stream.
        ends = np.cumsum(np.diff(self.offsets)[order] - 1)
        length = math.ceil(ends[-1] / batch_size)
        rows = length * np.arange(batch_size)[:, None]
        for first in range(start * unroll, length, unroll):
            positions = rows + np.arange(first, min(first + unroll, length))
            yield self._look_up(direction, positions, order, ends)

    def _look_up(
        self, direction: str, positions: np.ndarray, order: np.ndarray, ends: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the tokens to read and to predict at positions of the stream."""
        is_past = positions >= ends[-1]
        inside = np.minimum(positions, ends[-1] - 1)
        which = np.searchsorted(ends, inside, "right")
        start = self.offsets[order[which]]
        stop = self.offsets[order[which] + 1]
        # The number of tokens that are read before it in its sentence; none are before <S>.
        num_before = inside - ends[which] + (stop - start - 1)
        if direction == "forward":
            places = start + num_before
            next_places = places + 1
        else:
            places = stop - 1 - num_before
            next_places = places - 1
        return self.tokens[places], np.where(is_past, NO_TARGET, self.tokens[next_places])

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
    """Whether a line of `vocabulary.txt` can be this word; a word from JSON may not fit."""
    if "\n" in word or "\r" in word:
        return False
    return word.encode("utf-8", "ignore").decode() == word
