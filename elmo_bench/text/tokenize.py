"""Penn Treebank tokenisation with offsets, by NLTK's rules, without NLTK's data files."""

import re
import reprlib
from collections.abc import Mapping
from functools import cache
from typing import Any, TypeGuard

# NLTK recognises only straight quotes. Single-character replacements keep offsets valid.
_STRAIGHT = str.maketrans("“”„‟‘’‚‛", '""""' + "''''")
_FINE = re.compile(r"""(-|[‐-―−]|[£€¥¢₹]|[/~"“”„‟]|``|''|['‘’](?!\w))""")
# Brackets as the Penn Treebank writes them.
_BRACKETS = {"(": "-LRB-", ")": "-RRB-", "[": "-LSB-", "]": "-RSB-", "{": "-LCB-", "}": "-RCB-"}
BRACKETS = str.maketrans(_BRACKETS)
_UNESCAPED = {escaped: bracket for bracket, escaped in _BRACKETS.items()}
# NLTK expects single sentences, so it splits only the text's last full stop. We split others, too,
# except after these abbreviations.
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+")
_ABBREVIATIONS = re.compile(
    r"(?:Mrs?|Ms|Dr|Prof|St|Jr|Sr|Rev|Gen|Col|Lt|Sgt|Capt|Gov|Ph\.D"
    r"|Inc|Ltd|Co|Corp|Bros|vs|etc|ca|al|Jan|Feb|Mar|Apr|Aug|Sept|Oct|Nov|Dec)\."
)


def tokenize(text: str) -> list[str]:
    """Return the tokens of a text.

    >>> tokenize("Dr. Ada can't come. It's 5% off.")
    ['Dr.', 'Ada', 'ca', "n't", 'come', '.', 'It', "'s", '5', '%', 'off', '.']
    """
    return [text[start:end] for start, end in token_offsets(text)]


def words_of(record: Mapping[str, Any], source: str) -> list[str]:
    """Return an unlabelled sentence's words: its `tokens`, or its tokenised `text`.

    Raises ValueError, with `source`, if the record has neither.

    >>> words_of({"text": "It rains."}, "file:1")
    ['It', 'rains', '.']
    """
    words = record.get("tokens")
    if words is None and isinstance(record.get("text"), str):
        words = tokenize(record["text"])
    if not are_words(words):
        raise ValueError(
            f"{source}: a record must have 'tokens', a list of words, or without it 'text', and "
            f"neither may be empty; this record is {reprlib.repr(dict(record))}"
        )
    return words


def are_words(value: object) -> TypeGuard[list[str]]:
    """Whether a value of JSON is a list of at least one word, none of them empty."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(word, str) and word for word in value)


def unescape(word: str) -> str:
    r"""Return a word of the Penn Treebank as it stands in a text.

    >>> [unescape(word) for word in ("-LRB-", r"and\/or")]
    ['(', 'and/or']
    """
    return _UNESCAPED.get(word, word.replace("\\/", "/").replace("\\*", "*"))


def token_offsets(text: str, *, fine: bool = False) -> list[tuple[int, int]]:
    """Return start and end of each token of a text; they cover everything except white space.

    `fine` splits words at hyphens, dashes, currency signs, slashes, tildes and quotes, because
    answers may begin or end there (after Clark and Gardner 2018, who split more: docs/models.md).

    >>> token_offsets("a well-kept “house”", fine=True)[-2:]
    [(13, 18), (18, 19)]
    """
    offsets = []
    for start, end in _treebank().span_tokenize(text.translate(_STRAIGHT)):
        token = text[start:end]
        for piece in _FINE.split(token) if fine else [token]:
            for part in _part_full_stop(piece):
                offsets.append((start, start + len(part)))
                start += len(part)
    return offsets


def _part_full_stop(word: str) -> list[str]:
    if len(word) > 1 and word[-1] == "." and word[-2] != ".":
        last = _FINE.split(word)[-1]  # so that fine tokens are parts of these tokens
        if not _ABBREVIATIONS.fullmatch(last) and not _INITIALS.fullmatch(last):
            return [word[:-1], "."]
    return [word] if word else []


@cache
def _treebank() -> Any:
    from nltk.tokenize import NLTKWordTokenizer  # takes two seconds, and only raw text needs it

    return NLTKWordTokenizer()
