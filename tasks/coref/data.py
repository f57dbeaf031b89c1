"""Coreference in CoNLL-2012 format: the clusters of mentions of a whole document.

Axes: B sentences of the batch, N words of a document, M mentions.
"""

import logging
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain, groupby
from pathlib import Path
from reprlib import repr as shown
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from elmo_bench.nn import Tokens, tokens
from elmo_bench.terminal import counted_noun
from elmo_bench.text import BRACKETS, Row, Vocab, are_words, paired, tokenize
from elmo_bench.text.conll import SPEAKER, WORD, read_documents
from elmo_bench.text.sentences import part_sentences

log = logging.getLogger(__name__)

# The genres of OntoNotes; any other genre has the number len(GENRES).
GENRES = ("bc", "bn", "mz", "nw", "pt", "tc", "wb")
FEW = 0.2  # the share of documents without a mention above which a corpus may lack annotation
KEYS = {"sentences", "text", "speakers", "id"}  # of an unlabelled record
_SLASHED = {"/.": ".", "/?": "?"}  # spelling in some spoken texts of OntoNotes
Mention = tuple[int, int]  # first and last word in the document, counted from 0, both inclusive
Clusters = Sequence[Sequence[Mention]]

# A cell has one reading only (++), so that a long malformed one does not take forever.
_BRACKET = re.compile(r"\(\d++\)?|\d++\)")
_CELL = re.compile(rf"(?:{_BRACKET.pattern})(?:\|?(?:{_BRACKET.pattern}))*")


@dataclass(frozen=True)
class Example:
    """One part of a document: sentences, the speaker of each word, and clusters of mentions."""

    document: str
    part: int
    header: str  # the first line, by which the official scorer matches documents
    sentences: tuple[tuple[str, ...], ...]
    speakers: tuple[tuple[str, ...], ...]
    gold: list[list[Mention]]  # clusters, as the metric takes them
    source: str

    units = ("document",)
    labels = ()  # clusters have none

    @property
    def group(self) -> tuple[str, ...]:
        """The document, all its parts."""
        return (self.document,)


class Document(NamedTuple):
    """The input of the model for a document of N words, except its words.

    `speakers` numbers the speaker of each word, `genre` is the number of the genre. `mentions` is a
    NumPy array so that it stays on the CPU.
    """

    num_sentences: int
    speakers: Int[Tensor, " N"]
    genre: Int[Tensor, ""]
    mentions: Int[np.ndarray, "M 3"]  # first word, last word, cluster (from 1)


class Batch(NamedTuple):
    """A batch: the sentences of all documents in order, and the documents."""

    tokens: Tokens
    documents: list[Document]


def read(path: Path, *, annotated: bool = False) -> Iterator[Example]:
    """Yield the documents of a file, part by part; clusters that share a mention are merged.

    With `annotated`, a document of which no part has a mention is left out; its parts must follow
    one another. Logs how many parts have no mention, are left out or merged. Raises ValueError,
    with file and line, for a malformed cell of the coreference column and for brackets that do not
    match within their sentence, and, with the file, for a document without sentences.
    """
    num_parts = 0
    num_empty = 0
    num_left_out = 0
    num_repeated = 0
    for _, document in groupby(_documents(path), lambda part: part.document):
        parts = list(document)
        if annotated and not any(part.gold for part in parts):
            num_left_out += len(parts)
            continue
        for part in parts:
            clusters = merge(part.gold)
            num_parts += 1
            if not clusters:
                num_empty += 1
            num_repeated += _num_mentions(part.gold) - _num_mentions(clusters)
            yield replace(part, gold=clusters)
    if num_empty or num_left_out or num_repeated:
        may_be_wrong = num_repeated or num_empty > FEW * num_parts
        log.log(
            logging.WARNING if may_be_wrong else logging.INFO,
            "%s: %d of %d documents have no mention (if they are not annotated, leave them out, or "
            "the model learns to find none); %d more are left out; %d mentions are in two "
            "clusters, which are merged",
            path,
            num_empty,
            num_parts,
            num_left_out,
            num_repeated,
        )


def _num_mentions(clusters: Clusters) -> int:
    return sum(map(len, clusters))


def _documents(path: Path) -> Iterator[Example]:
    """Yield the documents with the clusters of the file, in the order in which they begin."""
    for document in read_documents(path):
        if not document.sentences:
            raise ValueError(f"{path}: document {document.name} has no sentences; remove it")
        clusters: dict[str, set[Mention]] = {}
        start = 0
        for rows in document.sentences:
            add_mentions(clusters, rows, start, path)
            start += len(rows)
        words = _column(document.sentences, WORD)
        speakers = _column(document.sentences, SPEAKER)
        gold = list(map(list, clusters.values()))
        source = f"{path}:{document.sentences[0][0].line}"
        yield Example(document.id, document.part, document.header, words, speakers, gold, source)


def _column(sentences: Sequence[Sequence[Row]], column: int) -> tuple[tuple[str, ...], ...]:
    """Return the words or the speakers of each sentence."""
    cells = []
    for rows in sentences:
        cells.append(tuple(_spelt(row.columns[column]) for row in rows))
    return tuple(cells)


