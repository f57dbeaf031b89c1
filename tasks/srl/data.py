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
    """A sentence, the places of one predicate's words (none: it has no predicate) and the
    arguments, V among them.
    """

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
        """Every tag that the roles may need: elsewhere one may be longer, continued (C-) or
        referred to (R-).
        """
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
    """Yield an example for each predicate of each sentence, and one, all O, for a sentence that has
    none.

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
    """The places of V and its continuations."""
    return tuple(
        k for role, start, end in arguments if role in ("V", "C-V") for k in range(start, end + 1)
    )


def _lemma(rows: Sequence[Row], predicate: Sequence[int]) -> str:
    """The lemma, which may stand at any of a predicate's words, or else its first word."""
    lemmas = [rows[place].columns[LEMMA] for place in predicate]
    return next((lemma for lemma in lemmas if lemma != "-"), rows[predicate[0]].columns[WORD])


def complete_labels(labels: Mapping[str, str | Sequence[str]]) -> dict[str, str | Sequence[str]]:
    """`data.labels` with what goes along with it: the predicate's own V, and with each role its C-
    and R-.

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
    """An example by the labels of a model of another corpus; arguments without a name there are
    left out.
    """
    return replace(
        example,
        arguments=tuple(
            s._replace(label=names[s.label]) for s in example.arguments if s.label in names
        ),
    )


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
    """Write what srl-eval.pl reads (CoNLL-2005): lemmas at the predicates, then each one's
    arguments in a column.

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
        asked = iter(
            [
                _predicted(*pair)
                for pair in paired(path, [example for example in examples if example.predicate])
            ]
        )
        return [
            next(asked) if example.predicate else ["O"] * len(example.words) for example in examples
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
        raise ValueError(f"{path}:{rows[0].line}: a sentence more than the gold file has")
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
    if len(rows) != len(example.words):
        raise ValueError(
            f"{where}: a sentence of {len(rows)} words, but {example.source} has "
            f"{len(example.words)}"
        )
    expected = [other.predicate[0] for other in sentence if other.predicate]
    for row in rows:
        if len(row.columns) != 1 + len(expected):
            raise ValueError(
                f"{path}:{row.line}: {len(row.columns)} columns, but {example.source} has "
                f"{len(expected)} predicates, "
                f"so {1 + len(expected)} columns"
            )
    found = [place for place, row in enumerate(rows) if row.columns[0] != "-"]
    if found != expected:
        raise ValueError(
            f"{where}: predicates at words {found}, but {example.source} has them at {expected} "
            "(from 0)"
        )


def parse(record: dict[str, Any], source: str) -> Example:
    """An unlabelled example from `{"tokens": list, "predicate": place}`, or `"text"` instead of
    `"tokens"`.

    `predicate` is the place of the predicate's word (from 0), a list of places, or a word that
    occurs once; it has no default, for a sentence has as many answers as predicates. ValueError,
    with `source`, for anything else.
    """
    words = words_of(record, source)
    predicate = _places(record.get("predicate"), words, source)
    return Example(tuple(words), predicate, words[predicate[0]], (), source)


def _places(predicate: object, words: Sequence[str], source: str) -> tuple[int, ...]:
    places = predicate if isinstance(predicate, list) else [predicate]
    if isinstance(predicate, str):
        places = [place for place, word in enumerate(words) if word == predicate]
        if len(places) != 1:
            raise ValueError(
                f"{source}: predicate {predicate!r} stands at {places} of {list(words)}, not at "
                "one place"
            )
    if not places or not all(type(place) is int and 0 <= place < len(words) for place in places):
        raise ValueError(
            f"{source}: predicate {predicate!r}, but it is a place, 0 to {len(words) - 1}, a list "
            "of places, or a word"
        )
    return tuple(sorted(places))


def render(example: Example, prediction: Sequence[str]) -> dict[str, Any]:
    """A prediction as `{"tokens": ..., "predicate": places of its words, "tags": an IOB2 tag for
    each word}`.
    """
    return {
        "tokens": list(example.words),
        "predicate": list(example.predicate),
        "tags": list(prediction),
    }
