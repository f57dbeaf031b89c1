"""The characters of words, as the original biLM numbers them (bilm-tf's `UnicodeCharsVocabulary`).

Axes: B batch, T tokens, C characters.

A word is a frame of 50 ids: begin-word, at most 48 UTF-8 bytes, end-word, then padding characters.
Ids are shifted by one, so that 0 means "no token" and `mask = (chars > 0).any(-1)`. An empty word
still counts as a word.
"""

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

WIDTH = 50
NUM_CHARACTERS = 262  # 256 bytes, 5 special characters, and 0 for "no token"
BOUNDARIES = {"<S>": 257, "</S>": 258}
BEGIN_WORD = 259
END_WORD = 260
PAD = 261


@lru_cache(maxsize=1 << 17)
def word_frame(word: str) -> Int[np.ndarray, " C"]:
    """Return the character ids of one word, 1 to 261: its UTF-8 bytes plus 1 between a begin and an
    end id, then padding.

    As in the original, bytes after the first 48 are dropped, and `<S>` and `</S>` have an
    id of their own.

    >>> word_frame("a")[:4].tolist()
    [259, 98, 260, 261]
    """
    content = [byte + 1 for byte in word.encode("utf-8", "replace")[: WIDTH - 2]]
    if word in BOUNDARIES:
        content = [BOUNDARIES[word]]
    frame = np.full(WIDTH, PAD, dtype=np.int64)
    end = len(content) + 1
    frame[0] = BEGIN_WORD
    frame[1:end] = content
    frame[end] = END_WORD
    frame.setflags(write=False)
    return frame


def is_cut(word: str) -> bool:
    """Whether a word has more bytes than a frame.

    >>> is_cut("a" * 48), is_cut("a" * 49), is_cut("త" * 17)
    (False, True, True)
    """
    return len(word.encode("utf-8", "replace")) > WIDTH - 2


def char_ids(sentences: Sequence[Sequence[str]]) -> Int[Tensor, "B T C"]:
    """Return the character ids of a batch of sentences of words.

    Sentences get no boundary tokens. Rows after the end of a sentence are zeros.

    >>> char_ids([["Hi", "."], ["!"]]).shape
    torch.Size([2, 2, 50])
    """
    longest = max((len(sentence) for sentence in sentences), default=0)
    ids = np.zeros((len(sentences), longest, WIDTH), dtype=np.int64)
    for row, sentence in zip(ids, sentences, strict=True):
        for position, word in enumerate(sentence):
            row[position] = word_frame(word)
    return torch.from_numpy(ids)
