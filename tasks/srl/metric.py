"""The score of srl-eval.pl (CoNLL-2005) over whole arguments.

A proposition is a predicate with its arguments.

Axes: N propositions, K roles.
"""

from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Int
from torch import Tensor
from torchmetrics import Metric

from elmo_bench.text import tags_to_spans
from elmo_bench.training.metrics import ByExample, chunks_by_example, precision_recall_f1

Tags = Sequence[str]
Argument = tuple[str, frozenset[tuple[int, int]]]


def arguments(tags: Tags) -> set[Argument]:
    """Return the arguments in BIO tags: a role and its phrases, each as (first, last) token.

    C-X continues the latest X as one more phrase; without an X before it, it is an X. R-X is a role
    of its own.

    >>> roles = {("A1", frozenset({(0, 0), (2, 2)})), ("V", frozenset({(1, 1)}))}
    >>> arguments(["B-A1", "B-V", "B-C-A1"]) == roles
    True
    """
    spans: list[tuple[str, list[tuple[int, int]]]] = []
    latest: dict[str, list[tuple[int, int]]] = {}
    for role, start, end in tags_to_spans(tags):
        continued = role.removeprefix("C-")
        if role != continued and continued in latest:
            latest[continued].append((start, end))
        else:
            latest[continued] = [(start, end)]
            spans.append((continued, latest[continued]))
    return {(role, frozenset(phrases)) for role, phrases in spans}


class ArgumentF1(Metric):
    """Precision, recall and F1 over all arguments but the predicates (V), and for each role.

    `labels` are the possible tags; a role that is not among them counts in the totals only.
    Sentences whose gold tags have no V are not propositions and are ignored.
    """

    full_state_update = False

    def __init__(self, labels: Iterable[str]) -> None:
        super().__init__()
        self.roles = sorted({label.partition("-")[2].removeprefix("C-") for label in labels} - {""})
        self.counts: torch.Tensor  # (roles, then unknown roles) x (correct, predicted, gold)
        self.add_state(
            "counts", torch.zeros(len(self.roles) + 1, 3, dtype=torch.long), dist_reduce_fx="sum"
        )

    def update(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> None:
        """Add the counts of a batch of propositions."""
        self.counts += self._count(predicted, gold).sum(0).to(self.counts.device)

    def by_example(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> ByExample:
        """Return each proposition's counts for `precision`, `recall`, `f1` over all roles but V."""
        return chunks_by_example(self._count(predicted, gold)[:, self._scored].sum(1))

    @property
    def _scored(self) -> list[int]:
        return [number for number, role in enumerate([*self.roles, ""]) if role != "V"]

    def _count(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> Int[Tensor, "N K 3"]:
        numbers = {role: number for number, role in enumerate(self.roles)}
        counts = torch.zeros(len(gold), *self.counts.shape, dtype=torch.long)
        for row, ours, theirs in zip(counts, predicted, gold, strict=True):
            guessed, true = arguments(ours), arguments(theirs)
            if not any(role == "V" for role, _ in true):
                continue
            for column, counted in enumerate((guessed & true, guessed, true)):
                for role, _ in counted:
                    row[numbers.get(role, -1), column] += 1
        return counts

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `precision`, `recall`, `f1` over all roles but V, and of each role (`ARG0/f1`)."""
        figures = precision_recall_f1("", self.counts[self._scored].sum(0))
        for role, counts in zip(self.roles, self.counts, strict=False):
            if counts.any():
                figures |= precision_recall_f1(f"{role}/", counts)
        return figures
