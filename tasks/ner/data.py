"""Named entities in the columns of CoNLL-2003: word first, tag last, IOB1 or IOB2.

Axes: B batch, T tokens.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.nn import Tokens, tokens
from elmo_bench.text import (
    Row,
    Span,
    Vocab,
    check_same,
    is_predicted,
    paired,
    read_blocks,
    spans_to_bioul,
    spans_to_iob2,
    tags_of,
    tags_to_spans,
    words_of,
)


@dataclass(frozen=True)
class Example:
    """A sentence and its entities."""

    words: tuple[str, ...]
    entities: tuple[Span, ...]
    source: str

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [self.words]

    @property
    def group(self) -> tuple[str, ...]:
        """The sentence."""
        return (self.source,)

    @property
    def labels(self) -> list[str]:
        """Every tag of the entities' types: an entity may be of any length elsewhere."""
        return ["O", *(f"{prefix}-{entity.label}" for entity in self.entities for prefix in "BILU")]

    @property
    def gold(self) -> list[str]:
        """IOB2 tags: what the metric compares predictions with."""
        return spans_to_iob2(self.entities, len(self.words))


class Batch(NamedTuple):
    """Sentences, the numbers of their BIOUL tags, and their IOB2 tags."""

    tokens: Tokens
    tags: Int[Tensor, "B T"]
    gold: list[list[str]]


def read(path: Path) -> Iterator[Example]:
    """Yield a file's sentences.

    Raises ValueError, with file and line, for a tag that is not O, B-TYPE or I-TYPE.
    """
    for rows in read_blocks(path):
        _check(path, rows)
        entities = tags_to_spans([row.columns[-1] for row in rows])
        yield Example(
            tuple(row.columns[0] for row in rows), tuple(entities), f"{path}:{rows[0].line}"
        )


def _check(path: Path, rows: Sequence[Row]) -> None:
    for row in rows:
        if not row.columns[0] or " " in row.columns[0]:  # `write` could not write it
            raise ValueError(
                f"{path}:{row.line}: word {row.columns[0]!r}, but a word must not be empty "
                "or contain spaces"
            )
        if not re.fullmatch("O|[BI]-.+", row.columns[-1]):
            raise ValueError(
                f"{path}:{row.line}: tag {row.columns[-1]!r}, but a tag must be O, B-TYPE or I-TYPE"
            )


def relabel(example: Example, names: Mapping[str, str]) -> Example:
    """An example by another corpus's labels; entities without a name there are left out."""
    entities = (
        span._replace(label=names[span.label]) for span in example.entities if span.label in names
    )
    return replace(example, entities=tuple(entities))


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """A batch of sentences."""
    sentences = [example.words for example in examples]
    tags = [spans_to_bioul(example.entities, len(example.words)) for example in examples]
    numbers = [torch.tensor([vocab.label_id(tag) for tag in row]) for row in tags]
    gold = [example.gold for example in examples]
    return Batch(tokens(sentences, vocab), pad_sequence(numbers, True), gold)


def read_predictions(path: Path, examples: Sequence[Example]) -> list[list[str]]:
    """The predicted tags of a file of `write` (its last column) or of job=predict.

    Raises ValueError, with file and line, where its sentences are not the examples'.
    """
    if is_predicted(path, "tokens", "tags"):
        return [_predicted(*pair) for pair in paired(path, examples)]
    blocks = list(read_blocks(path))
    if len(blocks) != len(examples):
        raise ValueError(f"{path}: {len(blocks)} sentences, but the gold file has {len(examples)}")
    for rows, example in zip(blocks, examples, strict=True):
        words = tuple(row.columns[0] for row in rows)
        if words != example.words:
            raise ValueError(
                f"{path}:{rows[0].line}: the sentence {' '.join(words)!r}, but {example.source} "
                f"has {' '.join(example.words)!r}"
            )
        _check(path, rows)
    return [[row.columns[-1] for row in rows] for rows in blocks]


def _predicted(record: dict[str, Any], source: str, example: Example) -> list[str]:
    check_same(record, "tokens", list(example.words), source, example.source)
    return tags_of(record, len(example.words), source)


def write(examples: Sequence[Example], predictions: Sequence[Sequence[str]], path: Path) -> None:
    """Write what conlleval reads: word, gold tag and predicted tag (IOB2) a line."""
    with path.open("w", encoding="utf-8") as file:
        for example, predicted in zip(examples, predictions, strict=True):
            for row in zip(example.words, example.gold, predicted, strict=True):
                file.write(" ".join(row) + "\n")
            file.write("\n")


def parse(record: dict[str, Any], source: str) -> Example:
    """An unlabelled sentence from `{"tokens": list}` or `{"text": text}`; else ValueError."""
    return Example(tuple(words_of(record, source)), (), source)


def render(example: Example, prediction: Sequence[str]) -> dict[str, Any]:
    """A prediction as `{"tokens": ..., "tags": ...}`, an IOB2 tag for each token."""
    return {"tokens": list(example.words), "tags": list(prediction)}
