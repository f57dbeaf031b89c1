"""Two readers: that of Clark and Gardner (2018), with BiDAF, residual self-attention and two span
pointers, and the linear layer of Devlin et al. (2019).

Unlike in the first one's original, recurrent layers skip padding, so that an answer does not depend
on the rest of its batch.

Axes: B batch, T tokens of the paragraph (or of both texts in one sequence), Q tokens of the
question, H features, N answers, W lengths of an answer.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from elmo_bench.bounds import Count, Dropout, Size
from elmo_bench.nn import (
    Backbone,
    BiGru,
    Mask,
    Scores,
    TaskModel,
    attend,
    masked_softmax,
    variational_dropout,
)

from .data import NONE, Answer, Batch


class Reader(TaskModel):
    """What readers share: they score each token as first and as last token of the answer.

    The training target of a question with several answers is drawn at each step.
    `max_answer_length` is the longest answer that is predicted (tokens; None: any length).
    """

    def __init__(self, backbone: Callable[..., Backbone], max_answer_length: int | None) -> None:
        super().__init__()
        self.backbone = backbone()
        self.max_answer_length = max_answer_length

    def loss(self, scores: Float[Tensor, "B 2 T"], batch: Batch) -> Float[Tensor, ""]:
        """Return first plus last token's cross-entropy, averaged over questions with a target."""
        spans = self._targets(batch.answers)
        total = F.cross_entropy(
            scores.flatten(0, 1), spans.flatten(), ignore_index=NONE, reduction="sum"
        )
        return total / (spans[:, 0] != NONE).sum().clamp(min=1)

    def _targets(self, answers: Int[Tensor, "B N 2"]) -> Int[Tensor, "B 2"]:
        counts = (answers[..., 0] != NONE).sum(1)
        drawn = (torch.rand(len(counts), device=counts.device) * counts).long()
        return answers[torch.arange(len(counts), device=counts.device), drawn]

    @torch.no_grad()
    def decode(self, scores: Float[Tensor, "B 2 T"], batch: Batch) -> list[Answer]:
        """Return the best-scoring answers, as substrings of the original texts."""
        first, last = best_spans(scores, self.max_answer_length).T
        rows = torch.arange(len(first), device=first.device)
        starts = batch.offsets[rows, first, 0].tolist()
        ends = batch.offsets[rows, last, 1].tolist()
        spans = zip(batch.texts, starts, ends, strict=True)
        return [Answer(text[start:end], start, end) for text, start, end in spans]


class BiDafPlus(Reader):
    """Bi-attention -> self-attention over the paragraph -> scores of first and last answer token.

    Memory grows with the batch times the square of the paragraph's length.
    """

    needs_joint = False

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        hidden_size: Size,
        dropout: Dropout,
        max_answer_length: Count | None = None,
    ) -> None:
        super().__init__(backbone, max_answer_length)
        self.dropout = dropout
        self.attention = BiAttention(self.backbone.dim)
        self.residual = SelfAttention(hidden_size, dropout=dropout)
        size = self.residual.dim
        self.merge = dense(self.attention.dim, size)
        self.first = BiGru(input_size=size, hidden_size=hidden_size)
        self.last = BiGru(input_size=size + self.first.dim, hidden_size=hidden_size)
        self.first_score = dense(self.first.dim, 1, Scores)
        self.last_score = dense(self.last.dim, 1, Scores)

    def forward(self, batch: Batch) -> Float[Tensor, "B 2 T"]:
        """Return each token's scores as first and as last token of the answer; -inf at padding."""
        asked: Any = batch.question  # not None: `needs_joint` is false
        context = self.backbone(batch.context)
        question = self.backbone(asked)
        mask = batch.context.mask
        merged = self.attention(context, question, mask, asked.mask)
        x = torch.relu(self.merge(merged))
        x = variational_dropout(x + self.residual(x, mask), self.dropout, self.training)
        first = self.first(x, mask)
        last = self.last(torch.cat([x, first], -1), mask)
        scores = torch.cat([self.first_score(first), self.last_score(last)], -1).mT
        return scores.masked_fill(~mask[:, None], -torch.inf)


