"""Plain text to the Penn Treebank's tokens and their offsets, by NLTK's rules, without data."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, NamedTuple

# One character for one, so that offsets hold: NLTK then knows these as the quotes they are.
_STRAIGHT = str.maketrans("“”„‟‘’‚‛", '""""' + "''''")
_FINE = re.compile(r"""(-|[‐-―−]|[£€¥¢₹]|[/~"“”„‟]|``|''|['‘’](?!\w))""")
# An address up to its last letter, digit or slash: what ends a sentence or closes a bracket is no
# part of it.
_ADDRESS = re.compile(r"""(?:https?://|www\.)[^\s<>"]*[\w/]""", re.IGNORECASE)
# NLTK parts the last full stop of a text only, since it expects single sentences: these words keep
# theirs anywhere.
_INITIALS = re.compile(r"(?:[^\W\d_]\.)+")
_ABBREVIATIONS = re.compile(
    r"(?:Mrs?|Ms|Dr|Prof|St|Jr|Sr|Rev|Gen|Col|Lt|Sgt|Capt|Gov|Ph\.D"
    r"|Inc|Ltd|Co|Corp|Bros|vs|etc|ca|al|Jan|Feb|Mar|Apr|Aug|Sept|Oct|Nov|Dec)\."
)


class Token(NamedTuple):
    """A token and where it stands: `text[start:end]` is what the text has there."""

    text: str
    start: int
    end: int


def tokenize(text: str) -> list[str]:
    """The tokens of a text.

    >>> tokenize("Dr. Ada can't come. It's 5% off.")
    ['Dr.', 'Ada', 'ca', "n't", 'come', '.', 'It', "'s", '5', '%', 'off', '.']
    """
    return [token.text for token in tokenize_with_offsets(text)]


def words_of(record: Mapping[str, Any], source: str) -> list[str]:
    """The words of an unlabelled sentence: its `tokens`, or its `text` tokenised; else ValueError.

    >>> words_of({"text": "It rains."}, "file:1")
    ['It', 'rains', '.']
    """
    words = record.get("tokens")
    if words is None and isinstance(record.get("text"), str):
        words = tokenize(record["text"])
    if isinstance(words, list) and words and all(isinstance(w, str) and w for w in words):
        return words
    raise ValueError(
        f"{source}: a record must have 'tokens', a list of words, or 'text', not empty; it "
        f"has {dict(record)}"
    )


def tokenize_with_offsets(text: str, *, fine: bool = False) -> list[Token]:
    """The tokens of a text as they stand in it; together they hold all but its white space.

    An address such as `https://a.org/b?c=d` is one token. `fine` parts it, and words at hyphens and
    dashes, currency signs, slashes, tildes and quotes, where an answer may begin or end (Clark and
    Gardner 2018).

    >>> tokenize_with_offsets("a well-kept “house”", fine=True)[-2:]
    [Token(text='house', start=13, end=18), Token(text='”', start=18, end=19)]
    """
    tokens = []
    straight = text.translate(_STRAIGHT)
    for start, end in _offsets(straight) if fine else _offsets_with_addresses(straight):
        for piece in _FINE.split(text[start:end]) if fine else [text[start:end]]:
            for part in _part_full_stop(piece):
                tokens.append(Token(part, start, start + len(part)))
                start += len(part)
    return tokens


def _offsets_with_addresses(text: str) -> Iterator[tuple[int, int]]:
    """The tokens' start and end; a web address, which NLTK would part, is one token."""
    done = 0
    for address in _ADDRESS.finditer(text):
        before = text[done : address.start()]
        yield from ((done + start, done + end) for start, end in _offsets(before))
        yield address.span()
        done = address.end()
    yield from ((done + start, done + end) for start, end in _offsets(text[done:]))


def _offsets(text: str) -> Iterator[tuple[int, int]]:
    """The start and end of NLTK's tokens, which differ from the text in double quotes only."""
    end = 0
    for token in _treebank().tokenize(text):
        start = end
        while text[start].isspace():
            start += 1
        length = len(token)
        if not text.startswith(token, start):  # `` or '', where the text has another quote
            length = 1 if text[start] == '"' else 2
        end = start + length
        yield start, end


def _part_full_stop(word: str) -> list[str]:
    if len(word) > 1 and word[-1] == "." and word[-2] != ".":
        last = _FINE.split(word)[-1]  # so that finer tokens only part these further
        if not _ABBREVIATIONS.fullmatch(last) and not _INITIALS.fullmatch(last):
            return [word[:-1], "."]
    return [word] if word else []


@cache
def _treebank() -> Any:
    from nltk.tokenize import NLTKWordTokenizer  # two seconds, which only raw text should cost

    return NLTKWordTokenizer()
