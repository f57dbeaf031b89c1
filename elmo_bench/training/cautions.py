"""Sentences on data and predictions whose scores do not mean what they seem to: nothing to learn,
nothing found, one answer for all, words that an encoder cannot read.

A run logs them; its result has the warnings among them by what they are about (`Run.cautions`), so
that a report can say them, too. What a side has is counted by the metric's `tally`; a metric
without one, such as that of a user's task, has no sentences on labels.
"""

import heapq
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from elmo_bench.encoders import Misread
from elmo_bench.encoders.static import LACKING
from elmo_bench.metrics import Details, details
from elmo_bench.runs import FEW_CLUSTERS
from elmo_bench.terminal import counted_noun, listed
from elmo_bench.text import forms
from elmo_bench.text.vocab import Case

from .data import Example
from .outputs import clusters

log = logging.getLogger(__name__)
NAMED = 3  # words or labels that a sentence names
NOTHING = "there is nothing to learn: is the right column read?"
UNDEFINED = "no correlation is defined, and 0.00 stands for it"


class Caution(NamedTuple):
    """A sentence, and what it is about: `train`, `test`, `test/predicted`, `encoder`, ..."""

    about: str
    text: str
    level: int = logging.WARNING  # only warnings are kept in a result
    words: str = ""  # of the corpus, as examples; a result and its archive have no texts

    @property
    def line(self) -> str:
        """The sentence with its examples."""
        return self.text + self.words


def tell(cautions: Iterable[Caution]) -> dict[str, str]:
    """Log each sentence; return the warnings, by what they are about."""
    warnings = {}
    for caution in cautions:
        log.log(caution.level, "%s", caution.line)
        if caution.level == logging.WARNING:
            warnings[caution.about] = caution.text
    return warnings


def of_examples(metric: Any, examples: Mapping[str, Sequence[Example]]) -> Iterator[Caution]:
    """Yield sentences on what is right in each split; none for a metric that cannot tell."""
    told = details(metric)
    if told.tally is None:
        return
    for split, part in examples.items():
        gold = told.tally([example.gold for example in part])
        yield from _of_gold(split, gold, sought(told, part), told.labels)


def of_clusters(examples: Mapping[str, Sequence[Example]]) -> Iterator[Caution]:
    """Yield a sentence if the last split, on which a report compares runs, has few clusters."""
    split, part = list(examples.items())[-1]
    numbers, unit = clusters(part)
    count = len(set(numbers))
    if split != "train" and count < FEW_CLUSTERS:
        few = f"{split} has {counted_noun(count, unit)} only: intervals and p rest on so few"
        yield Caution(split, few, logging.INFO)


def _of_gold(split: str, gold: Counter, noun: str, labels: Iterable[str]) -> Iterator[Caution]:
    """Yield a sentence on what is right in a split, if scores cannot mean much."""
    sentences = []
    uniform = _uniform(split, gold, noun)
    if uniform:
        sentences.append(uniform)
    missing = sorted(set(labels) - gold.keys())
    if split != "train" and gold and missing:
        sentences.append(
            f"{split} has no example of {_named(missing)}: scores of such a label are 0.00 for "
            "want of examples, and means over labels leave it out"
        )
    if sentences:
        yield Caution(split, "; ".join(sentences))


def _uniform(split: str, gold: Counter, noun: str) -> str:
    """Return a sentence on a split that has nothing to find, or one answer for all examples; "" for
    another.
    """
    is_training = split == "train"
    where = "training" if is_training else split
    if noun:
        if gold:
            return ""
        why = NOTHING if is_training else "its F1 is 0.00, whatever a model predicts"
        return f"{where} has no {noun}: {why}"
    if len(gold) != 1:
        return ""
    (only,) = gold
    if isinstance(only, float):
        why = NOTHING if is_training else UNDEFINED
        return f"the right number is {only:g} in all examples of {where}: {why}"
    why = NOTHING if is_training else f"whoever always says {only} is always right"
    return f"{where} has only the label {only}: {why}"


def of_predictions(
    metric: Any, split: str, examples: Sequence[Example], predictions: Sequence[Any]
) -> Iterator[Caution]:
    """Yield a sentence if a model says the same of all examples of a split, or finds nothing."""
    told = details(metric)
    if told.tally is None:
        return
    gold = told.tally([example.gold for example in examples])
    predicted = told.tally(predictions)
    about = f"{split}/predicted"
    noun = sought(told, examples)
    if noun:
        if gold and not predicted:
            text = f"no {noun} is predicted on {split}, which has {gold.total():,}"
            yield Caution(about, text)
        return
    if len(predicted) != 1 or gold.total() < 2 or predicted.keys() == gold.keys():
        return
    (only,) = predicted
    if isinstance(only, float):
        text = f"{only:g} is predicted for all examples of {split}: {UNDEFINED}"
    else:
        most, count = gold.most_common(1)[0]
        other = "" if most == only else f", {most},"
        share = 100 * count / gold.total()
        text = (
            f"always {only} is predicted on {split}; the most frequent label there{other} "
            f"has {share:.1f} %"
        )
    yield Caution(about, text)


def sought(told: Details, examples: Sequence[Example]) -> str:
    """Return what one of the things is called that a task finds in texts, which may have none; ""
    for a task in which every example or word has a label or a number.
    """
    return getattr(examples[0], "sought", told.sought) if told.sought else ""


def of_encoder(name: str, encoder: Any, words: Counter[str]) -> Iterator[Caution]:
    """Yield a sentence on the words that an encoder cannot read, if there are any."""
    misread = encoder.misread(list(words))
    if misread.words:
        yield _of_words("encoder", f"encoder={name}", misread, words)


def of_vectors(vectors: Mapping[str, Any], lowercase: Case, words: Counter[str]) -> Caution:
    """Return a sentence on the words that have none of the pretrained vectors."""
    lacking = [word for word in words if vectors.keys().isdisjoint(forms(word, lowercase))]
    misread = Misread("no vector for", lacking, LACKING)
    return _of_words("vocab.vectors", "vocab.vectors", misread, words)


def _of_words(about: str, owner: str, misread: Misread, words: Counter[str]) -> Caution:
    """Return a sentence on words; it is a warning if they are too large a share."""
    number = len(misread.words)
    total = len(words)
    some = heapq.nlargest(NAMED, misread.words, key=lambda word: words[word])
    examples = f", such as {', '.join(map(repr, some))}" if some else ""
    share = number / max(total, 1)
    return Caution(
        about,
        f"{owner}: {misread.what} {number:,} of {total:,} word types of the corpus "
        f"({100 * share:.1f} %)",
        logging.WARNING if share >= misread.most else logging.INFO,
        examples,
    )


def _named(labels: Sequence[str]) -> str:
    """Return the first of some labels as text: `label A, B, C and 2 more`."""
    first = list(labels[:NAMED])
    first[0] = f"label {first[0]}"
    if len(labels) <= NAMED:
        return listed(first, "or")
    first.append(f"{len(labels) - NAMED:,} more")
    return listed(first, "and")