def _spelt(cell: str) -> str:
    return _SLASHED.get(cell, cell)


def add_mentions(
    clusters: dict[str, set[Mention]], rows: Sequence[Row], start: int, path: Path
) -> None:
    """Add the mentions of a sentence, which begins at word `start` of its document, to `clusters`.

    A cell is `-`, or any of `(12`, `12)` and `(12)`, joined with or without `|`. As in the official
    scorer, the mentions of one word come first, then the opening brackets, then the closing ones,
    and a closing bracket matches the latest opening one of its cluster.
    """
    opened: dict[str, list[int]] = defaultdict(list)
    for position, row in enumerate(rows):
        cell = row.columns[-1]
        where = f"{path}:{row.line}"
        if not (cell in ("-", "_") or _CELL.fullmatch(cell)):
            raise ValueError(
                f"{where}: coreference {shown(cell)}, but it must be -, or (12 and 12) and (12) "
                "joined by |"
            )
        parts: list[str] = _BRACKET.findall(cell)
        for part in sorted(parts, key=lambda part: (part[0] != "(", part[-1] != ")")):
            cluster = part.strip("()")
            mentions = clusters.setdefault(cluster, set())
            if part[0] == "(":
                opened[cluster].append(position)
            if part[-1] == ")":
                if not opened[cluster]:
                    raise ValueError(
                        f"{where}: {cluster}) ends a mention that does not begin in this sentence"
                    )
                mentions.add((start + opened[cluster].pop(), start + position))
    for cluster, positions in opened.items():
        if positions:
            raise ValueError(
                f"{path}:{rows[positions[0]].line}: ({cluster} begins a mention that does not end "
                "in its sentence"
            )


