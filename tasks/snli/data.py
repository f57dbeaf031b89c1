"""Natural language inference: the JSON lines of SNLI 1.0 (Bowman et al. 2015).

Axes: B batch, T tokens of the premise, U tokens of the hypothesis.
"""

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from elmo_bench.nn import Tokens, tokens
from elmo_bench.text import Vocab, check_same, is_predicted, read_objects

log = logging.getLogger(__name__)

LABELS = ("contradiction", "entailment", "neutral")
UNLABELLED = "-"  # SNLI's own mark of a pair whose annotators did not agree
NO_CLASS = -100  # the number that cross-entropy leaves out
ESCAPES = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@dataclass(frozen=True)
class Example:
    """A premise, a hypothesis, and what the first says about the second (`-`: not known)."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str
    identity: str
    source: str

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [self.premise, self.hypothesis]

    @property
    def group(self) -> tuple[str, ...]:
        """The premise, which comes with several hypotheses."""
        return (" ".join(self.premise),)

    @property
    def labels(self) -> list[str]:
        return [] if self.label == UNLABELLED else [self.label]

    @property
    def gold(self) -> str:
        """The label: what the metric compares predictions with."""
        return self.label


class Batch(NamedTuple):
    """Premises, hypotheses, the numbers of their labels, and the labels."""

    premise: Tokens
    hypothesis: Tokens
    labels: Int[Tensor, " B"]
    gold: list[str]


def read(path: Path) -> Iterator[Example]:
    """Yield a file's pairs that have a gold label; the others are counted, and the count is logged.

    Tokens are the leaves of the binary parse, or the tokenised sentence where a record has none.
    Raises ValueError, with file and line, for a line that is not a JSON object, a missing or
    malformed sentence, or an unknown label.
    """
    left_out = 0
    for number, record in read_objects(path):
        label, source = record.get("gold_label"), f"{path}:{number}"
        if label not in (*LABELS, UNLABELLED):
            raise ValueError(
                f"{source}: gold_label {label!r}, but it must be one of {[*LABELS, UNLABELLED]}"
            )
        if label == UNLABELLED:
            left_out += 1
        else:
            yield _example(record, label, source, str(number))
    if left_out:
        log.info("%s: skipped %d pairs without a gold label", path, left_out)


def _example(record: dict[str, Any], label: str, source: str, identity: str) -> Example:
    premise, hypothesis = (_words(record, key, source) for key in ("sentence1", "sentence2"))
    return Example(premise, hypothesis, label, str(record.get("pairID", identity)), source)


def _words(record: dict[str, Any], key: str, source: str) -> tuple[str, ...]:
    """A sentence's tokens.

    An empty sentence is one word without characters: the official score is over every labelled
    pair, so that none may be left out, and models need not know of sentences without words.
    """
    sentence, tree = record.get(key), record.get(f"{key}_binary_parse")
    if isinstance(tree, str) and tree:
        sentence = leaves(tree, source)
    elif isinstance(sentence, str):
        sentence = _tokenize(sentence)
    if not isinstance(sentence, list) or not all(isinstance(word, str) for word in sentence):
        raise ValueError(
            f"{source}: {key!r} must be a string or a list of tokens, but it is {sentence!r}"
        )
    return tuple(sentence) or ("",)


@lru_cache(maxsize=1024)  # a premise comes with several hypotheses
def _tokenize(text: str) -> list[str]:
    from elmo_bench.text import tokenize

    return tokenize(text)


def leaves(tree: str, source: str) -> list[str]:
    """The words of a binary parse, its escaped brackets restored; ValueError if it is cut short.

    >>> leaves("( ( A lamp ) ( shines . ) )", "here")
    ['A', 'lamp', 'shines', '.']
    """
    pieces = tree.split(" ")  # not at other white space: "5 1/2" may be one word
    if pieces.count("(") != pieces.count(")"):
        brackets = f"{pieces.count('(')} '(' but {pieces.count(')')} ')'"
        raise ValueError(f"{source}: {brackets} in the binary parse {tree!r}")
    return [_unescape(piece) for piece in pieces if piece not in ("", "(", ")")]


def _unescape(word: str) -> str:
    return ESCAPES.get(word, word.replace("\\/", "/").replace("\\*", "*"))


def relabel(example: Example, names: Mapping[str, str]) -> Example | None:
    """An example by another corpus's labels; None if its label has no name there."""
    return replace(example, label=names[example.label]) if example.label in names else None


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """A batch of pairs."""
    labels = [
        NO_CLASS if example.label == UNLABELLED else vocab.label_id(example.label)
        for example in examples
    ]
    premise, hypothesis = (
        tokens([example.sentences[k] for example in examples], vocab) for k in (0, 1)
    )
    return Batch(premise, hypothesis, torch.tensor(labels), [example.gold for example in examples])


