"""Extractive question answering in SQuAD 1.1 format (Rajpurkar et al. 2016).

Axes: B batch, T tokens of the paragraph (or of both texts in one sequence), Q tokens of the
question, N answers.
"""

import json
import logging
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from reprlib import repr as shown
from typing import Any, NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from elmo_bench.files import read_json
from elmo_bench.nn import Tokens, tokens
from elmo_bench.terminal import counted_noun, listed
from elmo_bench.text import Vocab, joined, token_offsets

log = logging.getLogger(__name__)

MAX_BYTES = 1 << 30  # limit of a file's size; SQuAD's training set has 30 MB
NONE = -1  # position of a missing answer
MANY = 0.05  # the share of answers above which words or offsets may be wrong; SQuAD has 0.006
KINDS = {str: "text", list: "a list", dict: "an object", int: "a whole number"}
# Quotes, minus signs and dashes in the model's input: more than Clark and Gardner (2018) replace.
PLAIN = str.maketrans("“”„‟‘’‚‛−—", '""""' + "''''-–")

Span = tuple[int, int]


@dataclass(frozen=True)
class Paragraph:
    """A text, its normalised words, and their character offsets (end exclusive); also a question,
    of which only the words are kept.
    """

    text: str
    words: tuple[str, ...]
    offsets: tuple[Span, ...]


class Answer(NamedTuple):
    """An answer and its character offsets in the paragraph (end exclusive; None from a file)."""

    text: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Example:
    """A question, its paragraph, and the first and last token of each of its answers."""

    identity: str
    paragraph: Paragraph
    question: tuple[str, ...]
    gold: list[str]  # the texts of all gold answers; the metric takes the best match
    spans: tuple[Span, ...]
    source: str
    group: tuple[str, ...]  # article and paragraph, shared by their questions
    joint: bool = False  # whether question and paragraph are read in one sequence

    units = "article", "paragraph"
    labels = ()  # answers have none

    @property
    def texts(self) -> list[tuple[str, ...]]:
        return [self.paragraph.words, self.question]

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        if self.joint:
            return [joined(self.question, self.paragraph.words)]
        return self.texts


class Batch(NamedTuple):
    """A batch: paragraphs, questions (None if `context` has both in one sequence), first and last
    token of each answer (-1: missing), and data for decoding.
    """

    context: Tokens
    question: Tokens | None
    answers: Int[Tensor, "B N 2"]
    offsets: Int[Tensor, "B T 2"]  # of characters; 0 at tokens that are not the paragraph's
    texts: list[str]


def read(path: Path, *, joint: bool = False) -> Iterator[Example]:
    """Yield the questions of a file; a paragraph is one sequence, whatever its length, of its own
    or, with `joint`, after its question.

    Answers that begin or end within a token are extended to whole tokens. Answers whose text
    differs from the paragraph at their offset are kept. The numbers of both are logged. Raises
    ValueError, with file and question, for a file that is not SQuAD 1.1, an answer that is not
    within the text or has no words, a text or question without words, or a repeated id.
    """
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    for record, context, where, group in _records(path):
        identity = _field(record, "id", str, where)
        source = f"{path}: question {identity}"
        if identity in seen:
            raise ValueError(f"{source}: this id occurs twice, but ids must be unique")
        seen.add(identity)
        question = _text(record, "question", source).words
        answers = _field(record, "answers", list, source)
        if not answers:
            raise ValueError(f"{source}: no answers, but in SQuAD 1.1 every question has one")
        texts = [_field(answer, "text", str, source) for answer in answers]
        spans = tuple(_span(answer, context, source, counts) for answer in answers)
        yield Example(identity, context, question, texts, spans, source, group, joint)
    are_many = max(counts["within"], counts["differ"]) > MANY * counts["answers"]
    log.log(
        logging.WARNING if are_many else logging.INFO,
        "%s: %d questions, %d answers; %d begin or end within a token, %d differ from the text at "
        "their offset (words must be separated by spaces, offsets count characters)",
        path,
        len(seen),
        counts["answers"],
        counts["within"],
        counts["differ"],
    )


def _records(path: Path) -> Iterator[tuple[Any, Paragraph, str, tuple[str, str]]]:
    """Yield each question's record, paragraph, location in the file, and group."""
    content = read_json(path, max_bytes=MAX_BYTES)
    articles = _field(content, "data", list, f"{path}")
    for article_number, article in enumerate(articles):
        of_article = f"{path}: data[{article_number}]"
        paragraphs = _field(article, "paragraphs", list, of_article)
        for paragraph_number, paragraph in enumerate(paragraphs):
            of_paragraph = f"{of_article}.paragraphs[{paragraph_number}]"
            context = _text(paragraph, "context", of_paragraph)
            for number, record in enumerate(_field(paragraph, "qas", list, of_paragraph)):
                yield record, context, f"{of_paragraph}.qas[{number}]", (of_article, of_paragraph)


