"""Scores of predicted numbers: correlations with the right ones."""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from jaxtyping import Float
from scipy.stats import rankdata
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.utilities import dim_zero_cat

from .counts import ByExample, scores_of


class Correlations(Metric):
    """Pearson's and Spearman's correlation of predicted numbers with the right ones."""

    full_state_update = False

    def __init__(self, labels: Iterable[str] = ()) -> None:
        super().__init__()
        self.pairs: list[Tensor]
        self.add_state("pairs", [], dist_reduce_fx="cat")

    def update(self, predicted: Sequence[float], gold: Sequence[float]) -> None:
        """Add the pairs of a batch."""
        pairs = torch.tensor([list(predicted), list(gold)], dtype=torch.double)
        self.pairs.append(pairs.T.to(self.device))

    def tally(self, side: Sequence[float]) -> Counter[float]:
        """Return how often each number occurs."""
        return Counter(map(float, side))

    def by_example(self, predicted: Sequence[float], gold: Sequence[float]) -> ByExample:
        """Return the moments of each example for all scores."""
        x = torch.tensor(list(gold), dtype=torch.double)
        y = torch.tensor(list(predicted), dtype=torch.double)
        # Equal numbers have their mean rank.
        rank_of_x, rank_of_y = torch.from_numpy(rankdata([x, y], axis=1))
        # Moments of numbers far from 0 lose digits; gold's first number is the same for all runs.
        pearson = _moments(x - x[:1], y - x[:1])
        spearman = _moments(rank_of_x, rank_of_y)
        both = torch.cat([pearson, spearman], 1)
        return {"pearson": pearson, "spearman": spearman, "pearson_spearman": both}

    def compute(self) -> dict[str, torch.Tensor]:
        """Return `pearson`, `spearman` (equal numbers have their mean rank), and their mean as
        `pearson_spearman`, which is GLUE's score of similarity (Wang et al. 2018, section 3); from
        -1 to 1, and 0 where all numbers of a side are equal or there is none.
        """
        pairs = dim_zero_cat(self.pairs) if len(self.pairs) else torch.zeros(1, 2)
        return scores_of(self.by_example(*pairs.T.tolist()))


def _moments(x: Float[Tensor, " N"], y: Float[Tensor, " N"]) -> Float[Tensor, "N 1 6"]:
    """Return the six numbers of each pair that sum up to a correlation."""
    return torch.stack([x**0, x, y, x * x, y * y, x * y], -1)[:, None]
