"""Exact match and F1 as computed by the official evaluate-v1.1.py, on normalised answers.

Axes: N questions.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from elmo_bench.metrics import ByExample, Counts

from .data import Answer

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> str:
    """Lower-case an answer and remove ASCII punctuation, articles and extra white space.

    >>> normalise("The  rock-and-roll, a U.S. “music”")
    'rockandroll us “music”'
    """
    plain = answer.lower().translate(_NO_PUNCTUATION)
    words = re.sub(r"\b(a|an|the)\b", " ", plain).split()
    return " ".join(words)


def exact_match(predicted: str, gold: Sequence[str]) -> bool:
    """Return whether a prediction equals one of the gold answers after `normalise`."""
    return normalise(predicted) in map(normalise, gold)


def f1(predicted: str, gold: Sequence[str]) -> float:
    """Return the F1 of a prediction's bag of words, the highest over the gold answers.

    >>> f1("this is the best span", ["this is a good span", "something else"])
    0.75
    """
    words = normalise(predicted).split()
    return max((_bag_f1(words, normalise(answer).split()) for answer in gold), default=0.0)


def _bag_f1(predicted: list[str], gold: list[str]) -> float:
    shared = sum((Counter(predicted) & Counter(gold)).values())
    return 2 * shared / (len(predicted) + len(gold)) if shared else 0.0


class AnswerScores(Counts):
    """Exact match and F1, averaged over questions; `labels` is ignored."""

    def __init__(self, labels: Sequence[str] = ()) -> None:
        super().__init__(3, dtype=torch.double)  # questions, exact matches, F1

    def count(
        self, predicted: Sequence[Answer], gold: Sequence[Sequence[str]]
    ) -> Float[Tensor, "N 3"]:
        """Return 1, the exact match and the F1 of each answer."""
        pairs = zip(predicted, gold, strict=True)
        rows = [(1, exact_match(ours.text, right), f1(ours.text, right)) for ours, right in pairs]
        return torch.tensor(rows, dtype=torch.double).reshape(-1, 3)

    def by_example(self, predicted: Sequence[Answer], gold: Sequence[Sequence[str]]) -> ByExample:
        """Return the scores of each answer, for `exact_match` and `f1`."""
        counts = self.count(predicted, gold)
        return {"exact_match": counts[:, None, [1, 0, 1, 0]], "f1": counts[:, None, [2, 0, 2, 0]]}

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `exact_match` and `f1` as fractions of 1; 0 if there are no questions."""
        questions, exact, total = self.counts
        return {"exact_match": exact / questions.clamp(min=1), "f1": total / questions.clamp(min=1)}
