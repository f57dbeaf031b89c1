"""Sentiment of phrases: SST trees, with a label from 0 (very negative) to 4 at every phrase."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from reprlib import repr as shown
from typing import Any, Literal

from elmo_bench.bounds import Count
from elmo_bench.terminal import counted_noun
from elmo_bench.text import Span, read_lines, unescape, words_of

from .examples import Example
from .examples import collate as collate
from .examples import read_predictions as read_labels
from .examples import write as write

# Maps the treebank's five labels to those of a setting with 5, 3 or 2 classes. Phrases with a label
# that is not a key are left out.
CLASSES = {
    5: {"0": "0", "1": "1", "2": "2", "3": "3", "4": "4"},
    3: {"0": "negative", "1": "negative", "2": "neutral", "3": "positive", "4": "positive"},
    2: {"0": "negative", "1": "negative", "3": "positive", "4": "positive"},
}
# `write` separates its columns by tabs, so words have none.
PIECE = re.compile(
    r"\( *(?P<label>[0-4])(?![^() ])( +(?P<word>[^() \t]+) *\))?|\)|(?P<stray>[^() ]+|\()"
)


def read(
    path: Path,
    *,
    classes: Literal[2, 3, 5] = 5,
    min_tokens: Count | None = None,
    joint: bool = False,
) -> Iterator[Example]:
    """Yield the sentences of a file, or with `min_tokens` every phrase of at least that length.

    `classes=3` merges 0 with 1 and 3 with 4; `classes=2` also leaves out neutral phrases. A file
    need not have all of the classes. Raises ValueError, with file and line, for a line that is not
    one tree, or a label other than 0 to 4.
    """
    merged = CLASSES[classes]
    known = tuple(dict.fromkeys(merged.values()))
    for number, line in read_lines(path):
        if not line.strip(" "):
            continue
        source = f"{path}:{number}"
        words, phrases = parse_tree(line, source)
        chosen = phrases[:1] if min_tokens is None else phrases  # the first is the sentence
        for label, start, end in chosen:
            if label in merged and end - start + 1 >= (min_tokens or 1):
                phrase = words[start : end + 1]
                yield _example(phrase, merged[label], source, joint=joint, known=known)


def _example(words: Sequence[str], label: str | None, source: str, **more: Any) -> Example:
    return Example((tuple(words),), label, source, (source,), ("tree",), **more)


def parse_tree(line: str, source: str) -> tuple[tuple[str, ...], list[Span]]:
    r"""Parse a bracketed tree into words and phrases, in preorder.

    Escaped brackets and slashes (`-LRB-`, `\/`) are unescaped. Raises ValueError, with `source`,
    for a line that is not one tree.

    >>> words, phrases = parse_tree("(3 (2 Very) (3 good))", "file:1")
    >>> words, phrases[0]
    (('Very', 'good'), Span(label='3', start=0, end=1))
    """
    words: list[str] = []
    phrases: list[Span] = []
    unclosed: list[int] = []  # indices of `phrases`
    for piece in PIECE.finditer(line):
        closes = piece[0] == ")"
        is_after_end = phrases and not unclosed
        closes_nothing = closes and not unclosed
        closes_empty = closes and unclosed and phrases[unclosed[-1]].start == len(words)
        if piece["stray"] or is_after_end or closes_nothing or closes_empty:
            raise ValueError(
                f"{source}: {shown(piece[0])} at character {piece.start() + 1}, but a line must be "
                "one phrase, and a phrase (LABEL WORD) or (LABEL PHRASE ...), without tabs and "
                "with labels 0 to 4"
            )
        if closes:
            index = unclosed.pop()
            phrases[index] = phrases[index]._replace(end=len(words) - 1)
            continue
        if piece["word"] is None:
            unclosed.append(len(phrases))
        phrases.append(Span(piece["label"], len(words), len(words)))
        if piece["word"]:
            words.append(unescape(piece["word"]))
    if unclosed:
        left = counted_noun(len(unclosed), "bracket")
        raise ValueError(f"{source}: {left} not closed; the line ends with {line[-30:]!r}")
    return tuple(words), phrases


def read_predictions(path: Path, examples: Sequence[Example]) -> list[str]:
    """Read the predicted labels from a file written by `write`, as `examples.read_predictions`."""
    classes = 5 if examples[0].gold in CLASSES[5] else 3
    labels = sorted(set(CLASSES[classes].values()))
    return read_labels(path, examples, labels)


def parse(record: dict[str, Any], source: str, joint: bool = False) -> Example:
    """Read an unlabelled sentence from `{"tokens": list}` or `{"text": text}`.

    Raises ValueError for any other record, and for a text that is a tree, whose labels would be
    words.
    """
    if _is_tree(record.get("text")):
        raise ValueError(
            f"{source}: {shown(record['text'])} is a tree with labels, but job=predict reads plain "
            "text; to evaluate on trees, use job=evaluate data=files data.files.test=FILE"
        )
    return _example(words_of(record, source), None, source, joint=joint)


def _is_tree(text: Any) -> bool:
    """Whether a text is a tree of several phrases; (3 stars) may be a text, too."""
    if not isinstance(text, str) or not text.startswith("("):
        return False
    try:
        _, phrases = parse_tree(text, "")
    except ValueError:
        return False
    return len(phrases) > 1


def render(example: Example, prediction: str) -> dict[str, Any]:
    """Return a prediction as `{"tokens": ..., "label": ...}`."""
    return {"tokens": list(example.texts[0]), "label": prediction}
