"""Sampled softmax for a large vocabulary, as the original's: TensorFlow's `sampled_softmax_loss`
over log-uniform candidates.

Word number k (the vocabulary is sorted by frequency) is drawn with probability log((k + 2) / (k +
1)) / log(V + 1), near to what Zipf's law says of real text. The score of every candidate, the
target too, is lowered by the logarithm of how often it was to be expected among the candidates
(Jean et al. 2015; Bengio and Senecal 2008), so that training finds what the full softmax would.

Axes: N tokens, S samples, P one direction, V vocabulary, R candidates (of all tokens: targets and
samples, each once).
"""

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

# Scores (tokens x samples) in memory at once.
_CPU_SCORES = 1 << 20  # the size of its caches
_GPU_SCORES = 1 << 26


def log_uniform(numbers: Int[np.ndarray, "*K"], size: int) -> Float[np.ndarray, "*K"]:
    """Return the probability of word indices in one draw from a vocabulary of `size`."""
    return np.log1p(1.0 / (numbers + 1.0)) / math.log(size + 1)


def draw(samples: int, size: int, rng: np.random.Generator) -> tuple[Int[np.ndarray, " S"], int]:
    """Draw until there are `samples` different words; return them and the number of draws. Raises
    ValueError if the vocabulary has too few words.
    """
    if samples >= size:
        raise ValueError(f"samples={samples}, but they must be fewer than the {size} words")
    drawn = np.empty(0, dtype=np.int64)
    while True:
        more = np.exp(rng.random(max(samples, len(drawn))) * math.log(size + 1))
        drawn = np.concatenate([drawn, np.minimum(more.astype(np.int64) - 1, size - 1)])
        first = np.sort(np.unique(drawn, return_index=True)[1])
        if len(first) >= samples:
            return drawn[first[:samples]], int(first[samples - 1]) + 1


class Candidates(NamedTuple):
    """The candidates of one direction's tokens in a step, and the logs of their expected counts."""

    targets: Int[Tensor, " N"]  # indices into the gathered rows
    samples: Int[Tensor, " S"]
    log_target_counts: Float[Tensor, " N"]
    log_sample_counts: Float[Tensor, " S"]


def candidates(
    targets: list[Int[np.ndarray, " N"]], samples: int, size: int, rng: np.random.Generator
) -> tuple[Int[Tensor, " R"], list[Candidates]]:
    """Return the softmax rows that a step uses, in order, and each direction's candidates."""
    draws = []
    words = list(targets)
    for _ in targets:
        sampled, tries = draw(samples, size, rng)
        draws.append((sampled, tries))
        words.append(sampled)
    rows = np.unique(np.concatenate(words))
    results = []
    for goal, (sampled, tries) in zip(targets, draws, strict=True):
        chosen = Candidates(
            targets=torch.from_numpy(np.searchsorted(rows, goal)),
            samples=torch.from_numpy(np.searchsorted(rows, sampled)),
            log_target_counts=_log_counts(goal, tries, size),
            log_sample_counts=_log_counts(sampled, tries, size),
        )
        results.append(chosen)
    return torch.from_numpy(rows), results


def _log_counts(numbers: Int[np.ndarray, " K"], tries: int, size: int) -> Float[Tensor, " K"]:
    """Return log(1 - (1 - p)^tries): how likely a word is to be drawn at least once."""
    log_missed = tries * np.log1p(-log_uniform(numbers, size))
    return torch.from_numpy(np.log(-np.expm1(log_missed))).float()


def sampled_loss(
    x: Float[Tensor, "N P"],
    weight: Float[Tensor, "R P"],
    bias: Float[Tensor, " R"],
    chosen: Candidates,
) -> Float[Tensor, ""]:
    """The summed negative log likelihood of each target among itself and the samples, in nats.

    A sample that is a token's own target (an accidental hit) does not count for that token.
    """
    targets, samples, log_target_counts, log_sample_counts = chosen
    right = (x * weight[targets]).sum(-1).to(bias.dtype) + bias[targets] - log_target_counts
    place = targets.new_full((len(weight),), -1)
    place[samples] = torch.arange(len(samples), device=targets.device)
    device = x.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else x.dtype
    with torch.autocast(device, enabled=False):
        sample_weight = weight.index_select(0, samples)
        sample_bias = bias.index_select(0, samples) - log_sample_counts
        return _Sampled.apply(x, sample_weight, sample_bias, right, place[targets], dtype)


class _Sampled(torch.autograd.Function):
    """(x, weights of the samples, their biases, scores of the targets, each target's place among
    the samples or -1) -> the loss. The gradient is taken on the way, some tokens at a time.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "N P"],
        weight: Float[Tensor, "S P"],
        bias: Float[Tensor, " S"],
        right: Float[Tensor, " N"],
        hits: Int[Tensor, " N"],
        dtype: torch.dtype,
    ) -> Float[Tensor, ""]:
        x_low = x.to(dtype)
        weight_low = weight.to(dtype)
        loss = right.new_zeros(())
        grad_x = torch.zeros_like(x)
        grad_weight = torch.zeros_like(weight)
        grad_bias = torch.zeros_like(bias)
        grad_right = torch.zeros_like(right)
        num_scores = _GPU_SCORES if x.device.type == "cuda" else _CPU_SCORES
        size = max(1, num_scores // len(weight))
        for start in range(0, len(x), size):
            part = slice(start, start + size)
            scores = (x_low[part] @ weight_low.T).to(bias.dtype).add_(bias)
            column = hits[part].clamp(min=0)[:, None]
            score = scores.gather(1, column).masked_fill_(hits[part][:, None] >= 0, -math.inf)
            scores.scatter_(1, column, score)  # avoids waiting for a GPU to find the hits
            highest = torch.maximum(scores.amax(1), right[part])
            own = (right[part] - highest).exp()
            shares = scores.sub_(highest[:, None]).exp_()
            total = shares.sum(1) + own
            loss += (total.log() + highest - right[part]).sum()
            shares.div_(total[:, None])
            low = shares.to(dtype)
            grad_x[part] = low @ weight_low
            grad_weight.add_(low.T @ x_low[part])
            grad_bias.add_(shares.sum(0))
            grad_right[part] = own / total - 1
        ctx.save_for_backward(grad_x, grad_weight, grad_bias, grad_right)
        return loss

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        return *(grad * grads[0] for grad in ctx.saved_tensors), None, None
