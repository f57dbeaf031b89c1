"""Semantic role labelling in CoNLL-2012 format: one example for each predicate of a sentence.

Axes: B batch, T tokens.
"""

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.nn import Tokens, tokens
from elmo_bench.text import (
    BRACKETS,
    Row,
    Span,
    Vocab,
    bracket_spans,
    check_same,
    is_predicted,
    paired,
    read_documents,
    read_lines,
    spans_to_iob2,
    tags_of,
    tags_to_spans,
    words_of,
)

log = logging.getLogger(__name__)

WORD, LEMMA, ROLESET, FIRST_PREDICATE = 3, 6, 7, 11  # columns
_GAP = re.compile("[ \t]+")  # between columns, as in CoNLL-2012; roles may contain other spaces


@dataclass(frozen=True)
class Example:
    """A sentence, the positions of its predicate's words (may be empty), and arguments with V."""

    words: tuple[str, ...]
    predicate: tuple[int, ...]
    lemma: str
    arguments: tuple[Span, ...]
    source: str  # file and first line of the sentence, shared by its predicates
    written: tuple[str, ...] = ()  # the words as in the input of job=predict
    document: str = ""

    units = "document", "sentence"

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [self.words]

    @property
    def group(self) -> tuple[str, ...]:
        """The document and the sentence."""
        return self.document, self.source

    @property
    def labels(self) -> list[str]:
        """All BIO tags of the roles, with the C- and R- forms that other examples may have."""
        roles = {argument.label for argument in self.arguments}
        bare = {role.removeprefix("C-").removeprefix("R-") for role in roles}
        roles |= {
            f"{prefix}{role}"
            for role in bare
            for prefix in (("", "C-") if role == "V" else ("", "C-", "R-"))
        }
        return ["O", *(f"{prefix}-{role}" for role in sorted(roles) for prefix in "BI")]

    @property
    def gold(self) -> list[str]:
        """The gold IOB2 tags, as the metric takes them."""
        return spans_to_iob2(self.arguments, len(self.words))


class Batch(NamedTuple):
    """A batch: tokens, mask of the predicate's words, and label numbers of the tags."""

    tokens: Tokens
    predicate: Bool[Tensor, "B T"]
    tags: Int[Tensor, "B T"]


def read(path: Path) -> Iterator[Example]:
    """Yield an example for each predicate, and one, all O, for a sentence without predicates.

    As in AllenNLP's reader of OntoNotes, an argument column of `*` alone is no predicate. Logs the
    number of sentences with more rolesets than predicates, which are incomplete. Raises ValueError,
    with file and line, for a violation of the format, and for arguments without `(V*`.
    """
    num_incomplete = 0
    for document in read_documents(path):
        for rows in document.sentences:
            words, source = tuple(row.columns[WORD] for row in rows), f"{path}:{rows[0].line}"
            columns = [
                column
                for column in range(FIRST_PREDICATE, len(rows[0].columns) - 1)
                if any(row.columns[column] != "*" for row in rows)
            ]
            num_incomplete += sum(row.columns[ROLESET] != "-" for row in rows) > len(columns)
            for column in columns:
                arguments = tuple(bracket_spans(rows, column, path))
                if all(argument.label != "V" for argument in arguments):
                    raise ValueError(
                        f"{source}: column {column + 1}, the arguments of a predicate, has no (V*"
                    )
                predicate = _predicate(arguments)
                lemma = _lemma(rows, predicate)
                yield Example(words, predicate, lemma, arguments, source, document=document.id)
            if not columns:
                yield Example(words, (), "-", (), source, document=document.id)
    if num_incomplete:
        log.warning(
            "%s: %d sentences have more rolesets (column %d) than columns of arguments",
            path,
            num_incomplete,
            ROLESET + 1,
        )


def _predicate(arguments: Sequence[Span]) -> tuple[int, ...]:
    """Return the positions of the words of V and C-V."""
    return tuple(
        k for role, start, end in arguments if role in ("V", "C-V") for k in range(start, end + 1)
    )


