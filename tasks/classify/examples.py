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
        return [joined(*self.texts)] if self.joint else [*self.texts]

    @property
    def labels(self) -> list[str]:
        return [*self.known, *([self.gold] if isinstance(self.gold, str) else [])]


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
    gold = [NO_CLASS if each.gold is None else each.gold for each in examples]
    numbers = [vocab.label_id(each) if isinstance(each, str) else each for each in gold]
    sides = list(zip(*(example.sentences for example in examples), strict=True))
    first, *second = (tokens(sentences, vocab) for sentences in sides)
    words = [torch.tensor([word not in (SUMMARY, BREAK) for word in row]) for row in sides[0]]
    is_word = pad_sequence(words, True)
    return Batch(first, second[0] if second else None, torch.tensor(numbers), is_word)


def write(examples: Sequence[Example], predictions: Sequence[Any], path: Path) -> None:
    r"""Write gold, prediction and the words of each text, separated by tabs, an example a line.

    `awk -F'\t' '$1 == $2 {n++} END {print n / NR}' FILE` is the accuracy.
    """
    with path.open("w", encoding="utf-8") as file:
        for example, predicted in zip(examples, predictions, strict=True):
            texts = map(" ".join, example.texts)
            file.write("\t".join([str(example.gold), str(predicted), *texts]) + "\n")


def read_predictions(
    path: Path, examples: Sequence[Example], labels: Sequence[str] = ()
) -> list[Any]:
    """Read the predictions from a file written by `write`; labels must be among `labels`, if given.

    Raises ValueError if its texts or gold differ from those of the examples, or for a prediction of
    another kind, with file and line, or if their number does, with the file.
    """
    predictions: list[Any] = []
    for (number, line), example in paired(path, [*read_lines(path)], examples):
        gold, cell, texts = [*line.split("\t", 2), "", ""][:3]
        is_score = isinstance(example.gold, float)
        found = finite(cell) if is_score else cell if cell and cell.isprintable() else None
        same = (gold, texts) == (str(example.gold), "\t".join(map(" ".join, example.texts)))
        if not same or found is None or (labels and found not in labels):
            wanted = (
                f"one of {', '.join(labels)}" if labels else "a score" if is_score else "a label"
            )
            raise ValueError(
                f"{path}:{number}: {shown(line)}, but it must have these columns: {example.gold}, "
                f"{wanted}, and the words of {example.source}; check that task.classes and "
                "data.columns are the same as in the run"
            )
        predictions.append(found)
    return predictions


def finite(value: Any) -> float | None:
    """Return a finite number, which may be text; None for any other value."""
    try:
        number = float("nan" if isinstance(value, bool) or "_" in str(value) else value)
    except (TypeError, ValueError):
        return None
    return number if isfinite(number) else None