def _field(record: Any, key: str, kind: type, where: str) -> Any:
    """Return the value of a key; raises ValueError if it is missing or of another type."""
    if not isinstance(record, dict) or key not in record:
        raise ValueError(f"{where}: expected an object with {key!r}, but got {shown(record)}")
    if not isinstance(record[key], kind) or isinstance(record[key], bool):
        raise ValueError(f"{where}: {key!r} must be {KINDS[kind]}, but it is {shown(record[key])}")
    return record[key]


def _text(record: Any, key: str, source: str) -> Paragraph:
    text = _field(record, key, str, source)
    offsets = token_offsets(text, fine=True)
    if not offsets:
        raise ValueError(f"{source}: the {key} has no words: {text!r}")
    words = tuple(_plain(text[start:end]) for start, end in offsets)
    return Paragraph(text, words, tuple(offsets))


def _plain(word: str) -> str:
    """Return a word with the quotes, minus signs and dashes of the model's input."""
    if word in ("``", "''"):
        return '"'
    return word.translate(PLAIN)


def _span(record: Any, context: Paragraph, source: str, counts: Counter[str]) -> Span:
    """Return the first and last token of an answer."""
    text = _field(record, "text", str, source)
    start = _field(record, "answer_start", int, source)
    end = start + len(text)
    size = len(context.text)
    first, last = token_span(context.offsets, start, end)
    if not 0 <= start < end <= size or last < first or not text.strip():
        raise ValueError(
            f"{source}: the answer {text!r} at {start} ends at {end}, but it must have a word and "
            f"lie within the context, which has {size} characters"
        )
    counts["answers"] += 1
    if (context.offsets[first][0], context.offsets[last][1]) != (start, end):
        counts["within"] += 1
    if context.text[start:end] != text:
        counts["differ"] += 1
    return first, last


def token_span(offsets: Sequence[Span], start: int, end: int) -> Span:
    """Return first and last token that overlap `start` to `end` (exclusive); last < first if none.

    >>> token_span([(0, 3), (4, 8), (9, 12)], 5, 11)
    (1, 2)
    """
    first = bisect_right(offsets, start, key=lambda token: token[1])
    return first, bisect_left(offsets, end, key=lambda token: token[0]) - 1


def collate(examples: Sequence[Example], vocab: Vocab) -> Batch:
    """Make a batch of questions."""
    sentences = [example.sentences for example in examples]
    contexts, *questions = zip(*sentences, strict=True)
    offsets = []
    answers = []
    for context, example in zip(contexts, examples, strict=True):
        begin = len(context) - len(example.paragraph.words)  # of the paragraph
        offsets.append(torch.tensor([(0, 0)] * begin + list(example.paragraph.offsets)))
        spans = [(first + begin, last + begin) for first, last in example.spans]
        answers.append(torch.tensor(spans or [(NONE, NONE)]))
    return Batch(
        tokens(contexts, vocab),
        tokens(questions[0], vocab) if questions else None,
        pad_sequence(answers, True, NONE),
        pad_sequence(offsets, True),
        [example.paragraph.text for example in examples],
    )


def write(examples: Sequence[Example], predictions: Sequence[Answer], path: Path) -> None:
    """Write the input of evaluate-v1.1.py: a JSON object that maps question ids to answers."""
    pairs = zip(examples, predictions, strict=True)
    answers = {example.identity: predicted.text for example, predicted in pairs}
    text = json.dumps(answers, ensure_ascii=False, indent=0)
    # Lone surrogates cannot be encoded: write them as JSON escapes.
    path.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")


def read_predictions(path: Path, examples: Sequence[Example]) -> list[Answer]:
    """Read answers by question id; ValueError, with file, for missing or unknown ids or no text."""
    answers = read_json(path, max_bytes=MAX_BYTES)  # question id -> answer
    ids = dict.fromkeys(example.identity for example in examples)
    missing = ids.keys() - answers.keys()
    unknown = answers.keys() - ids.keys()
    wrong = []
    if missing:
        wrong.append(
            f"no answer to {len(missing):,} of {counted_noun(len(ids), 'question')}, such as "
            f"{shown(min(missing))}"
        )
    if unknown:
        wrong.append(
            f"{counted_noun(len(unknown), 'answer')} to no question of the gold file, such as "
            f"{shown(min(unknown))}"
        )
    if wrong:
        raise ValueError(f"{path}: {listed(wrong)}")
    return [Answer(_field(answers, identity, str, f"{path}")) for identity in ids]


def parse(record: dict[str, Any], source: str, *, joint: bool = False) -> Example:
    """Read an unlabelled example from `{"question": text, "context": text}`.

    Lists of tokens are not accepted, since answers are substrings of the text. Raises ValueError,
    with `source`, for any other record, or if a text has no words.
    """
    context = _text(record, "context", source)
    question = _text(record, "question", source)
    return Example(source, context, question.words, [], (), source, (source,), joint)


def render(example: Example, prediction: Answer) -> dict[str, Any]:
    """Return the JSON record of a prediction: `{"answer": context[start:end], "start", "end"}`."""
    return {"answer": prediction.text, "start": prediction.start, "end": prediction.end}
