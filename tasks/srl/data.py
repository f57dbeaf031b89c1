"""PropBank roles in the columns of CoNLL-2012: one example for each predicate of a sentence.

Axes: B batch, T tokens.
"""

import logging
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


@dataclass(frozen=True)
class Example:
    """A sentence, the positions of a predicate's words (maybe none), and the arguments with V."""

    words: tuple[str, ...]
    predicate: tuple[int, ...]
    lemma: str
    arguments: tuple[Span, ...]
    source: str  # the sentence's first line, the same for all its predicates

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [self.words]

    @property
    def group(self) -> tuple[str, ...]:
        """The sentence, which all its predicates share."""
        return (self.source,)

    @property
    def labels(self) -> list[str]:
        """Every tag of the roles: elsewhere one may be continued (C-) or referred to (R-)."""
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
        """IOB2 tags: what the metric compares predictions with."""
        return spans_to_iob2(self.arguments, len(self.words))


class Batch(NamedTuple):
    """Sentences, which words are the predicate's, the numbers of the tags, and the tags."""

    tokens: Tokens
    predicate: Bool[Tensor, "B T"]
    tags: Int[Tensor, "B T"]
    gold: list[list[str]]


def read(path: Path) -> Iterator[Example]:
    """Yield an example for each predicate, and one, all O, for a sentence without predicates.

    A sentence with more rolesets than columns of arguments lacks predicates: such sentences are
    counted, and the count is logged. Raises ValueError, with file and line, for what CoNLL-2012
    does not allow, and for a predicate's column without `(V*`.
    """
    lacking = 0
    for document in read_documents(path):
        for rows in document.sentences:
            words, source = tuple(row.columns[WORD] for row in rows), f"{path}:{rows[0].line}"
            columns = range(FIRST_PREDICATE, len(rows[0].columns) - 1)
            lacking += sum(row.columns[ROLESET] != "-" for row in rows) > len(columns)
            for column in columns:
                arguments = tuple(bracket_spans(rows, column, path))
                if all(argument.label != "V" for argument in arguments):
                    raise ValueError(
                        f"{source}: column {column + 1}, the arguments of a predicate, has no (V*"
                    )
                predicate = _predicate(arguments)
                yield Example(words, predicate, _lemma(rows, predicate), arguments, source)
            if not columns:
                yield Example(words, (), "-", (), source)
    if lacking:
        log.warning(
            "%s: %d sentences have more rolesets (column %d) than columns of arguments",
            path,
            lacking,
            ROLESET + 1,
        )


def _predicate(arguments: Sequence[Span]) -> tuple[int, ...]:
    """The positions of V and its continuations."""
    return tuple(
        k for role, start, end in arguments if role in ("V", "C-V") for k in range(start, end + 1)
    )


def _lemma(rows: Sequence[Row], predicate: Sequence[int]) -> str:
    """The lemma, which may stand at any of a predicate's words, or else its first word."""
    lemmas = [rows[position].columns[LEMMA] for position in predicate]
    return next((lemma for lemma in lemmas if lemma != "-"), rows[predicate[0]].columns[WORD])


def complete_labels(labels: Mapping[str, str | Sequence[str]]) -> dict[str, str | Sequence[str]]:
    """`data.labels` and what goes along: the predicate's own V, and each role's C- and R-.

    >>> complete_labels({"ARG0": ["A0", "A9"]})["C-ARG0"]
    ['C-A0', 'C-A9']
    """
    listed = {
        ours: [names] if isinstance(names, str) else list(names) for ours, names in labels.items()
    }
    along = {
        f"{prefix}-{ours}": [f"{prefix}-{name}" for name in names]
        for ours, names in listed.items()
        for prefix in "CR"
    }
    return {"V": "V", "C-V": "C-V", **along, **labels}