def merge(clusters: Clusters) -> list[list[Mention]]:
    """Merge clusters that share a mention, and sort clusters and mentions in text order.

    >>> merge([[(4, 5), (0, 0)], [(7, 7), (8, 8)], [(8, 8), (0, 0)]])
    [[(0, 0), (4, 5), (7, 7), (8, 8)]]
    """
    merged: list[set[Mention]] = []
    for cluster in map(set, clusters):
        sharing = [other for other in merged if not other.isdisjoint(cluster)]
        merged = [other for other in merged if other.isdisjoint(cluster)]
        merged.append(cluster.union(*sharing))
    return sorted(sorted(cluster) for cluster in merged if cluster)


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of documents (the paper uses one per batch)."""
    sentences: list[tuple[str, ...]] = []
    for example in examples:
        sentences.extend(example.sentences)
    return Batch(tokens(sentences, vocab), list(map(_document, examples)))


def _document(example: Example) -> Document:
    speakers = list(chain.from_iterable(example.speakers))
    numbers = {speaker: number for number, speaker in enumerate(dict.fromkeys(speakers))}
    speaker_numbers = torch.tensor([numbers[speaker] for speaker in speakers])
    genre = example.document[:2]  # of documents such as nw/wsj/24/wsj_2400
    genre_number = torch.tensor(GENRES.index(genre) if genre in GENRES else len(GENRES))
    rows = []
    for number, cluster in enumerate(example.gold, 1):
        for first, last in cluster:
            rows.append((first, last, number))
    mentions = np.array(rows, dtype=np.int64).reshape(-1, 3)
    return Document(len(example.sentences), speaker_numbers, genre_number, mentions)


def truncate(batch: Batch, limit: int) -> Batch:
    """Cut each document to at most `limit` consecutive sentences from a random start."""
    lengths = batch.tokens.lengths.tolist()
    rows: list[int] = []  # rows of the batch that are kept
    documents = []
    first = 0  # the first row of the document
    for document in batch.documents:
        count = min(document.num_sentences, limit)
        start = int(torch.randint(document.num_sentences - count + 1, ()))
        ends = list(accumulate(lengths[first : first + document.num_sentences], initial=0))
        begin = ends[start]  # first word that stays
        end = ends[start + count]
        inside = (document.mentions[:, 0] >= begin) & (document.mentions[:, 1] < end)
        mentions = document.mentions[inside] - np.array([begin, begin, 0])
        speakers = document.speakers[begin:end]
        documents.append(Document(count, speakers, document.genre, mentions))
        rows += range(first + start, first + start + count)
        first += document.num_sentences
    if len(rows) == len(lengths):
        return batch
    longest = max(lengths[row] for row in rows)
    return Batch(batch.tokens.cut(rows, longest), documents)


def write(examples: Sequence[Example], predictions: Sequence[Clusters], path: Path) -> None:
    """Write the official scorer's response file: CoNLL-2012 columns, predicted clusters last.

    Columns are separated by tabs; without tabs, the scorer looks for brackets in the whole line.
    It matches documents by their first lines, which are therefore written as they were read.
    """
    with path.open("w", encoding="utf-8") as file:
        for example, clusters in zip(examples, predictions, strict=True):
            file.write(f"{example.header}\n")
            name = f"{example.document}\t{example.part}"
            num_words = sum(map(len, example.sentences))
            cells = iter(cells_of(clusters, num_words))
            for words, speakers in zip(example.sentences, example.speakers, strict=True):
                for number, (word, speaker) in enumerate(zip(words, speakers, strict=True)):
                    cell = next(cells)
                    file.write(f"{name}\t{number}\t{word}\t-\t*\t-\t-\t-\t{speaker}\t*\t{cell}\n")
                file.write("\n")
            file.write("#end document\n")


def cells_of(clusters: Clusters, count: int) -> list[str]:
    """Return the cells of the `count` words of a document. Mentions of one cluster must not cross
    (the model's do not), since brackets cannot represent that.
    """
    cells: list[list[str]] = [[] for _ in range(count)]
    for number, cluster in enumerate(clusters):
        for start, end in cluster:
            if start == end:
                cells[start].append(f"({number})")
            else:
                cells[start].append(f"({number}")
                cells[end].append(f"{number})")
    return ["|".join(cell) or "-" for cell in cells]


def read_predictions(path: Path, examples: Sequence[Example]) -> list[list[list[Mention]]]:
    """Read the clusters from a file written by `write`.

    As in the official scorer, a gold mention that is in several predicted clusters counts only in
    the first of them; a warning says how many there are. Raises ValueError for another document,
    other lengths of its sentences, or another number of documents.
    """
    documents = list(_documents(path))
    predictions = []
    num_repeated = 0
    for document, example in paired(path, documents, examples):
        ours = _outline(document)
        theirs = _outline(example)
        if ours != theirs:
            raise ValueError(
                f"{document.source}: document, part and words of each sentence are {shown(ours)}, "
                f"but {example.source} has {shown(theirs)}"
            )
        clusters = without_repeats(document.gold, example.gold)
        num_repeated += _num_mentions(document.gold) - _num_mentions(clusters)
        predictions.append(clusters)
    if num_repeated:
        log.warning(
            "%s: %s removed from clusters, since an earlier cluster has the same gold mention",
            path,
            counted_noun(num_repeated, "predicted mention"),
        )
    return predictions


def _outline(example: Example) -> tuple[str, int, list[int]]:
    """Return what a file of predictions must have in common with the gold file."""
    return example.document, example.part, list(map(len, example.sentences))


def without_repeats(clusters: Clusters, gold: Clusters) -> list[list[Mention]]:
    """Return the clusters, sorted, without gold mentions that an earlier cluster has."""
    gold_mentions = set(chain.from_iterable(gold))
    seen: set[Mention] = set()
    kept = []
    for cluster in map(set, clusters):
        mentions = sorted(cluster - seen)
        if mentions:
            kept.append(mentions)
        seen |= cluster & gold_mentions
    return sorted(kept)


def parse(record: dict[str, Any], source: str) -> Example:
    """Read an unlabelled example from `{"sentences": [["Ann", "left"]]}` or `{"text": "Ann left"}`.

    A text is split into sentences at line ends and after `.`, `!` or `?` with following closing
    quotes and brackets; its brackets become the treebank's. Optional keys are `"speakers"`, a name
    for each sentence, and `"id"`, which may begin with a genre. Raises ValueError, with `source`,
    for any other record.
    """
    given = _sentences(record["text"]) if "text" in record else record.get("sentences")
    sentences = given if isinstance(given, list) and all(map(are_words, given)) else []
    speakers = record.get("speakers", ["-"] * len(sentences))
    is_spoken = are_words(speakers) and len(speakers) == len(sentences)  # and so there are some
    if record.keys() - KEYS or {"text", "sentences"} <= record.keys() or not is_spoken:
        raise ValueError(
            f"{source}: {shown(record)}, but a record must have sentences, a list of non-empty "
            "lists of words, or text with words, and may have speakers, a name for each sentence, "
            "and id"
        )
    document = str(record.get("id", ""))
    header = f"#begin document ({document}); part 000"
    words = tuple(map(tuple, sentences))
    speakers_of_words = []
    for speaker, sentence in zip(speakers, sentences, strict=True):
        speakers_of_words.append((speaker,) * len(sentence))
    return Example(document, 0, header, words, tuple(speakers_of_words), [], source)


def _sentences(text: object) -> list[list[str]]:
    """Return the sentences of a text; none if it is no text."""
    if not isinstance(text, str):
        return []
    sentences = []
    for line in text.splitlines():
        for words in part_sentences(tokenize(line)):
            sentences.append([word.translate(BRACKETS) for word in words])
    return sentences


def render(example: Example, prediction: Clusters) -> dict[str, Any]:
    """Return a prediction as JSON: `{"sentences": ..., "clusters": ..., "mentions": ...}`.

    A cluster is a list of mentions, `[position of the first word, position of the last]`, counted
    from 0 over the whole document. `mentions` has the words of the same mentions, by cluster.
    """
    words = list(chain.from_iterable(example.sentences))
    clusters = []
    mentions = []
    for cluster in prediction:
        clusters.append(list(map(list, cluster)))
        mentions.append([" ".join(words[first : last + 1]) for first, last in cluster])
    sentences = list(map(list, example.sentences))
    return {"sentences": sentences, "clusters": clusters, "mentions": mentions}
