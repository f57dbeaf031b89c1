"""The official file formats: the part of a story in the file of each task."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import accumulate
from random import Random

from .grammar import Narrator, Story
from .opinion import labelled, opinions, reviews
from .pairs import LABELS, Pair, pairs
from .questions import Examiner, spell
from .tree import Phrase, Sentence

_NER_SENTENCES = 4
_OPINIONS = 8
_PAIRS = 12
_QUESTIONS = 5


def iob1(labels: list[str], starts: set[int]) -> list[str]:
    """Return IOB1 tags: `I-X` in a span, `B-X` only where it follows another of its type.

    >>> iob1(["ORG", "ORG", "ORG", "O", "PER"], starts={0, 2, 4})
    ['I-ORG', 'I-ORG', 'B-ORG', 'O', 'I-PER']
    """
    return [
        "O"
        if label == "O"
        else ("B-" if i and i in starts and labels[i - 1] == label else "I-") + label
        for i, label in enumerate(labels)
    ]


def _chunk(tag: str) -> str:
    if tag in ("IN", "TO"):
        return "PP"
    if tag.startswith("VB") or tag == "MD":
        return "VP"
    return "NP" if tag[:2] in ("NN", "DT", "JJ", "PR", "CD") else "ADVP" if tag == "RB" else "O"


def _chunks(sentence: Sentence) -> list[str]:
    """Return the base phrases; a determiner, possessive or preposition starts a new one."""
    labels = [_chunk(tag) for tag in sentence.tags]
    opens = ("DT", "PRP$", "IN")
    return iob1(
        labels,
        {
            i
            for i, tag in enumerate(sentence.tags)
            if tag in opens or labels[i - 1 : i] != [labels[i]]
        },
    )


def ner(story: Story, rng: Random, identity: str, heldout: bool) -> str:
    """Return sentences of CoNLL-2003: `word POS chunk NER`, IOB1."""
    lines = ["-DOCSTART- -X- -X- O", ""]
    for sentence in story.sentences[:_NER_SENTENCES]:
        labels = ["O"] * len(sentence.words)
        for start, end, label in sentence.entities:
            labels[start:end] = [label] * (end - start)
        tags = iob1(labels, {start for start, _, _ in sentence.entities})
        lines += map(
            " ".join, zip(sentence.words, sentence.tags, _chunks(sentence), tags, strict=True)
        )
        lines.append("")
    return "\n".join(lines) + "\n"


# --- CoNLL-2012 ---

_ONTONOTES = {"PER": "PERSON", "ORG": "ORG", "LOC": "GPE", "MISC": "WORK_OF_ART"}


def _parse_bits(tree: Phrase) -> list[str]:
    """Return the parse column: the tree's brackets at each word.

    >>> _parse_bits(Phrase("TOP", (Phrase("NP", (Phrase("DT", word="a"), Phrase("NN", word="lamp"))),)))
    ['(TOP(NP*', '*))']
    """
    if tree.word:
        return ["*"]
    bits = [bit for child in tree.children for bit in _parse_bits(child)]
    bits[0] = f"({tree.label}{bits[0]}"
    bits[-1] += ")"
    return bits


def _bracketed(length: int, spans: list[tuple[int, int, str]]) -> list[str]:
    """Return a column of brackets: `(ARG1*`, `*`, `*)`.

    >>> _bracketed(4, [(0, 2, "ARG0"), (2, 3, "V")])
    ['(ARG0*', '*)', '(V*)', '*']
    """
    column = ["*"] * length
    for start, end, label in spans:
        column[start] = f"({label}" + column[start]
        column[end - 1] += ")"
    return column


def _coreference(length: int, mentions: list[tuple[int, int, int]]) -> list[str]:
    """Return the coreference column: `(3`, `3)`, `(3)`, joined by `|`; `-` if empty.

    >>> _coreference(3, [(0, 3, 1), (0, 1, 2)])
    ['(1|(2)', '-', '1)']
    """
    cells: list[list[str]] = [[] for _ in range(length)]
    for start, end, cluster in sorted(mentions, key=lambda each: (each[0], -each[1])):
        cells[start].append(f"({cluster}" + (")" if end == start + 1 else ""))
    for start, end, cluster in sorted(mentions, key=lambda each: (each[1], -each[0])):
        if end > start + 1:
            cells[end - 1].append(f"{cluster})")
    return ["|".join(cell) or "-" for cell in cells]


def ontonotes(story: Story, rng: Random, identity: str, heldout: bool) -> str:
    """Return a document of CoNLL-2012: parse, predicates, arguments, speakers, names, coreference."""
    counts = Counter(number for sentence in story.sentences for _, _, number in sentence.mentions)
    clusters = {
        number: i
        for i, number in enumerate(number for number, times in counts.items() if times > 1)
    }
    lines = [f"#begin document ({identity}); part 000"]
    for sentence in story.sentences:
        length = len(sentence.words)
        heads = {predicate.index: predicate for predicate in sentence.predicates}
        names = _bracketed(
            length, [(start, end, _ONTONOTES[label]) for start, end, label in sentence.entities]
        )
        roles = [
            _bracketed(length, [*predicate.arguments, (predicate.index, predicate.index + 1, "V")])
            for predicate in sentence.predicates
        ]
        mentions = [
            (start, end, clusters[number])
            for start, end, number in sentence.mentions
            if number in clusters
        ]
        coreference, bits = (
            _coreference(length, mentions),
            _parse_bits(Phrase("TOP", (sentence.tree,))),
        )
        for i, (word, tag) in enumerate(zip(sentence.words, sentence.tags, strict=True)):
            lemma, frameset = (heads[i].lemma, "01") if i in heads else ("-", "-")
            cells = [
                identity,
                "0",
                str(i),
                word,
                tag,
                bits[i],
                lemma,
                frameset,
                "-",
                sentence.speaker,
                names[i],
            ]
            lines.append(" ".join([*cells, *(column[i] for column in roles), coreference[i]]))
        lines.append("")
    return "\n".join([*lines, "#end document"]) + "\n"


# --- sentences and pairs ---


def _plain(tree: Phrase) -> str:
    return spell([token.word for token in tree.leaves()])[0]


def sst5(story: Story, rng: Random, identity: str, heldout: bool) -> str:
    """Return trees of the Stanford Sentiment Treebank, one per line, with a label 0 to 4 at every
    node.
    """
    return "".join(
        labelled(tree.binary()) + "\n"
        for tree in opinions(rng, Narrator(rng, story.cast), _OPINIONS)
    )


def _unlabelled(tree: Phrase) -> str:
    return tree.word or f"( {' '.join(map(_unlabelled, tree.children))} )"


def _record(pair: Pair, rng: Random, identity: str) -> dict[str, object]:
    """Return a record of SNLI; some have the gold label `-`: the annotators do not agree."""
    votes = (
        [pair.label] * 5
        if rng.random() < 0.7
        else [pair.label, pair.label, pair.label, *rng.choices(LABELS, k=2)]
    )
    label = pair.label
    if rng.random() < 0.02:
        votes, label = ["entailment", "entailment", "neutral", "neutral", "contradiction"], "-"
    return {
        "annotator_labels": votes,
        "captionID": identity.rpartition("#")[0],
        "gold_label": label,
        "pairID": identity,
        **{f"sentence{i}": _plain(tree) for i, tree in ((1, pair.premise), (2, pair.hypothesis))},
        **{
            f"sentence{i}_binary_parse": _unlabelled(t.binary())
            for i, t in ((1, pair.premise), (2, pair.hypothesis))
        },
        **{
            f"sentence{i}_parse": f"(ROOT {t.brackets()})"
            for i, t in ((1, pair.premise), (2, pair.hypothesis))
        },
    }


def snli(story: Story, rng: Random, identity: str, heldout: bool) -> str:
    """Return pairs of SNLI, one JSON object per line."""
    told = pairs(Narrator(rng, story.cast), _PAIRS)
    return "".join(
        json.dumps(_record(pair, rng, f"{identity}#{i}")) + "\n" for i, pair in enumerate(told)
    )


def squad(story: Story, rng: Random, identity: str, heldout: bool) -> str:
    """Return a story as a paragraph of SQuAD 1.1.

    Held-out questions have all acceptable answers, training questions one.
    """
    tokens = [word for sentence in story.sentences for word in sentence.words]
    context, starts = spell(tokens)
    before = list(accumulate((len(sentence.words) for sentence in story.sentences), initial=0))
    qas = []
    for i, question in enumerate(Examiner(rng, story).questions(_QUESTIONS)):
        answers = []
        for sentence, first, end in question.answers[: None if heldout else 1]:
            start, last = starts[before[sentence] + first], before[sentence] + end - 1
            answers.append(
                {"text": context[start : starts[last] + len(tokens[last])], "answer_start": start}
            )
        qas.append(
            {
                "answers": answers,
                "question": spell(list(question.words))[0],
                "id": f"{identity}#{i}",
            }
        )
    return json.dumps({"title": identity, "paragraphs": [{"context": context, "qas": qas}]})


def lm(story: Story, rng: Random, identity: str, heldout: bool) -> str:
    """Return raw text, one tokenised sentence per line: story, opinions, sentence pairs, questions."""
    narrator = Narrator(rng, story.cast)
    lines = [sentence.words for sentence in story.sentences]
    trees = [*reviews(rng, narrator, 2), *opinions(rng, narrator, 1)]
    for pair in pairs(narrator, 1):
        trees += [pair.premise, pair.hypothesis]
    lines += [tuple(token.word for token in tree.leaves()) for tree in trees]
    lines += [question.words for question in Examiner(rng, story).questions(1)]
    return "".join(" ".join(line) + "\n" for line in lines)


@dataclass(frozen=True, slots=True)
class Format:
    """The file format of a task: suffix, part of a story, and text before, between and after."""

    suffix: str
    part: Callable[[Story, Random, str, bool], str]
    opening: str = ""
    between: str = ""
    closing: str = ""


FORMATS = {
    "ner": Format(".txt", ner),
    "srl": Format(".gold_conll", ontonotes),
    "coref": Format(".gold_conll", ontonotes),
    "snli": Format(".jsonl", snli),
    "squad": Format(".json", squad, '{"version": "1.1", "data": [', ", ", "]}\n"),
    "sst5": Format(".txt", sst5),
    "lm": Format(".txt", lm),
}
