"""The best label sequences of a whole batch under given moves (Viterbi 1967): the only loop is over time.

Axes: B batch, T tokens, K labels.
"""

import torch
from jaxtyping import Bool, Float
from torch import Tensor


def barrier(allowed: list[bool] | list[list[bool]]) -> Float[Tensor, "..."]:
    """0 where a label or move is allowed, minus infinity where not: what is added to scores to forbid it."""
    forbidden = ~torch.tensor(allowed, dtype=torch.bool)
    return torch.zeros(forbidden.shape).masked_fill(forbidden, -torch.inf)


@torch.no_grad()
def viterbi(
    scores: Float[Tensor, "B T K"],
    moves: Float[Tensor, "K K"],
    starts: Float[Tensor, " K"],
    ends: Float[Tensor, " K"],
    mask: Bool[Tensor, "B T"],
) -> list[list[int]]:
    """Each sentence's labels whose scores, moves (from row to column), start and end add up to the most.

    Minus infinity forbids; a sentence that has no allowed sequence gets one that is not allowed.
    """
    scores, into = scores.float(), moves.t().contiguous()
    best = starts + scores[:, 0]  # of all sequences that end at a label, the best one's sum
    sums = [best]
    for t in range(1, scores.shape[1]):
        arrived = (best[:, None] + into).amax(-1) + scores[:, t]
        best = torch.where(mask[:, t, None], arrived, best)
        sums.append(best)
    label = (best + ends).argmax(-1)
    path = [label]
    for t in range(scores.shape[1] - 1, 0, -1):  # where a label came from is asked of the best path only
        label = torch.where(mask[:, t], (sums[t - 1] + into[label]).argmax(-1), label)
        path.append(label)
    rows = torch.stack(path[::-1], 1).tolist()
    return [row[:length] for row, length in zip(rows, mask.sum(1).tolist(), strict=True)]
