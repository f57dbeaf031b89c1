"""Viterbi decoding (Viterbi 1967) of a batch, with constraints; the only loop is over time.

Axes: B batch, T tokens, K labels.
"""

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

Rules = tuple[list[list[bool]], list[bool], list[bool]]  # which moves, first and last labels are


@torch.no_grad()
def viterbi(
    scores: Float[Tensor, "B T K"],
    mask: Bool[Tensor, "B T"],
    rules: Rules,
    transitions: Float[Tensor, "K K"] | float = 0.0,
) -> list[list[int]]:
    """Return each sentence's label sequence with the highest sum of scores and transitions, of
    those that the `rules` allow (moves from row to column label, first labels, last labels).
    """
    allowed = (torch.tensor(each, device=scores.device) for each in rules)
    moves, starts, ends = (torch.where(each, 0.0, -torch.inf) for each in allowed)
    moves = moves + transitions
    steps = scores.float().permute(1, 2, 0).contiguous()  # "T K B", sentences contiguous
    best = starts[:, None] + steps[0]  # the highest sum of the sequences that end in each label
    sums = [best]
    for step in steps[1:]:
        best = (best[:, None] + moves[..., None]).amax(0) + step
        sums.append(best)
    totals = torch.stack(sums).transpose(1, 2).cpu().numpy()
    into, lengths = moves.t().cpu().numpy(), mask.sum(1).cpu().numpy()
    last = (lengths - 1).clip(min=0)
    label = ended = (totals[last, np.arange(len(last))] + ends.cpu().numpy()).argmax(1)
    path = [label]
    # Backtrack: predecessors are computed only on the best path.
    for t in range(len(totals) - 2, -1, -1):
        label = np.where(last > t, (totals[t] + into[label]).argmax(1), ended)
        path.append(label)
    rows = np.stack(path[::-1], 1).tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]
