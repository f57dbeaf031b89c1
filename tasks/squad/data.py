"""Extractive question answering in SQuAD 1.1 format (Rajpurkar et al. 2016).

Axes: B batch, T tokens of the paragraph, Q tokens of the question, N answers.
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
from elmo_bench.text import Vocab, check_same, is_predicted, paired
from elmo_bench.text.tokenize import tokenize_with_offsets

log = logging.getLogger(__name__)

MAX_BYTES = 1 << 30  # limit of a file's size; SQuAD's training set has 30 MB
NONE = -1  # position of a missing answer
KINDS = {str: "text", list: "a list", dict: "an object", int: "a whole number"}
# Normalises quotes, minus signs and dashes in the model's input (Clark and Gardner 2018).
PLAIN = str.maketrans("“”„‟‘’‚‛−—", '""""' + "''''-–")

Span = tuple[int, int]


@dataclass(frozen=True)
class Paragraph:
    """A text, its normalised words, and their character offsets (end exclusive)."""

    text: str
    words: tuple[str, ...]
    offsets: tuple[Span, ...]


class Answer(NamedTuple):
    """An answer and its character offsets in the paragraph (end exclusive).

    Offsets are None for answers that are read from a file of predictions.
    """

    text: str
    start: int | None = None
    end: int | None = None


@dataclass(frozen=True)
class Example:
    """A question, its paragraph, and its answers with their first and last tokens."""

    identity: str
    paragraph: Paragraph
    question: tuple[str, ...]
    answers: tuple[str, ...]
    spans: tuple[Span, ...]
    source: str
    group: tuple[str, ...]  # article and paragraph, shared by their questions

    units = "article", "paragraph"

    @property
    def sentences(self) -> list[tuple[str, ...]]:
        return [self.paragraph.words, self.question]

    @property
    def labels(self) -> list[str]:
        return []

    @property
    def gold(self) -> list[str]:
        """The texts of all gold answers; the metric takes the best match."""
        return list(self.answers)


class Batch(NamedTuple):
    """A batch: paragraphs, questions, first and last token of each answer, and data for decoding.

    The most frequent answer of a question is its first; missing answers are -1.
    """

    context: Tokens
    question: Tokens
    answers: Int[Tensor, "B N 2"]
    offsets: Int[Tensor, "B T 2"]
    texts: list[str]


def read(path: Path) -> Iterator[Example]:
    """Yield the questions of a file; a paragraph is one sequence, whatever its length.

    Answers that begin or end within a token are extended to whole tokens. Answers whose text
    differs from the paragraph at their offset are kept. The numbers of both are logged, with the
    first of the latter. Raises ValueError, with file and question, for a file that is not SQuAD
    1.1, an answer that is not within the text or has no words, a text or question without words,
    or a repeated id.
    """
    counts: Counter[str] = Counter()
    seen: set[str] = set()
    for record, context, where, group in _records(path):
        identity = _field(record, "id", str, where)
        source = f"{path}: question {identity}"
        if identity in seen:
            raise ValueError(f"{source}: this id occurs twice, but ids must be unique")
        seen.add(identity)
        yield _example(record, context, identity, source, group, counts)
    log.info(
        "%s: %d questions, %d answers; %d begin or end within a token, "
        "%d differ from the text at their offset",
        path,
        len(seen),
        counts["answers"],
        counts["within"],
        counts["differ"],
    )


def _records(path: Path) -> Iterator[tuple[Any, Paragraph, str, tuple[str, str]]]:
    """Yield each question's record, paragraph, location in the file, and group."""
    content = read_json(path, max_bytes=MAX_BYTES)
    for a, article in enumerate(_field(content, "data", list, f"{path}")):
        for p, paragraph in enumerate(_field(article, "paragraphs", list, f"{path}: data[{a}]")):
            where = f"{path}: data[{a}].paragraphs[{p}]"
            context = _paragraph(_field(paragraph, "context", str, where))
            for q, record in enumerate(_field(paragraph, "qas", list, where)):
                group = (f"data[{a}]", f"data[{a}].paragraphs[{p}]")
                yield record, context, f"{where}.qas[{q}]", group


def _field(record: Any, key: str, kind: type, where: str) -> Any:
    """Return the value of a key; raises ValueError if it is missing or of another type."""
    if not isinstance(record, dict) or key not in record:
        came = repr(record)[:60]
        if isinstance(record, dict):
            came = f"an object without {key!r}: it has {shown(sorted(record))}"
        raise ValueError(f"{where}: expected an object with {key!r}, but got {came}")
    if not isinstance(record[key], kind) or isinstance(record[key], bool):
        raise ValueError(
            f"{where}: {key!r} must be {KINDS[kind]}, but it is {repr(record[key])[:60]}"
        )
    return record[key]


def _paragraph(text: str) -> Paragraph:
    tokens = tokenize_with_offsets(text, fine=True)
    words = tuple(_as_read(token.text) for token in tokens)
    return Paragraph(text, words, tuple((token.start, token.end) for token in tokens))


def _as_read(word: str) -> str:
    return '"' if word in ("``", "''") else word.translate(PLAIN)


def _example(
    record: Any,
    context: Paragraph,
    identity: str,
    source: str,
    group: tuple[str, ...],
    counts: Counter[str],
) -> Example:
    question = _question(_field(record, "question", str, source), context, source)
    answers = _field(record, "answers", list, source)
    if not answers:
        raise ValueError(f"{source}: no answers, but in SQuAD 1.1 every question has one")
    texts = tuple(_field(answer, "text", str, source) for answer in answers)
    starts = [_field(answer, "answer_start", int, source) for answer in answers]
    spans = tuple(
        _span(context, start, text, source, counts)
        for start, text in zip(starts, texts, strict=True)
    )
    return Example(identity, context, question, texts, spans, source, group)


def _question(text: str, context: Paragraph, source: str) -> tuple[str, ...]:
    words = tuple(_as_read(token.text) for token in tokenize_with_offsets(text, fine=True))
    if not words:
        raise ValueError(f"{source}: the question has no words: {text!r}")
    if not context.words:
        raise ValueError(f"{source}: the context has no words: {context.text!r}")
    return words


def _span(context: Paragraph, start: int, text: str, source: str, counts: Counter[str]) -> Span:
    """Return the first and last token of an answer."""
    end = start + len(text)
    first, last = token_span(context.offsets, start, end)
    if not 0 <= start < len(context.text) or last < first or not text.strip():
        raise ValueError(
            f"{source}: the answer {text!r} at {start} contains no word of the context, "
            f"which has {len(context.text)} characters"
        )
    if end > len(context.text):
        raise ValueError(
            f"{source}: the answer {text!r} at {start} ends at {end}, but the context ends at "
            f"{len(context.text)}"
        )
    counts["answers"] += 1
    counts["within"] += (context.offsets[first][0], context.offsets[last][1]) != (start, end)
    if context.text[start:end] != text:
        if not counts["differ"]:  # show the first one only
            log.warning(
                "%s: the answer is %r, but at %d the context has %r",
                source,
                text,
                start,
                context.text[start:end],
            )
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
    offsets = [torch.tensor(example.paragraph.offsets) for example in examples]
    answers = []
    for example in examples:
        spans = [span for span, times in Counter(example.spans).most_common() for _ in range(times)]
        answers.append(torch.tensor(spans or [(NONE, NONE)]))
    return Batch(
        context=tokens([example.paragraph.words for example in examples], vocab),
        question=tokens([example.question for example in examples], vocab),
        answers=pad_sequence(answers, True, NONE),
        offsets=pad_sequence(offsets, True),
        texts=[example.paragraph.text for example in examples],
    )


def write(examples: Sequence[Example], predictions: Sequence[Answer], path: Path) -> None:
    """Write the input of evaluate-v1.1.py: a JSON object that maps question ids to answers."""
    answers = {
        example.identity: predicted.text
        for example, predicted in zip(examples, predictions, strict=True)
    }
    text = json.dumps(answers, ensure_ascii=False, indent=0)
    # Lone surrogates cannot be encoded: write them as JSON escapes.
    path.write_text(f"{text}\n", encoding="utf-8", errors="backslashreplace")


def read_predictions(path: Path, examples: Sequence[Example]) -> list[Answer]:
    """Read the answers from a file written by `write` (matched by question id) or job=predict
    (matched line by line; an `id`, if present, must be the example's).

    Raises ValueError, with the file (and line), for a missing, unknown or differing id, another
    number of lines, or an answer that is not text.
    """
    if is_predicted(path, "answer", "start", "end"):
        return [_predicted(*pair) for pair in paired(path, examples)]
    answers = read_json(path, max_bytes=MAX_BYTES)  # question id -> answer
    ids = {example.identity: None for example in examples}
    if missing := ids.keys() - answers.keys():
        raise ValueError(
            f"{path}: {len(missing)} of {len(ids)} questions have no answer, such as "
            f"{min(missing)!r}"
        )
    if unknown := answers.keys() - ids.keys():
        raise ValueError(
            f"{path}: {len(unknown)} answers to questions that are not in the gold file (data=, "
            f"split=), such as {shown(min(unknown))}"
        )
    return [Answer(_field(answers, identity, str, f"{path}")) for identity in ids]


def _predicted(record: dict[str, Any], source: str, example: Example) -> Answer:
    if "id" in record:
        check_same(record, "id", example.identity, source, example.source)
    return Answer(_field(record, "answer", str, source))


def parse(record: dict[str, Any], source: str) -> Example:
    """Read an unlabelled example from `{"question": text, "context": text}`.

    Lists of tokens are not accepted, since answers are substrings of the text. Raises ValueError,
    with `source`, for any other record, or if a text has no words.
    """
    context = _paragraph(_field(record, "context", str, source))
    question = _question(_field(record, "question", str, source), context, source)
    return Example(source, context, question, (), (), source, (source,))


def render(example: Example, prediction: Answer) -> dict[str, Any]:
    """Return the JSON record of a prediction: `{"answer": context[start:end], "start", "end"}`."""
    return {"answer": prediction.text, "start": prediction.start, "end": prediction.end}
