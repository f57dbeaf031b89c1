"""Examples of text classification, of whatever file format: one text or two, and a label or a
score.

Axes: B batch, T tokens.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from reprlib import repr as shown
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.nn import Tokens, tokens
from elmo_bench.text import BREAK, SUMMARY, Vocab, joined, paired, read_lines

NO_CLASS = -100  # the ignore_index of cross-entropy
UNWRITABLE = re.compile("[\t\n\r\ud800-\udfff]")  # what `write` cannot write as a part of a word


@dataclass(frozen=True)
class Example:
    """One text or two, and their label or score; None if unknown. With `joint`, they are one
    sentence with marks (`elmo_bench/text/joined.py`).
    """

    texts: tuple[tuple[str, ...], ...]
    gold: str | float | None
    source: str
    group: tuple[str, ...]
    units: tuple[str, ...]
    joint: bool = False
    known: tuple[str, ...] = ()  # labels that others may have

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        if self.joint:
            return [joined(*self.texts)]
        return list(self.texts)

    @property
    def labels(self) -> list[str]:
        labels = list(self.known)
        if isinstance(self.gold, str):
            labels.append(self.gold)
        return labels


class Batch(NamedTuple):
    """A batch: first texts, second texts if there are any that are read apart, numbers of labels or
    scores, and which tokens of `first` are words, not marks.
    """

    first: Tokens
    second: Tokens | None
    gold: Int[Tensor, " B"] | Float[Tensor, " B"]
    is_word: Bool[Tensor, "B T"]


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of examples, all of one text or all of two."""
    gold = [_number(example, vocab) for example in examples]
    sentences = [example.sentences for example in examples]
    sides = list(zip(*sentences, strict=True))
    first = tokens(sides[0], vocab)
    second = tokens(sides[1], vocab) if len(sides) > 1 else None
    are_words = []
    for sentence in sides[0]:
        are_words.append(torch.tensor([word not in (SUMMARY, BREAK) for word in sentence]))
    return Batch(first, second, torch.tensor(gold), pad_sequence(are_words, True))


def _number(example: Example, vocab: Vocab) -> int | float:
    """Return the number of an example's label, or its score."""
    if example.gold is None:
        return NO_CLASS
    if isinstance(example.gold, str):
        return vocab.label_id(example.gold)
    return example.gold


def write(examples: Sequence[Example], predictions: Sequence[Any], path: Path) -> None:
    r"""Write gold, prediction and the words of each text, separated by tabs, an example a line.

    `awk -F'\t' '$1 == $2 {n++} END {print n / NR}' FILE` is the accuracy.
    """
    with path.open("w", encoding="utf-8") as file:
        for example, predicted in zip(examples, predictions, strict=True):
            file.write(f"{example.gold}\t{predicted}\t{_texts(example)}\n")


def _texts(example: Example) -> str:
    """Return the texts of an example as `write` writes them."""
    return "\t".join(map(" ".join, example.texts))


def read_predictions(
    path: Path, examples: Sequence[Example], labels: Sequence[str] = ()
) -> list[Any]:
    """Read the predictions from a file written by `write`; labels must be among `labels`, if given.

    Raises ValueError if its texts or gold differ from those of the examples, or for a prediction of
    another kind, with file and line, or if their number does, with the file.
    """
    predictions: list[Any] = []
    for (number, line), example in paired(path, list(read_lines(path)), examples):
        gold, _, rest = line.partition("\t")
        cell, _, texts = rest.partition("\t")
        predicted: Any = None
        if isinstance(example.gold, float):
            predicted = finite(cell)
        elif is_label(cell) and (cell in labels or not labels):
            predicted = cell
        is_same = gold == str(example.gold) and texts == _texts(example)
        if not is_same or predicted is None:
            raise ValueError(
                f"{path}:{number}: {shown(line)}, but it must have these columns: {example.gold}, "
                f"{_wanted(example, labels)}, and the words of {example.source}; check that "
                "task.classes and data.columns are the same as in the run"
            )
        predictions.append(predicted)
    return predictions


def _wanted(example: Example, labels: Sequence[str]) -> str:
    """Say what may be predicted for an example."""
    if labels:
        return f"one of {', '.join(labels)}"
    if isinstance(example.gold, float):
        return "a score"
    return "a label"


def is_label(text: str) -> bool:
    """Whether a text is not empty, and all of it can be seen."""
    return text != "" and text.isprintable()


def finite(value: Any) -> float | None:
    """Return a finite number, which may be text; None for any other value."""
    try:
        if isinstance(value, bool) or "_" in str(value):  # Python also reads 1_000
            return None
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if isfinite(number) else None
