"""Named entity recognition in CoNLL-2003 format: word in the first column, IOB tag in the last.

Axes: B batch, T tokens.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from reprlib import repr as shown
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
    document: int = 0  # number in the file

    units = "document", "sentence"

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [self.words]

    @property
    def group(self) -> tuple[str, ...]:
        """The document and the sentence."""
        return str(self.document), self.source

    @property
    def labels(self) -> list[str]:
        """All BIOUL tags of the entities' types, since entities of other examples may be longer."""
        return ["O", *(f"{prefix}-{entity.label}" for entity in self.entities for prefix in "BILU")]

    @property
    def gold(self) -> list[str]:
        """The gold IOB2 tags, as the metric takes them."""
        return spans_to_iob2(self.entities, len(self.words))


class Batch(NamedTuple):
    """A batch: tokens, and label numbers of the BIOUL tags (0 at padding)."""

    tokens: Tokens
    tags: Int[Tensor, "B T"]


def read(path: Path) -> Iterator[Example]:
    """Yield the sentences of a file.

    Raises ValueError, with file and line, for a wrong number of columns, an empty word, a word with
    a space, or a tag that is not O, B-TYPE or I-TYPE (a TYPE has no spaces and no characters that
    cannot be seen).
    """
    for rows in read_blocks(path):
        _check(path, rows)
        entities = tags_to_spans([row.columns[-1] for row in rows])
        words, first = tuple(row.columns[0] for row in rows), rows[0]
        yield Example(words, tuple(entities), f"{path}:{first.line}", first.document)


def _check(path: Path, rows: Sequence[Row]) -> None:
    for row in rows:
        if not row.columns[0] or " " in row.columns[0]:  # `write` could not write it
            raise ValueError(
                f"{path}:{row.line}: word {row.columns[0]!r}, but a word must not be empty "
                "or contain spaces"
            )
        tag = row.columns[-1]
        if not re.fullmatch(r"O|[BI]-\S+", tag) or not tag.isprintable():
            raise ValueError(
                f"{path}:{row.line}: tag {shown(tag)}, but a tag must be O, B-TYPE or I-TYPE"
            )


def relabel(example: Example, names: Mapping[str, str]) -> Example:
    """Rename the entity types of an example; entities whose type is not in `names` are dropped."""
    entities = (
        span._replace(label=names[span.label]) for span in example.entities if span.label in names
    )
    return replace(example, entities=tuple(entities))


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of sentences."""
    sentences = [example.words for example in examples]
    tags = [spans_to_bioul(example.entities, len(example.words)) for example in examples]
    numbers = [torch.tensor([vocab.label_id(tag) for tag in row]) for row in tags]
    return Batch(tokens(sentences, vocab), pad_sequence(numbers, True))


def read_predictions(path: Path, examples: Sequence[Example]) -> list[list[str]]:
    """Read the predicted tags from a file written by `write` (last column) or job=predict.

    Raises ValueError if its sentences differ from those of the examples, with file and line, or if
    their number does, with the file.
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
    """Write the input of conlleval: word, gold tag and predicted tag (IOB2), one word per line."""
    with path.open("w", encoding="utf-8") as file:
        for example, predicted in zip(examples, predictions, strict=True):
            for row in zip(example.words, example.gold, predicted, strict=True):
                file.write(" ".join(row) + "\n")
            file.write("\n")


def parse(record: dict[str, Any], source: str) -> Example:
    """Read an unlabelled sentence from `{"tokens": list}` or `{"text": text}`.

    Raises ValueError, with `source`, for any other record.
    """
    return Example(tuple(words_of(record, source)), (), source)


def render(example: Example, prediction: Sequence[str]) -> dict[str, Any]:
    """Return the JSON record of a prediction, `{"tokens": ..., "tags": ...}`, with IOB2 tags."""
    return {"tokens": list(example.words), "tags": list(prediction)}
