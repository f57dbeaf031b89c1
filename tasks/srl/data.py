"""Semantic role labelling in CoNLL-2012 format: one example for each predicate of a sentence.

Axes: B batch, T tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
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
    paired,
    read_lines,
    spans_to_iob2,
    tags_to_spans,
    words_of,
)
from elmo_bench.text.conll import FIRST_PREDICATE, GAP, LEMMA, WORD, bracket_spans, read_documents


@dataclass(frozen=True)
class Example:
    """A sentence, the positions of its predicate's words (may be empty), and arguments with V."""

    words: tuple[str, ...]
    predicate: tuple[int, ...]
    lemma: str
    arguments: tuple[Span, ...]
    source: str  # file and first line of the sentence, shared by its predicates
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
        roles = set()
        for argument in self.arguments:
            role = argument.label.removeprefix("C-").removeprefix("R-")
            roles.add(argument.label)
            roles.add(role)
            roles.add(f"C-{role}")
            if role != "V":
                roles.add(f"R-{role}")
        labels = ["O"]
        for role in sorted(roles):
            labels.append(f"B-{role}")
            labels.append(f"I-{role}")
        return labels

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

    As in AllenNLP's reader of OntoNotes, an argument column of only `*` is no predicate. Raises
    ValueError, with file and line, for a violation of the format, and for arguments without `(V*`.
    """
    for document in read_documents(path):
        for rows in document.sentences:
            yield from _examples(rows, document.id, path)


def _examples(rows: Sequence[Row], document: str, path: Path) -> Iterator[Example]:
    """Yield the examples of a sentence; a predicate is the words of its V and C-V."""
    words = tuple(row.columns[WORD] for row in rows)
    source = f"{path}:{rows[0].line}"
    has_predicate = False
    for column in range(FIRST_PREDICATE, len(rows[0].columns) - 1):
        arguments = bracket_spans(rows, column, path)
        if not arguments:
            continue
        has_predicate = True
        if all(role != "V" for role, _, _ in arguments):
            raise ValueError(
                f"{source}: column {column + 1}, the arguments of a predicate, has no (V*"
            )
        predicate: list[int] = []
        for role, start, end in arguments:
            if role in ("V", "C-V"):
                predicate.extend(range(start, end + 1))
        lemma = _lemma(rows, predicate)
        yield Example(words, tuple(predicate), lemma, tuple(arguments), source, document)
    if not has_predicate:
        yield Example(words, (), "-", (), source, document)


def _lemma(rows: Sequence[Row], predicate: Sequence[int]) -> str:
    """Return the first lemma of a predicate's words, or its first word if none has a lemma."""
    for position in predicate:
        lemma = rows[position].columns[LEMMA]
        if lemma != "-":
            return lemma
    return rows[predicate[0]].columns[WORD]


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of sentences, each with one predicate."""
    sentences = tokens([example.words for example in examples], vocab)
    predicate = torch.zeros_like(sentences.mask)
    tags = []
    for row, example in enumerate(examples):
        predicate[row, list(example.predicate)] = True
        tags.append(torch.tensor([vocab.label_id(tag) for tag in example.gold]))
    return Batch(sentences, predicate, pad_sequence(tags, True))


def write(examples: Sequence[Example], predictions: Sequence[Sequence[str]], path: Path) -> None:
    """Write the input of srl-eval.pl (CoNLL-2005): lemmas, and a column for each predicate.

    The lemma - is written as _, since - means that a word is no predicate. srl-eval.pl also needs a
    gold file: `write(examples, [example.gold for example in examples], path)`.
    """
    pairs = zip(examples, predictions, strict=True)
    brackets = iter([_brackets(tags) for _, tags in pairs])
    with path.open("w", encoding="utf-8") as file:
        for sentence in _sentences(examples):
            lemmas = ["-"] * len(sentence[0].words)
            columns = []
            for example in sentence:
                column = next(brackets)
                if example.predicate:
                    lemmas[example.predicate[0]] = "_" if example.lemma == "-" else example.lemma
                    columns.append(column)
            for row in zip(lemmas, *columns, strict=True):
                file.write(" ".join(row) + "\n")
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
    """Read the predicted tags from a file written by `write`.

    Raises ValueError if words or predicates differ from those of the examples, with file and line,
    or if the number of sentences does, with the file.
    """
    predictions = []
    for rows, sentence in paired(path, _blocks(path), list(_sentences(examples))):
        _check_fit(rows, sentence, path)
        for column, example in enumerate(sentence, 1):
            spans = bracket_spans(rows, column, path) if example.predicate else []
            predictions.append(spans_to_iob2(spans, len(rows)))
    return predictions


def _blocks(path: Path) -> list[list[Row]]:
    """Return the rows of each sentence in a file written by `write`."""
    blocks = []
    for is_sentence, lines in groupby(read_lines(path), lambda line: line[1].strip(" \t") != ""):
        if is_sentence:
            blocks.append([Row(number, GAP.split(line.strip(" \t"))) for number, line in lines])
    return blocks


def _check_fit(rows: Sequence[Row], sentence: Sequence[Example], path: Path) -> None:
    """Raise ValueError unless the rows have the words and predicates of one sentence's examples."""
    expected = [example.predicate[0] for example in sentence if example.predicate]
    predicates = [position for position, row in enumerate(rows) if row.columns[0] != "-"]
    widths = {len(row.columns) for row in rows}
    count = len(sentence[0].words)
    if (len(rows), predicates, widths) != (count, expected, {1 + len(expected)}):
        raise ValueError(
            f"{path}:{rows[0].line}: a sentence of {len(rows)} words with predicates at "
            f"{predicates} and {sorted(widths)} columns, but {sentence[0].source} has {count} "
            f"words, predicates at {expected} (from 0), and so {1 + len(expected)} columns"
        )


def parse(record: dict[str, Any], source: str) -> Example:
    """Read an unlabelled example from `{"tokens": list or "text": text, "predicate": position}`.

    `predicate` is the position of the predicate's word (from 0), a list of positions, or a word
    that occurs once. It is required, since each predicate of a sentence has its own arguments.
    The brackets of a text become the treebank's. Raises ValueError, with `source`, for any other
    record.
    """
    words = tuple(words_of(record, source))
    if record.get("tokens") is None:
        words = tuple(word.translate(BRACKETS) for word in words)
    given = record.get("predicate")
    positions: list[Any] = given if isinstance(given, list) else [given]
    if isinstance(given, str):
        positions = [words.index(given)] if words.count(given) == 1 else []
    if not (positions and all(type(k) is int and 0 <= k < len(words) for k in positions)):
        raise ValueError(
            f"{source}: predicate {given!r} of {list(words)}, but it must be a position, 0 to "
            f"{len(words) - 1}, a list of positions, or a word that occurs once"
        )
    return Example(words, tuple(sorted(positions)), words[min(positions)], (), source)


def render(example: Example, prediction: Sequence[str]) -> dict[str, Any]:
    """Return a prediction as JSON: `{"tokens", "predicate": positions, "tags": IOB2 tags}`."""
    return {
        "tokens": list(example.words),
        "predicate": list(example.predicate),
        "tags": list(prediction),
    }
