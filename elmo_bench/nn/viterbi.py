"""The best label sequences of a whole batch under given moves (Viterbi 1967): the only loop is over
time.

Axes: B batch, T tokens, K labels.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor


def barrier(allowed: list[bool] | list[list[bool]]) -> Float[Tensor, "..."]:
    """0 where a label or move is allowed, minus infinity where not: what is added to scores to
    forbid it.
    """
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
    """Each sentence's labels whose scores, moves (from row to column), start and end add up to the
    most.

    Minus infinity forbids; a sentence that has no allowed sequence gets one that is not allowed.
    """
    moves, starts, ends = moves.float(), starts.float(), ends.float()
    steps = scores.float().permute(1, 2, 0).contiguous()  # "T K B": sentences side by side
    best, into = (
        starts[:, None] + steps[0],
        moves[..., None],
    )  # of all sequences that end at a label, the best one's sum
    sums = [best]
    for step in steps[1:]:
        best = (best[:, None] + into).amax(0) + step
        sums.append(best)
    found, origins, lengths = (
        x.cpu().numpy() for x in (torch.stack(sums).transpose(1, 2), moves.t(), mask.sum(1))
    )
    last = (lengths - 1).clip(min=0)
    label = ended = (found[last, np.arange(len(last))] + ends.cpu().numpy()).argmax(1)
    path = [label]
    for t in range(
        len(found) - 2, -1, -1
    ):  # where a label came from is asked of the best path only
        label = np.where(last > t, (found[t] + origins[label]).argmax(1), ended)
        path.append(label)
    rows = np.stack(path[::-1], 1).tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]