class Span(Reader):
    """Backbone over question and paragraph in one sequence -> linear (Devlin et al. 2019, 4.2)."""

    needs_joint = True

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        max_answer_length: Count | None = None,
    ) -> None:
        super().__init__(backbone, max_answer_length)
        self.output = Scores(self.backbone.dim, 2)

    def forward(self, batch: Batch) -> Float[Tensor, "B 2 T"]:
        """Return each token's scores as the answer's first and last; -inf outside the paragraph."""
        scores = self.output(self.backbone(batch.context)).mT
        return scores.masked_fill(batch.offsets[:, None, :, 1] == 0, -torch.inf)


class TriLinear(nn.Module):
    """The similarity of each x and y: w . [x; y; x * y] + b (Seo et al. 2017, equation 1)."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(nn.init.xavier_uniform_(torch.empty(3, size)))
        self.bias = nn.Parameter(torch.zeros(()))

    def forward(
        self, x: Float[Tensor, "B T H"], y: Float[Tensor, "B Q H"]
    ) -> Float[Tensor, "B T Q"]:
        of_x, of_y, of_both = self.weight
        return (x @ of_x)[:, :, None] + (y @ of_y)[:, None] + (x * of_both) @ y.mT + self.bias


class BiAttention(nn.Module):
    """Bi-attention of Clark and Gardner (2018), after Seo et al. (2017, section 2).

    Returns [x; q; x * q; x * c] for each paragraph token x, where q is the attention of x over the
    question, and c is the attention over the paragraph by the best match of each token in the
    question. `dim` is the size of the result.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.dim = 4 * size
        self.similarity = TriLinear(size)

    def forward(
        self,
        context: Float[Tensor, "B T H"],
        question: Float[Tensor, "B Q H"],
        mask: Mask,
        question_mask: Bool[Tensor, "B Q"],
    ) -> Float[Tensor, "B T _"]:
        scores = self.similarity(context, question)
        q = attend(scores, question, question_mask[:, None])
        best = scores.masked_fill(~question_mask[:, None], torch.finfo(scores.dtype).min).amax(-1)
        c = attend(best[:, None], context, mask[:, None])
        return torch.cat([context, q, context * q, context * c], -1)


class SelfAttention(nn.Module):
    """Self-attention over the paragraph (Clark and Gardner 2018); the caller adds the input.

    A token attends to the other tokens, but not to itself. It may also attend to nothing, through a
    learned bias in the softmax.
    """

    def __init__(self, hidden_size: int, *, dropout: float) -> None:
        super().__init__()
        self.dim = 2 * hidden_size
        self.encoder = BiGru(
            input_size=self.dim, hidden_size=hidden_size, dropout=dropout, output_dropout=dropout
        )
        self.similarity = TriLinear(self.dim)
        self.nothing = nn.Parameter(torch.tensor(-1.0))
        self.output = dense(3 * self.dim, self.dim)

    def forward(self, x: Float[Tensor, "B T H"], mask: Mask) -> Float[Tensor, "B T H"]:
        r = self.encoder(x, mask)
        seen = self.weights(r, mask) @ r
        return torch.relu(self.output(torch.cat([r, seen, r * seen], -1)))

    def weights(self, r: Float[Tensor, "B T H"], mask: Mask) -> Float[Tensor, "B T T"]:
        """Return attention weights; rows sum to at most 1; 0 at the token itself and at padding."""
        others = mask[:, None] & ~torch.eye(mask.shape[1], dtype=torch.bool, device=mask.device)
        nothing = F.pad(self.nothing.expand(1), (mask.shape[1], 0))
        scores = F.pad(self.similarity(r, r), (0, 1)) + nothing
        return masked_softmax(scores, F.pad(others, (0, 1), value=True))[..., :-1]


def dense(input_size: int, output_size: int, kind: type[nn.Linear] = nn.Linear) -> nn.Linear:
    """Return a linear layer with Glorot and Bengio's (2010) uniform initialisation, bias 0."""
    layer = kind(input_size, output_size)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def best_spans(scores: Float[Tensor, "B 2 T"], max_length: int | None = None) -> Int[Tensor, "B 2"]:
    """Return first and last token (inclusive) of the best span of up to `max_length` tokens.

    >>> best_spans(torch.tensor([[[0.0, 5.0, 1.0], [4.0, 0.0, 3.0]]]), 2)
    tensor([[1, 2]])
    """
    first, last = scores.unbind(1)
    width = min(max_length or first.shape[1], first.shape[1])
    lasts = F.pad(last, (0, width - 1), value=-torch.inf).unfold(1, width, 1)  # "B T W"
    best = (first[..., None] + lasts).flatten(1).argmax(1)
    return torch.stack([best // width, best // width + best % width], 1)
