"""Sentences of treebanks in CoNLL-U, for tasks that learn some columns of each word."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from elmo_bench.metrics import ByExample, Counts
from elmo_bench.text import Row, document_name, gold_of, read_conllu, words_of

TAG = (3,)  # column of UPOS
ARC = (6, 7)  # columns of head and relation
# All labels of Universal Dependencies: a small training file may lack one of the dev file.
LABELS = {
    TAG: "ADJ ADP ADV AUX CCONJ DET INTJ NOUN NUM PART PRON PROPN PUNCT SCONJ SYM VERB X",
    ARC: "acl advcl advmod amod appos aux case cc ccomp clf compound conj cop csubj dep det "
    "discourse dislocated expl fixed flat goeswith iobj list mark nmod nsubj nummod obj obl orphan "
    "parataxis punct reparandum root vocative xcomp",
}
Cells = tuple[str, ...]  # of a word, in the columns of a task; its label is the last
Sentences = Sequence[Sequence[Cells]]


@dataclass(frozen=True)
class Example:
    """A sentence, the cells of each word, and the lines of its file."""

    words: tuple[str, ...]
    gold: tuple[Cells, ...]
    columns: tuple[int, ...]
    source: str
    document: int = 0  # number in the file
    lines: tuple[str, ...] = ()

    units = "document", "sentence"

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [self.words]

    @property
    def labels(self) -> list[str]:
        labels = LABELS[self.columns].split()
        labels.extend(cells[-1] for cells in self.gold)
        return labels

    @property
    def group(self) -> tuple[str, ...]:
        """The document, by its number in the file, and the sentence."""
        return document_name(self.document, self.source), self.source


def read(path: Path, columns: tuple[int, ...]) -> Iterator[Example]:
    """Yield the sentences of a file, relations without their subtypes (nsubj:pass is nsubj).

    Raises ValueError, with file and line, for an empty cell of the columns, and the errors of
    `read_conllu`.
    """
    for sentence in read_conllu(path):
        gold = tuple(_cells(row, columns, path) for row in sentence.rows)
        first = sentence.rows[0]
        source = f"{path}:{first.line}"
        lines = tuple(sentence.lines)
        yield Example(sentence.words, gold, columns, source, first.document, lines)


def _cells(row: Row, columns: tuple[int, ...], path: Path) -> Cells:
    """Return the cells of a word, the last of them without a subtype."""
    cells = [row.columns[column] for column in columns]
    for column, cell in zip(columns, cells, strict=True):
        if cell in ("", "_"):
            raise ValueError(f"{path}:{row.line}: column {column + 1}, to be learnt, is empty")
    label = cells[-1]
    cells[-1] = label.split(":")[0] or label
    return tuple(cells)


def write(examples: Sequence[Example], predictions: Sentences, path: Path) -> None:
    """Write the gold file with the predicted cells in place of gold's, for conll18_ud_eval.py."""
    with path.open("w", encoding="utf-8") as file:
        for example, predicted in zip(examples, predictions, strict=True):
            cells = iter(predicted)
            for line in example.lines:
                row = line.split("\t")
                if row[0].isdecimal():
                    for column, cell in zip(example.columns, next(cells), strict=True):
                        row[column] = cell
                file.write("\t".join(row) + "\n")
            file.write("\n")


def read_predictions(path: Path, examples: Sequence[Example]) -> list[tuple[Cells, ...]]:
    """Read the cells of a file written by `write`; raises the errors of `gold_of` and `read`."""
    return gold_of(path, list(read(path, examples[0].columns)), examples)


def parse(record: dict[str, Any], source: str, columns: tuple[int, ...]) -> Example:
    """Read an unlabelled sentence from `{"tokens": list}` or `{"text": text}`; else ValueError."""
    words = tuple(words_of(record, source))
    cells = ["0"] * len(columns)
    cells[-1] = LABELS[columns].split()[0]
    return Example(words, (tuple(cells),) * len(words), columns, source)


class WordScores(Counts):
    """The share of words, punctuation included, of which the first cell is right, the first two,
    ...: a score for each of `names`, such as UAS and LAS.
    """

    def __init__(self, labels: Sequence[str], *, names: Sequence[str]) -> None:
        super().__init__(len(names) + 1)  # right words of each score, words
        self.names = list(names)

    def count(self, predicted: Sentences, gold: Sentences) -> Int[Tensor, "N S"]:
        """Return the words that are right by each score, and all words, of each sentence."""
        counts = torch.zeros(len(gold), len(self.names) + 1, dtype=torch.long)
        for row, ours, theirs in zip(counts, predicted, gold, strict=True):
            pairs = list(zip(ours, theirs, strict=True))
            sums = []
            for size in range(1, len(self.names) + 1):
                sums.append(sum(one[:size] == two[:size] for one, two in pairs))
            sums.append(len(pairs))
            row += torch.tensor(sums)
        return counts

    def tally(self, side: Sentences) -> Counter[str]:
        """Return how often each label occurs, the last cell of a word."""
        return Counter(cells[-1] for cells in chain.from_iterable(side))

    def by_example(self, predicted: Sentences, gold: Sentences) -> ByExample:
        """Return the counts of each sentence for each score."""
        *rights, words = self.count(predicted, gold).double().unbind(1)
        figures = {}
        for name, right in zip(self.names, rights, strict=True):
            figures[name] = torch.stack([right, words, right, words], 1)[:, None]
        return figures

    def compute(self) -> dict[str, Tensor]:
        """Return the scores, from 0 to 1; 0 without words."""
        shares = self.counts.double() / self.counts[-1].clamp(min=1)
        return dict(zip(self.names, shares[:-1], strict=True))