def write(examples: Sequence[Example], predictions: Sequence[str], path: Path) -> None:
    """Write `{"pairID": ..., "gold_label": ..., "predicted_label": ...}` a line."""
    with path.open("w", encoding="utf-8") as file:
        for example, predicted in zip(examples, predictions, strict=True):
            record = {
                "pairID": example.identity,
                "gold_label": example.gold,
                "predicted_label": predicted,
            }
            file.write(json.dumps(record) + "\n")


def read_predictions(path: Path, examples: Sequence[Example]) -> list[str]:
    """The predicted labels of a file of `write` or job=predict, in the examples' order.

    The file's own order is free.

    A record of job=predict is that of its pairID or, without one, of the gold file's same line;
    pairs without a gold label may have one too. Raises ValueError, with file and line, for a pairID
    that the examples have not, or that has no prediction, or several.
    """
    from_predict = is_predicted(path, "sentence1", "sentence2", "label")
    labels: dict[str, str] = {}
    pairs = {example.identity: example for example in examples}
    if len(pairs) < len(examples):
        raise ValueError(
            f"{examples[0].source}: {len(examples)} pairs, but only {len(pairs)} pairIDs"
        )
    for number, record in read_objects(path):
        identity = str(record.get("pairID"))
        label = record.get("label" if from_predict else "predicted_label")
        if from_predict:
            identity = identity if identity in pairs else str(record.get("line"))
            if identity not in pairs:
                continue
            pair = pairs[identity]
            for key, words in zip(("sentence1", "sentence2"), pair.sentences, strict=True):
                check_same(record, key, list(words), f"{path}:{number}", pair.source)
        if label not in LABELS:
            raise ValueError(
                f"{path}:{number}: predicted_label {label!r}, but it must be one of {list(LABELS)}"
            )
        if identity not in pairs:
            raise ValueError(f"{path}:{number}: pairID {identity!r} is not in the gold file")
        if identity in labels:
            raise ValueError(f"{path}:{number}: pairID {identity!r} already has a prediction")
        labels[identity] = label
    for example in examples:
        if example.identity not in labels:
            raise ValueError(
                f"{path}: no prediction for pairID {example.identity!r} of {example.source}"
            )
    return [labels[example.identity] for example in examples]


def parse(record: dict[str, Any], source: str) -> Example:
    """An unlabelled example from `{"sentence1": premise, "sentence2": hypothesis}`.

    Each sentence is text or a list of tokens.

    A record of SNLI itself will do; `pairID` may name the pair, else its place does. ValueError,
    with `source`, for anything else.
    """
    return _example(record, UNLABELLED, source, source)


def render(example: Example, prediction: str) -> dict[str, Any]:
    """A prediction as `{"pairID", "sentence1", "sentence2", "label"}`; sentences are tokens."""
    premise, hypothesis = (list(sentence) for sentence in example.sentences)
    return {
        "pairID": example.identity,
        "sentence1": premise,
        "sentence2": hypothesis,
        "label": prediction,
    }
