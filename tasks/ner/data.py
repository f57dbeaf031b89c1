"""Named entity recognition in columns, as in CoNLL-2003: word in the first, tag in the last; or in
CoNLL-2012 format (OntoNotes), which has names in column 11.

Training needs `read`, `collate` and `write`. The other functions are for other jobs:
`read_predictions` for job=score, `parse` and `render` for job=predict. `other_scores` has figures
beside the metric's.

Axes: B batch, T tokens.
"""

import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from pathlib import Path
from reprlib import repr as shown
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.nn import Tokens, tokens
from elmo_bench.terminal import counted_noun
from elmo_bench.text import (
    TAGS,
    Row,
    Span,
    Vocab,
    document_name,
    gold_of,
    is_tag,
    read_blocks,
    read_lines,
    spans_to_bioul,
    spans_to_iob2,
    tags_to_spans,
    words_of,
)
from elmo_bench.text.conll import WORD, is_conll2012, name_spans, read_documents

from .seqeval import seqeval_scores

log = logging.getLogger(__name__)
_NUMBER = re.compile(r"\d+([-.]\d+)?")


@dataclass(frozen=True)
class Example:
    """A sentence and its entities."""

    words: tuple[str, ...]
    entities: tuple[Span, ...]
    source: str
    document: int | str = 0  # number in the file, or name

    units = "document", "sentence"
    sought = "entity"

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [self.words]

    @property
    def group(self) -> tuple[str, ...]:
        """The document, by its name or by its number in a file, and the sentence."""
        return document_name(self.document, self.source), self.source

    @property
    def labels(self) -> list[str]:
        """All BIOUL tags of the entities' types, since entities of other examples may be longer."""
        labels = ["O"]
        for entity in self.entities:
            for prefix in "BILU":
                labels.append(f"{prefix}-{entity.label}")
        return labels

    @property
    def gold(self) -> list[str]:
        """The gold IOB2 tags, as the metric takes them."""
        return spans_to_iob2(self.entities, len(self.words))


class Batch(NamedTuple):
    """A batch: tokens, and label numbers of the BIOUL tags (0 at padding)."""

    tokens: Tokens
    tags: Int[Tensor, "B T"]


def read(path: Path, *, annotated: bool = False) -> Iterator[Example]:
    """Yield the sentences of a file.

    With `annotated`, a document in CoNLL-2012 format of which no part has a name is left out, and
    counted in the log; its parts must follow one another. Raises ValueError, with file and line,
    for a wrong number of columns, an empty word, a word with a space, or a tag of another form than
    `TAGS` (a TYPE has no spaces and no characters that cannot be seen).
    """
    if is_conll2012(path):
        yield from _of_conll2012(path, annotated=annotated)
    else:
        yield from _of_columns(path)


def _of_conll2012(path: Path, *, annotated: bool) -> Iterator[Example]:
    num_left_out = 0
    for _, parts in groupby(_all_of_conll2012(path), lambda sentence: sentence.document):
        sentences = list(parts)
        if annotated and not any(sentence.entities for sentence in sentences):
            num_left_out += 1
        else:
            yield from sentences
    if num_left_out:
        documents = counted_noun(num_left_out, "document")
        log.info("%s: leaves out %s without a name (annotated=true)", path, documents)


def _all_of_conll2012(path: Path) -> Iterator[Example]:
    for document in read_documents(path):
        for rows in document.sentences:
            words = tuple(row.columns[WORD] for row in rows)
            entities = tuple(name_spans(rows, path))
            yield Example(words, entities, f"{path}:{rows[0].line}", document.id)


def _of_columns(path: Path) -> Iterator[Example]:
    is_checked = False
    for rows in read_blocks(path):
        if not is_checked:
            _check_numbers(path, rows)
            is_checked = len(rows) > 1  # one word alone may be a number
        words = _words(path, rows)
        entities = tuple(tags_to_spans([row.columns[-1] for row in rows]))
        yield Example(words, entities, f"{path}:{rows[0].line}", rows[0].document)


