"""Convert between chunks and tags, with the rules of conlleval.

IOB1 uses B- only for a chunk that directly follows another of its type, IOB2 for the first token of
every chunk. BIOUL also marks the last token of a chunk (L-) and a chunk of one token (U-); BIOES
writes E- and S- for these, and BMES M- for I-.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import NamedTuple

_TAG = re.compile(r"O|[BIESLUM]-\S+")
TAGS = "O, B-TYPE or I-TYPE (also E, S, L, U and M, as in BIOES, BIOUL and BMES)"  # for messages


class Span(NamedTuple):
    """A labelled chunk of tokens, both ends included."""

    label: str
    start: int
    end: int


def is_tag(text: str) -> bool:
    """Whether a text is a tag of one of these schemes, all of it visible.

    >>> is_tag("S-LOC"), is_tag("LOC"), is_tag("B-")
    (True, False, False)
    """
    return _TAG.fullmatch(text) is not None and text.isprintable()


def tags_to_spans(tags: Sequence[str]) -> list[Span]:
    """Return the chunks of IOB1, IOB2, BIOUL, BIOES or BMES tags.

    A chunk begins at B-, U- and S-, after L- and E-, and at every change of type.

    >>> tags_to_spans(["I-ORG", "B-ORG", "O"])
    [Span(label='ORG', start=0, end=0), Span(label='ORG', start=1, end=1)]
    >>> tags_to_spans(["B-ORG", "E-ORG", "S-ORG"])
    [Span(label='ORG', start=0, end=1), Span(label='ORG', start=2, end=2)]
    """
    spans: list[Span] = []
    open_label = None
    start = 0  # of the chunk that is open
    previous = "O"  # prefix
    for position, tag in enumerate(chain(tags, ["O"])):
        prefix, _, label = tag.partition("-")
        begins = (
            prefix in ("B", "U", "S") or previous in ("L", "U", "E", "S") or label != open_label
        )
        if open_label is not None and (prefix == "O" or begins):
            spans.append(Span(open_label, start, position - 1))
            open_label = None
        if prefix != "O" and open_label is None:
            open_label = label
            start = position
        previous = prefix
    return spans


def spans_to_iob2(spans: Sequence[Span], length: int) -> list[str]:
    """Return the IOB2 tags of chunks, which must not overlap."""
    tags = ["O"] * length
    for label, start, end in spans:
        tags[start : end + 1] = [f"I-{label}"] * (end + 1 - start)
        tags[start] = f"B-{label}"
    return tags


def spans_to_bioul(spans: Sequence[Span], length: int) -> list[str]:
    """Return the BIOUL tags of chunks, which must not overlap.

    >>> spans_to_bioul([Span("PER", 0, 1), Span("LOC", 3, 3)], 4)
    ['B-PER', 'L-PER', 'O', 'U-LOC']
    """
    tags = spans_to_iob2(spans, length)
    for label, start, end in spans:
        tags[end] = f"{'U' if start == end else 'L'}-{label}"
    return tags


def tag_moves(
    labels: Sequence[str], *, bioul: bool = False
) -> tuple[list[list[bool]], list[bool], list[bool]]:
    """Return what BIO (IOB2) or BIOUL allows: transitions from row tag to column tag, first and
    last tags. A chunk goes on only within its type, and in BIOUL up to its L-.

    >>> moves, first, last = tag_moves(["O", "B-X", "I-X"])
    >>> moves
    [[True, True, False], [True, True, True], [True, True, True]]
    >>> first, last
    ([True, True, False], [True, True, True])
    """
    first = [tag[0] in "OBU" for tag in labels]
    last = [not bioul or tag[0] in "OLU" for tag in labels]
    moves = []
    for before, may_end in zip(labels, last, strict=True):
        row = []
        for after, may_begin in zip(labels, first, strict=True):
            row.append(_goes_on(before, after) or (may_end and may_begin))
        moves.append(row)
    return moves, first, last


def _goes_on(before: str, after: str) -> bool:
    """Whether a chunk may go on from one tag to the next."""
    return before[0] in "BI" and after[0] in "IL" and before[1:] == after[1:]


def types(labels: Iterable[str]) -> list[str]:
    """Return the distinct labels, sorted; tags (B-, I-, L- or U- and a type) become types.

    >>> types(["B-PER", "U-PER", "O", "B-ARG0", "I-ARG0"]), types(["neutral"])
    (['ARG0', 'O', 'PER'], ['neutral'])
    """
    names = set()
    for label in labels:
        has_prefix = label[:2] in ("B-", "I-", "L-", "U-")
        names.add(label[2:] if has_prefix else label)
    return sorted(names)
