"""The score of srl-eval.pl (CoNLL-2005) over whole arguments.

A proposition is a predicate with its arguments.

Axes: N propositions, K roles.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from jaxtyping import Int
from torch import Tensor

from elmo_bench.metrics import SpanF1, Tags
from elmo_bench.text import tags_to_spans

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


class ArgumentF1(SpanF1):
    """Precision, recall and F1 over all arguments but the predicates (V), and for each role.

    `labels` are the possible tags; a role that is not among them counts in the totals only.
    Sentences whose gold tags have no V are not propositions and are ignored.
    """

    sought = "argument"

    def __init__(self, labels: Iterable[str]) -> None:
        tags = ["B-V"]
        for label in labels:
            tags.append(label[:2] + label[2:].removeprefix("C-"))
        super().__init__(tags)
        self.verb = self.types.index("V")

    def chunks(self, tags: Tags) -> set[Argument]:
        return arguments(tags)

    def totals(self, counts: Int[Tensor, "*N K 3"]) -> Int[Tensor, "*N 3"]:
        return counts.sum(-2) - counts[..., self.verb, :]

    def tally(self, side: Sequence[Tags]) -> Counter[str]:
        counts = super().tally(side)
        del counts["V"]
        return counts

    def count(self, predicted: Sequence[Tags], gold: Sequence[Tags]) -> Int[Tensor, "N K 3"]:
        counts = super().count(predicted, gold)
        is_proposition = counts[:, self.verb, 2] > 0
        return counts * is_proposition[:, None, None]