def _check_numbers(path: Path, rows: Sequence[Row]) -> None:
    """Raise ValueError if the first column numbers the words."""
    firsts = [row.columns[0] for row in rows]
    numbers = [cell for cell in firsts if cell.isdecimal()]  # CoNLL-U also has 1-2 and 1.1
    from_0 = list(map(str, range(len(numbers))))
    from_1 = list(map(str, range(1, len(numbers) + 1)))
    are_numbers = numbers in (from_0, from_1) and all(map(_NUMBER.fullmatch, firsts))
    first = rows[0]
    if are_numbers and len(numbers) > 1 and len(first.columns) > 2:
        tag = _tag_column(rows) + 1
        has_tabs = any("\t" in line for number, line in read_lines(path) if number == first.line)
        options = " -F'\\t' -v OFS='\\t'" if has_tabs else ""
        raise ValueError(
            f"{path}:{first.line}: column 1 numbers the words, but it must have the words: "
            f"awk{options} '!/^#/ && $1 !~ /[-.]/ {{print $2, ${tag}}}' OLD > NEW keeps the "
            f"columns 2 and {tag}"
        )


def _tag_column(rows: Sequence[Row]) -> int:
    """Return the first column behind a number and a word that has only tags; else the last one."""
    last = len(rows[0].columns) - 1
    for column in range(2, last):
        if all(is_tag(row.columns[column]) for row in rows):
            return column
    return last


def _words(path: Path, rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the words of a sentence; raises ValueError for a word or tag of another form."""
    words = []
    for row in rows:
        word = row.columns[0]
        tag = row.columns[-1]
        if not word or " " in word:  # `write` could not write it
            raise ValueError(
                f"{path}:{row.line}: word {word!r}, but a word must not be empty or contain spaces"
            )
        if not is_tag(tag):
            raise ValueError(f"{path}:{row.line}: tag {shown(tag)}, but a tag must be {TAGS}")
        words.append(word)
    return tuple(words)


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of sentences."""
    sentences = [example.words for example in examples]
    tags = []
    for example in examples:
        bioul = spans_to_bioul(example.entities, len(example.words))
        tags.append(torch.tensor([vocab.label_id(tag) for tag in bioul]))
    return Batch(tokens(sentences, vocab), pad_sequence(tags, True))


def write(examples: Sequence[Example], predictions: Sequence[Sequence[str]], path: Path) -> None:
    """Write the input of conlleval: word, gold tag and predicted tag (IOB2), one word per line."""
    with path.open("w", encoding="utf-8") as file:
        for example, predicted in zip(examples, predictions, strict=True):
            for row in zip(example.words, example.gold, predicted, strict=True):
                file.write(" ".join(row) + "\n")
            file.write("\n")


def read_predictions(path: Path, examples: Sequence[Example]) -> list[list[str]]:
    """Read predicted tags, a file's last column; raises the errors of `gold_of` and `read`.

    They stay as they are, wrong ones too, unless a scheme has more prefixes than B- and I-: then
    they become IOB2.
    """
    as_iob2 = gold_of(path, list(read(path)), examples)
    if is_conll2012(path):
        return as_iob2
    as_written = []
    for rows in read_blocks(path):
        as_written.append([row.columns[-1] for row in rows])
    has_others = any(tag[0] not in "OBI" for tag in chain.from_iterable(as_written))
    return as_iob2 if has_others else as_written


def parse(record: dict[str, Any], source: str) -> Example:
    """Read an unlabelled sentence from `{"tokens": list}` or `{"text": text}`; else ValueError."""
    return Example(tuple(words_of(record, source)), (), source)


def render(example: Example, prediction: Sequence[str]) -> dict[str, Any]:
    """Return the JSON record of a prediction, `{"tokens": ..., "tags": ...}`, with IOB2 tags."""
    return {"tokens": list(example.words), "tags": list(prediction)}


def other_scores(
    examples: Sequence[Example], predictions: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Return the figures of seqeval, by the names of `seqeval_scores`."""
    return seqeval_scores(predictions, [example.gold for example in examples])
