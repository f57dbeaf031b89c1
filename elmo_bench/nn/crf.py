"""A linear-chain conditional random field (Lafferty et al. 2001); the only loop is over time.

Axes: B batch, T tokens, K labels.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from .viterbi import viterbi


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
        self, scores: Float[Tensor, "B T K"], labels: Int[Tensor, "B T"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, " B"]:
        """Return log p(labels | scores) of each sentence, in nats; padding is ignored."""
        scores = scores.float()
        return self._path_score(scores, labels, mask) - self._log_partition(scores, mask)

    def _path_score(self, scores: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        emitted = scores.gather(-1, labels[..., None]).squeeze(-1) * mask
        moved = self.transitions[labels[:, :-1], labels[:, 1:]] * mask[:, 1:]
        return emitted.sum(1) + moved.sum(1)

    def _log_partition(self, scores: Tensor, mask: Tensor) -> Tensor:
        scores = scores.permute(1, 2, 0).contiguous()  # "T K B", sentences contiguous
        moves = self.transitions[..., None].expand(-1, -1, len(mask))
        alpha = scores[0]
        alphas = [alpha]
        for score in scores[1:]:
            alpha = (alpha[:, None] + moves).logsumexp(0) + score
            alphas.append(alpha)
        last = (mask.sum(1) - 1).clamp(min=0)
        ended = torch.stack(alphas)[last, :, torch.arange(len(last), device=last.device)]
        return ended.logsumexp(-1)

    @torch.no_grad()
    def decode(self, scores: Float[Tensor, "B T K"], mask: Bool[Tensor, "B T"]) -> list[list[int]]:
        """Return the best allowed label sequence of each sentence, without padding."""
        return viterbi(scores, mask, self.rules, self.transitions)
