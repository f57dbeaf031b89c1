"""A linear-chain conditional random field (Lafferty et al. 2001) and Viterbi decoding; the only
loops are over time.

Axes: B batch, T tokens, K labels.
"""

from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.elmo import Mask

Rules = tuple[list[list[bool]], list[bool], list[bool]]  # allowed moves, first and last labels


class Crf(nn.Module):
    """Transition scores between labels, for likelihood and decoding.

    The likelihood normalises over all label sequences. Constraints apply only to decoding:
    `moves[j][k]`, `starts[k]` and `ends[k]` mark the allowed transitions, first and last labels.
    """

    def __init__(self, moves: list[list[bool]], starts: list[bool], ends: list[bool]) -> None:
        super().__init__()
        self.rules = moves, starts, ends
        weight = nn.init.xavier_normal_(torch.empty(len(starts), len(starts)))
        self.transitions = nn.Parameter(weight)  # from row label to column label

    def log_likelihood(
        self, scores: Float[Tensor, "B T K"], labels: Int[Tensor, "B T"], mask: Mask
    ) -> Float[Tensor, " B"]:
        """Return log p(labels | scores) of each sentence, in nats; padding is ignored."""
        exact = scores.float()
        emitted = exact.gather(-1, labels[..., None]).squeeze(-1) * mask
        moved = self.transitions[labels[:, :-1], labels[:, 1:]] * mask[:, 1:]
        return emitted.sum(1) + moved.sum(1) - self._log_partition(exact, mask)

    def _log_partition(self, scores: Tensor, mask: Tensor) -> Tensor:
        steps = scores.permute(1, 2, 0).contiguous()  # "T K B", sentences contiguous
        moves = self.transitions[..., None].expand(-1, -1, len(mask))
        alpha = steps[0]  # the log sum of the sequences that end in each label
        alphas = [alpha]
        for step in steps[1:]:
            alpha = (alpha[:, None] + moves).logsumexp(0) + step
            alphas.append(alpha)
        last = (mask.sum(1) - 1).clamp(min=0)
        ended = torch.stack(alphas)[last, :, torch.arange(len(last), device=last.device)]
        return ended.logsumexp(-1)

    def decode(self, scores: Float[Tensor, "B T K"], mask: Mask) -> list[list[int]]:
        """Return the best allowed label sequence of each sentence, without padding."""
        return viterbi(scores, mask, self.rules, self.transitions)


@torch.no_grad()
def viterbi(
    scores: Float[Tensor, "B T K"],
    mask: Mask,
    rules: Rules,
    transitions: Float[Tensor, "K K"] | float = 0.0,
) -> list[list[int]]:
    """Return each sentence's label sequence with the highest sum of scores and transitions, of
    those that the `rules` allow (Viterbi 1967).
    """
    allowed_moves, allowed_starts, allowed_ends = rules
    moves = _as_scores(allowed_moves, scores.device) + transitions
    starts = _as_scores(allowed_starts, scores.device)
    ends = _as_scores(allowed_ends, scores.device)
    steps = scores.float().permute(1, 2, 0).contiguous()  # "T K B", sentences contiguous
    best = starts[:, None] + steps[0]  # the highest sum of the sequences that end in each label
    sums = [best]
    for step in steps[1:]:
        best = (best[:, None] + moves[..., None]).amax(0) + step
        sums.append(best)
    totals = torch.stack(sums).transpose(1, 2).cpu().numpy()
    into = moves.t().cpu().numpy()
    lengths = mask.sum(1).cpu().numpy()
    last = (lengths - 1).clip(min=0)
    ended = (totals[last, np.arange(len(last))] + ends.cpu().numpy()).argmax(1)
    label = ended
    path = [label]
    # Backtrack: predecessors are computed only on the best path.
    for t in range(len(totals) - 2, -1, -1):
        label = np.where(last > t, (totals[t] + into[label]).argmax(1), ended)
        path.append(label)
    rows = np.stack(path[::-1], 1).tolist()
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]


def _as_scores(allowed: Any, device: torch.device) -> Tensor:
    """Return 0 for what is allowed, and minus infinity for all else."""
    return torch.where(torch.tensor(allowed, device=device), 0.0, -torch.inf).float()