def relabel(example: Example, names: Mapping[str, str]) -> Example:
    """An example by another corpus's labels; arguments without a name there are left out."""
    arguments = (
        span._replace(label=names[span.label]) for span in example.arguments if span.label in names
    )
    return replace(example, arguments=tuple(arguments))


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """A batch of sentences, each with one predicate."""
    batch = tokens([example.words for example in examples], vocab)
    predicate = torch.zeros_like(batch.mask)
    for row, example in enumerate(examples):
        predicate[row, list(example.predicate)] = True
    gold = [example.gold for example in examples]
    tags = [torch.tensor([vocab.label_id(tag) for tag in row]) for row in gold]
    return Batch(batch, predicate, pad_sequence(tags, True), gold)


def write(examples: Sequence[Example], predictions: Sequence[Sequence[str]], path: Path) -> None:
    """Write what srl-eval.pl reads (CoNLL-2005): lemmas at predicates, a column of arguments each.

    `write(examples, [example.gold for example in examples], path)` makes the gold file that it
    wants as well.
    """
    cells = iter([_brackets(tags) for _, tags in zip(examples, predictions, strict=True)])
    with path.open("w", encoding="utf-8") as file:
        for sentence in _sentences(examples):
            lemmas, columns = ["-"] * len(sentence[0].words), []
            for example in sentence:
                column = next(cells)
                if example.predicate:
                    lemmas[example.predicate[0]] = example.lemma
                    columns.append(column)
            file.writelines(" ".join(row) + "\n" for row in zip(lemmas, *columns, strict=True))
            file.write("\n")


def _sentences(examples: Sequence[Example]) -> Iterator[list[Example]]:
    """Examples that follow each other and share a sentence, their predicates in order.

    srl-eval.pl finds predicates by the first column, so a second predicate that begins at the same
    word (EWT has two xray at "x - rays") must be given the sentence once more.
    """
    together: list[Example] = []
    for example in examples:
        last = together[-1] if together else None
        if last and (last.source != example.source or last.predicate[:1] >= example.predicate[:1]):
            yield together
            together = []
        together.append(example)
    if together:
        yield together


def _brackets(tags: Sequence[str]) -> list[str]:
    """IOB2 tags as `(X*`, `*`, `*)` and `(X*)`."""
    cells = ["*"] * len(tags)
    for role, start, end in tags_to_spans(tags):
        cells[start] = f"({role}{cells[start]}"
        cells[end] += ")"
    return cells


def read_predictions(path: Path, examples: Sequence[Example]) -> list[list[str]]:
    """The predicted tags of a file that `write` or job=predict wrote, in the order of the examples.

    The latter has no records of sentences without a predicate, and so no arguments there. Raises
    ValueError, with file and line, where words, predicates or their number are not those of the
    examples.
    """
    if is_predicted(path, "tokens", "predicate", "tags"):
        asked = [example for example in examples if example.predicate]
        answers = iter([_predicted(*pair) for pair in paired(path, asked)])
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
        raise ValueError(f"{path}:{rows[0].line}: more sentences than in the gold file")
    return predictions


def _predicted(record: dict[str, Any], source: str, example: Example) -> list[str]:
    check_same(record, "tokens", list(example.words), source, example.source)
    check_same(record, "predicate", list(example.predicate), source, example.source)
    return tags_of(record, len(example.words), source)


def _blocks(path: Path) -> Iterator[list[Row]]:
    block: list[Row] = []
    for number, line in read_lines(path):
        if line.strip():
            block.append(Row(number, line.split()))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _check_fit(rows: Sequence[Row], sentence: Sequence[Example], path: Path) -> None:
    """Raise unless these rows hold predictions for these predicates of one sentence."""
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
    """An unlabelled example from `{"tokens": list or "text": text, "predicate": position}`.

    `predicate` is the position of the predicate's word (from 0), a list of positions, or a word
    that occurs once; it has no default, for a sentence has as many answers as predicates.
    ValueError, with `source`, for anything else.
    """
    words = words_of(record, source)
    predicate = _positions(record.get("predicate"), words, source)
    return Example(tuple(words), predicate, words[predicate[0]], (), source)


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
    """A prediction as `{"tokens": ..., "predicate": positions, "tags": IOB2 tags}`."""
    return {
        "tokens": list(example.words),
        "predicate": list(example.predicate),
        "tags": list(prediction),
    }
