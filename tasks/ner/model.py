"""The NER model of Peters et al. (2018): backbone, second BiLSTM and CRF over BIOUL tags.

Axes: B batch, T tokens, K labels.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from elmo_bench.bounds import Dropout, Size
from elmo_bench.nn import Backbone, BiLstm, Crf, Identity, Scores, TaskModel
from elmo_bench.text import spans_to_iob2, tag_moves, tags_to_spans

from .data import Batch


class BiLstmCrf(TaskModel):
    """Backbone -> variational dropout -> BiLSTM -> dropout -> linear -> CRF.

    With `hidden_size=None` there is no upper BiLSTM: backbone -> dropout -> linear -> CRF. With
    `crf=False` the tags of a sentence are chosen apart, as by Devlin et al. (2019, section 5.3).
    """

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        hidden_size: Size | None,
        dropout: Dropout,
        output_dropout: Dropout = 0.0,
        crf: bool = True,
    ) -> None:
        super().__init__()
        self.backbone = backbone()
        self.labels = list(labels)
        self.output_dropout = output_dropout
        kind: Any = BiLstm if hidden_size else Identity
        self.upper = kind(input_size=self.backbone.dim, hidden_size=hidden_size, dropout=dropout)
        self.output = Scores(self.upper.dim, len(self.labels))
        self.crf = Crf(*tag_moves(self.labels, bioul=True)) if crf else None
        self.sums_losses = crf

    def forward(self, batch: Batch) -> Float[Tensor, "B T K"]:
        h = self.upper(self.backbone(batch.tokens), batch.tokens.mask)
        return self.output(F.dropout(h, self.output_dropout, self.training))

    def loss(self, scores: Float[Tensor, "B T K"], batch: Batch) -> Float[Tensor, ""]:
        """Return the batch's negative log-likelihood, summed: `elmo.l2` is for this scale.
        Without the CRF it is the mean over a sentence's words, then over sentences.
        """
        mask = batch.tokens.mask
        if self.crf is None:
            losses = F.cross_entropy(scores[mask], batch.tags[mask], reduction="none")
            shares = (mask / mask.sum(1, keepdim=True))[mask]  # of a word in its sentence
            return (losses * shares).sum() / len(mask)
        return -self.crf.log_likelihood(scores, batch.tags, mask).sum()

    def decode(self, scores: Float[Tensor, "B T K"], batch: Batch) -> list[list[str]]:
        """Return the highest-scoring tags of each sentence, as IOB2."""
        if self.crf is None:
            best = zip(scores.argmax(-1).tolist(), batch.tokens.lengths, strict=True)
            rows = [row[:length] for row, length in best]
        else:
            rows = self.crf.decode(scores, batch.tokens.mask)
        predictions = []
        for row in rows:
            bioul = [self.labels[label] for label in row]
            predictions.append(spans_to_iob2(tags_to_spans(bioul), len(bioul)))
        return predictions
