"""Several texts as one sentence, for encoders that read them in one sequence, and its summary.

Two words that stand in no text mark them. They are words to everything else: a mix, a store and a
picture of layers hold for the summary's vector as for any word's.
"""

from collections.abc import Sequence
from typing import Any

# U+FDD0 is a noncharacter, which Unicode keeps for such uses.
SUMMARY = "\ufdd0summary"  # its vector is that of the whole: [CLS], <s>, a decoder's last piece
BREAK = "\ufdd0break"  # between two texts; its vector is 0


def joined(*texts: Sequence[str]) -> tuple[str, ...]:
    """Return the words of texts as one sentence: a summary, then the texts with a break between.

    >>> [word.strip(chr(0xFDD0)) for word in joined(["It", "rains"], ["Wet"])]
    ['summary', 'It', 'rains', 'break', 'Wet']
    """
    words = [SUMMARY]
    for number, text in enumerate(texts):
        if number > 0:
            words.append(BREAK)
        words.extend(text)
    return tuple(words)


def texts_of(example: Any) -> list[list[str]]:
    """Return the texts of an example, the same read apart or in one sequence: its `texts`, or else
    its sentences.
    """
    return list(map(list, getattr(example, "texts", example.sentences)))
