"""Natural language inference: the JSON lines of SNLI 1.0 (Bowman et al. 2015)."""

import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from elmo_bench.terminal import counted_noun
from elmo_bench.text import read_objects, tokenize, unescape

from . import examples
from .examples import UNWRITABLE, Example
from .examples import collate as collate
from .examples import write as write

log = logging.getLogger(__name__)

LABELS = ("contradiction", "entailment", "neutral")
UNLABELLED = "-"  # SNLI's mark of pairs without a gold label
read_predictions = partial(examples.read_predictions, labels=LABELS)


def read(path: Path, *, joint: bool = False) -> Iterator[Example]:
    """Yield the pairs of a file that have a gold label; log the number of the others.

    Tokens are the leaves of the binary parse; a record without one is tokenised. Raises ValueError,
    with file and line, for a line that is not a JSON object, a missing or malformed sentence, or an
    unknown label.
    """
    num_skipped = 0
    for number, record in read_objects(path):
        label = record.get("gold_label")
        source = f"{path}:{number}"
        if label == UNLABELLED:
            num_skipped += 1
            continue
        if label not in LABELS:
            allowed = list(LABELS)
            allowed.append(UNLABELLED)
            raise ValueError(
                f"{source}: gold_label {shown(label)}, but it must be one of {allowed}"
            )
        yield _example(record, label, source, joint=joint, known=LABELS)
    if num_skipped:
        log.info("%s: skipped %s without a gold label", path, counted_noun(num_skipped, "pair"))


def _example(record: dict[str, Any], label: str | None, source: str, **more: Any) -> Example:
    premise = _words(record, "sentence1", source)
    hypothesis = _words(record, "sentence2", source)
    group = (" ".join(premise),)
    return Example((premise, hypothesis), label, source, group, ("premise",), **more)


def _words(record: dict[str, Any], key: str, source: str) -> tuple[str, ...]:
    """Return the tokens of a sentence.

    An empty sentence becomes one empty word: the official score is over all labelled pairs, so none
    may be dropped, and models need not handle sentences without words.
    """
    words: Any = record.get(key)
    tree = record.get(f"{key}_binary_parse")
    if isinstance(tree, str) and tree:
        words = leaves(tree, source)
    elif isinstance(words, str):
        words = tokenize(words)
    is_list = isinstance(words, list) and all(isinstance(word, str) for word in words)
    if not (is_list and isinstance(tree, str | None)) or UNWRITABLE.search(" ".join(words)):
        raise ValueError(
            f"{source}: {key!r} must be a string or a list of tokens without tabs or ends of lines,"
            f" and its parse a string, but they are {shown(words)} and {shown(tree)}"
        )
    return tuple(words or [""])


def leaves(tree: str, source: str) -> list[str]:
    """Return a binary parse's words, unescaped.

    Raises ValueError if the numbers of ( and ) differ or a word contains one of them.

    >>> leaves("( ( A lamp ) ( shines . ) )", "here")
    ['A', 'lamp', 'shines', '.']
    """
    pieces = tree.split(" ")  # not split(): other white space may be part of a word
    words = [piece for piece in pieces if piece not in ("", "(", ")")]
    has_bracket = any("(" in word or ")" in word for word in words)
    if has_bracket or pieces.count("(") != pieces.count(")"):
        raise ValueError(
            f"{source}: the binary parse {shown(tree)}, but it must have as many ( as ), each with "
            "spaces around it, and -LRB- and -RRB- for those of the text"
        )
    return list(map(unescape, words))


def parse(record: dict[str, Any], source: str, joint: bool = False) -> Example:
    """Read an unlabelled example from `{"sentence1": premise, "sentence2": hypothesis}`.

    Each sentence is text or a list of tokens. Raises ValueError, with `source`, for any other
    record.
    """
    return _example(record, None, source, joint=joint)


def render(example: Example, prediction: str) -> dict[str, Any]:
    """Return the JSON record of a prediction; its sentences are lists of tokens."""
    premise, hypothesis = example.texts
    return {"sentence1": list(premise), "sentence2": list(hypothesis), "label": prediction}
