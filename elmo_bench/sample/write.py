"""The official file formats: what one story contributes to the file of each task."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random

from .grammar import Story
from .tree import Phrase, Sentence, annotate

_NER_SENTENCES = 4


def _chunk(tag: str) -> str:
    if tag in ("IN", "TO"):
        return "PP"
    if tag.startswith("VB") or tag == "MD":
        return "VP"
    return "NP" if tag[:2] in ("NN", "DT", "JJ", "PR", "CD") else "ADVP" if tag == "RB" else "O"


def iob1(labels: list[str], starts: set[int]) -> list[str]:
    """IOB1 tags: `I-X` inside a span, `B-X` only where a span directly follows another of the same type.

    >>> iob1(["ORG", "ORG", "ORG", "O", "PER"], starts={0, 2, 4})
    ['I-ORG', 'I-ORG', 'B-ORG', 'O', 'I-PER']
    """
    return [
        "O" if label == "O" else ("B-" if i and i in starts and labels[i - 1] == label else "I-") + label
        for i, label in enumerate(labels)
    ]


def _chunks(sentence: Sentence) -> list[str]:
    """Base phrases by tag; a determiner, possessive or preposition opens a new one."""
    labels = [_chunk(tag) for tag in sentence.tags]
    starts = {i for i, tag in enumerate(sentence.tags) if i == 0 or labels[i - 1] != labels[i] or tag in ("DT", "PRP$", "IN")}
    return iob1(labels, starts)


def ner(story: Story, rng: Random, identity: str, heldout: bool) -> str:
    """CoNLL-2003: `word POS chunk NER`, IOB1."""
    lines = ["-DOCSTART- -X- -X- O", ""]
    for sentence in story.sentences[:_NER_SENTENCES]:
        labels = ["O"] * len(sentence.words)
        for start, end, label in sentence.entities:
            labels[start:end] = [label] * (end - start)
        tags = iob1(labels, {start for start, _, _ in sentence.entities})
        lines += map(" ".join, zip(sentence.words, sentence.tags, _chunks(sentence), tags, strict=True))
        lines.append("")
    return "\n".join(lines) + "\n"


def lm(story: Story, rng: Random, identity: str, heldout: bool) -> str:
    """Raw text: one tokenised sentence a line."""
    return "".join(" ".join(sentence.words) + "\n" for sentence in story.sentences)


@dataclass(frozen=True, slots=True)
class Format:
    """How the file of a task is written: its suffix, a story's part, and what stands before, between and after."""

    suffix: str
    part: Callable[[Story, Random, str, bool], str]
    opening: str = ""
    between: str = ""
    closing: str = ""


FORMATS = {
    "ner": Format(".txt", ner),
    "lm": Format(".txt", lm),
}
