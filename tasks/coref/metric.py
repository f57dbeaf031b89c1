"""MUC, B-cubed and CEAF-e as computed by the official CoNLL scorer 8.01, including singletons.

Each score is a function of (key, response) that returns the numerator and denominator of recall;
with swapped arguments it returns those of precision. A mention is the positions of its first and
last word. A mention that both sides have is in only one cluster of each.

Axes: N documents, S scores.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from elmo_bench.metrics import ByExample, Counts

from .data import Clusters, Mention

Count = tuple[float, float]  # numerator and denominator


def _homes(clusters: Clusters) -> dict[Mention, int]:
    """Return the number of each mention's cluster."""
    homes = {}
    for number, cluster in enumerate(clusters):
        for mention in cluster:
            homes[mention] = number
    return homes


def _overlaps(key: Clusters, response: Clusters) -> list[Counter[int]]:
    """Return, for each cluster of the key, how many of its mentions each response cluster has."""
    homes = _homes(response)
    overlaps = []
    for cluster in key:
        overlaps.append(Counter(homes[mention] for mention in cluster if mention in homes))
    return overlaps


def muc(key: Clusters, response: Clusters) -> Count:
    """MUC: the links of the key that are preserved in the response (Vilain et al. 1995).

    A mention missing from the response counts as a cluster of its own.

    >>> muc([[(0, 0), (1, 1), (2, 2)]], [[(0, 0), (1, 1)]])
    (1.0, 2.0)
    """
    kept = 0
    for overlap in _overlaps(key, response):
        kept += overlap.total() - len(overlap)
    links = sum(map(len, key)) - len(key)
    return float(kept), float(links)


def b3(key: Clusters, response: Clusters) -> Count:
    """B-cubed (Bagga and Baldwin 1998).

    Sums, over the mentions of the key, the share of the mention's cluster that is in the same
    response cluster.

    >>> b3([[(0, 0), (1, 1)]], [[(0, 0)]])
    (0.5, 2.0)
    """
    shares = []
    for cluster, overlap in zip(key, _overlaps(key, response), strict=True):
        for count in overlap.values():
            shares.append(count**2 / len(cluster))
    return float(sum(shares)), float(sum(map(len, key)))


def ceafe(key: Clusters, response: Clusters) -> Count:
    """CEAF-e: the best one-to-one alignment of clusters (Luo 2005).

    The similarity of two clusters is phi4 = 2|K & R| / (|K| + |R|).

    >>> ceafe([[(0, 0), (1, 1)]], [[(0, 0)], [(1, 1), (2, 2)]])
    (0.6666666666666666, 1.0)
    """
    import numpy as np
    from scipy.optimize import linear_sum_assignment

    similarity = np.zeros((len(key), len(response)))
    for row, overlap in enumerate(_overlaps(key, response)):
        for column, count in overlap.items():
            similarity[row, column] = 2 * count / (len(key[row]) + len(response[column]))
    alignment = linear_sum_assignment(similarity, maximize=True)
    return float(similarity[alignment].sum()), float(len(key))


def mentions(key: Clusters, response: Clusters) -> Count:
    """Mention detection: the mentions of the key that are in any cluster of the response."""
    gold = _homes(key).keys()
    predicted = _homes(response).keys()
    return float(len(gold & predicted)), float(len(gold))


SCORES = {"muc": muc, "b3": b3, "ceafe": ceafe, "mentions": mentions}
AVERAGED = ("muc", "b3", "ceafe")


class CorefScores(Counts):
    """Recall, precision and F1 of each score, and `f1`, the mean F1 of MUC, B3 and CEAF-e."""

    sought = "cluster"

    def __init__(self, labels: Iterable[str] = ()) -> None:
        super().__init__(len(SCORES), 4, dtype=torch.double)

    def count(
        self, predicted: Sequence[Clusters], gold: Sequence[Clusters]
    ) -> Float[Tensor, "N S 4"]:
        """Return by score each document's counts: recall's two numbers, then precision's."""
        documents = []
        for response, key in zip(predicted, gold, strict=True):
            documents.append(
                [score(key, response) + score(response, key) for score in SCORES.values()]
            )
        return torch.tensor(documents, dtype=torch.double).reshape(-1, len(SCORES), 4)

    def tally(self, side: Sequence[Clusters]) -> Counter[str]:
        """Return the number of clusters."""
        return +Counter(cluster=sum(map(len, side)))  # empty without clusters

    def by_example(self, predicted: Sequence[Clusters], gold: Sequence[Clusters]) -> ByExample:
        """Return each document's counts, for `f1` (over three scores) and the F1 of each score."""
        counts = self.count(predicted, gold)
        by_score = {f"{name}/f1": counts[:, [number]] for number, name in enumerate(SCORES)}
        averaged = torch.cat([by_score[f"{name}/f1"] for name in AVERAGED], 1)
        return {"f1": averaged} | by_score

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `f1`, and for each score such as MUC `muc/recall`, `muc/precision` and `muc/f1`.

        All are fractions of 1.
        """
        figures: dict[str, Tensor] = {}
        for name, counts in zip(SCORES, self.counts, strict=True):
            recall, precision = (counts[[0, 2]] / counts[[1, 3]]).nan_to_num()
            f1 = (2 * recall * precision / (recall + precision)).nan_to_num()
            figures[f"{name}/precision"] = precision
            figures[f"{name}/recall"] = recall
            figures[f"{name}/f1"] = f1
        mean = torch.stack([figures[f"{name}/f1"] for name in AVERAGED]).mean()
        return {"f1": mean} | figures