def _lemma(rows: Sequence[Row], predicate: Sequence[int]) -> str:
    """Return the lemma given at any word of the predicate, or else its first word."""
    lemmas = [rows[position].columns[LEMMA] for position in predicate]
    return next((lemma for lemma in lemmas if lemma != "-"), rows[predicate[0]].columns[WORD])


def complete_labels(labels: Mapping[str, str | Sequence[str]]) -> dict[str, str | Sequence[str]]:
    """Complete `data.labels` with the predicate's V and C-V, and with C- and R- of each role.

    >>> complete_labels({"ARG0": ["A0", "A9"]})["C-ARG0"]
    ['C-A0', 'C-A9']
    """
    listed = {
        ours: [names] if isinstance(names, str) else list(names) for ours, names in labels.items()
    }
    prefixed = {
        f"{prefix}-{ours}": [f"{prefix}-{name}" for name in names]
        for ours, names in listed.items()
        for prefix in "CR"
    }
    return {"V": "V", "C-V": "C-V", **prefixed, **labels}


def relabel(example: Example, names: Mapping[str, str]) -> Example:
    """Rename the roles of an example; arguments whose role is not in `names` are dropped."""
    arguments = (
        span._replace(label=names[span.label]) for span in example.arguments if span.label in names
    )
    return replace(example, arguments=tuple(arguments))


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of sentences, each with one predicate."""
    batch = tokens([example.words for example in examples], vocab)
    predicate = torch.zeros_like(batch.mask)
    for row, example in enumerate(examples):
        predicate[row, list(example.predicate)] = True
    tags = [torch.tensor([vocab.label_id(tag) for tag in example.gold]) for example in examples]
    return Batch(batch, predicate, pad_sequence(tags, True))


def write(examples: Sequence[Example], predictions: Sequence[Sequence[str]], path: Path) -> None:
    """Write the input of srl-eval.pl (CoNLL-2005): lemmas, and a column for each predicate.

    The lemma - is written as _, since - means that a word is no predicate. srl-eval.pl also needs a
    gold file: `write(examples, [example.gold for example in examples], path)`.
    """
    cells = iter([_brackets(tags) for _, tags in zip(examples, predictions, strict=True)])
    with path.open("w", encoding="utf-8") as file:
        for sentence in _sentences(examples):
            lemmas, columns = ["-"] * len(sentence[0].words), []
            for example in sentence:
                column = next(cells)
                if example.predicate:
                    lemmas[example.predicate[0]] = "_" if example.lemma == "-" else example.lemma
                    columns.append(column)
            file.writelines(" ".join(row) + "\n" for row in zip(lemmas, *columns, strict=True))
            file.write("\n")


def _sentences(examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Group consecutive examples of the same sentence, with their predicates in text order.

    srl-eval.pl finds predicates by the first column. The sentence is therefore repeated for a
    second predicate that begins at the same word (EWT has two xray at "x - rays").
    """
    group: list[Example] = []
    for example in examples:
        last = group[-1] if group else None
        if last and (last.source != example.source or last.predicate[:1] >= example.predicate[:1]):
            yield group
            group = []
        group.append(example)
    if group:
        yield group


def _brackets(tags: Sequence[str]) -> list[str]:
    """Convert IOB2 tags to brackets: `(X*`, `*`, `*)` and `(X*)`."""
    cells = ["*"] * len(tags)
    for role, start, end in tags_to_spans(tags):
        cells[start] = f"({role}{cells[start]}"
        cells[end] += ")"
    return cells


def read_predictions(path: Path, examples: Sequence[Example]) -> list[list[str]]:
    """Read the predicted tags from a file written by `write` or job=predict.

    job=predict writes no records for sentences without a predicate; their tags are all O. Raises
    ValueError if words or predicates differ from those of the examples, with file and line, or if
    sentences are missing at the end, with the file.
    """
    if is_predicted(path, "tokens", "predicate", "tags"):
        with_predicate = [example for example in examples if example.predicate]
        answers = iter([_predicted(*pair) for pair in paired(path, with_predicate)])
        return [
            next(answers) if example.predicate else ["O"] * len(example.words)
            for example in examples
        ]
    blocks, predictions = _blocks(path), []
    for sentence in _sentences(examples):
        rows = next(blocks, None)
        if rows is None:
            raise ValueError(f"{path}: the file ends before the sentence of {sentence[0].source}")
        _check_fit(rows, sentence, path)
        for column, example in enumerate(sentence, 1):
            spans = bracket_spans(rows, column, path) if example.predicate else []
            predictions.append(spans_to_iob2(spans, len(rows)))
    for rows in blocks:
        raise ValueError(
            f"{path}:{rows[0].line}: more sentences than the gold file, which ends at "
            f"{examples[-1].source}"
        )
    return predictions


def _predicted(record: dict[str, Any], source: str, example: Example) -> list[str]:
    check_same(record, "tokens", list(example.words), source, example.source)
    check_same(record, "predicate", list(example.predicate), source, example.source)
    return tags_of(record, len(example.words), source)


def _blocks(path: Path) -> Iterator[list[Row]]:
    block: list[Row] = []
    for number, line in read_lines(path):
        if cells := line.strip(" \t"):
            block.append(Row(number, _GAP.split(cells)))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _check_fit(rows: Sequence[Row], sentence: Sequence[Example], path: Path) -> None:
    """Raise ValueError unless the rows have the words and predicates of one sentence's examples."""
    example, where = sentence[0], f"{path}:{rows[0].line}"
    length = len(example.words)
    if len(rows) != length:
        raise ValueError(
            f"{where}: a sentence of {len(rows)} words, but {example.source} has {length}"
        )
    expected = [other.predicate[0] for other in sentence if other.predicate]
    for row in rows:
        if len(row.columns) != 1 + len(expected):
            raise ValueError(
                f"{path}:{row.line}: {len(row.columns)} columns, but it must have "
                f"{1 + len(expected)}, since {example.source} has {len(expected)} predicates"
            )
    predicates = [position for position, row in enumerate(rows) if row.columns[0] != "-"]
    if predicates != expected:
        raise ValueError(
            f"{where}: predicates at words {predicates}, but {example.source} has them at "
            f"{expected} (from 0)"
        )


def parse(record: dict[str, Any], source: str) -> Example:
    """Read an unlabelled example from `{"tokens": list or "text": text, "predicate": position}`.

    `predicate` is the position of the predicate's word (from 0), a list of positions, or a word
    that occurs once. It is required, since each predicate of a sentence has its own arguments. The
    model reads the brackets of a text as the treebank's. Raises ValueError, with `source`, for any
    other record.
    """
    written = tuple(words_of(record, source))
    predicate = _positions(record.get("predicate"), written, source)
    words = written
    if record.get("tokens") is None:
        words = tuple(word.translate(BRACKETS) for word in written)
    return Example(words, predicate, words[predicate[0]], (), source, written)


def _positions(predicate: object, words: Sequence[str], source: str) -> tuple[int, ...]:
    positions = predicate if isinstance(predicate, list) else [predicate]
    if isinstance(predicate, str):
        positions = [position for position, word in enumerate(words) if word == predicate]
        if len(positions) != 1:
            raise ValueError(
                f"{source}: predicate {predicate!r} is at positions {positions} of "
                f"{list(words)}, but it must occur once"
            )
    if not positions or any(type(k) is not int or not 0 <= k < len(words) for k in positions):
        raise ValueError(
            f"{source}: predicate {predicate!r}, but it must be a position, 0 to "
            f"{len(words) - 1}, a list of positions, or a word"
        )
    return tuple(sorted(positions))


def render(example: Example, prediction: Sequence[str]) -> dict[str, Any]:
    """Return a prediction as JSON: `{"tokens", "predicate": positions, "tags": IOB2 tags}`."""
    return {
        "tokens": list(example.written or example.words),
        "predicate": list(example.predicate),
        "tags": list(prediction),
    }
