"""The semantic role labeller of He et al. (2017): tags the words of a sentence for one predicate.

Axes: B batch, T tokens, K labels.
"""

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from elmo_bench.bounds import Size
from elmo_bench.nn import Backbone, Scores, TaskModel, viterbi
from elmo_bench.text import tag_moves

from .data import Batch


class PredicateTagger(TaskModel):
    """Backbone -> linear -> constrained Viterbi over BIO tags.

    The backbone's input includes an embedding of whether the word belongs to the predicate.
    """

    def __init__(
        self, backbone: Callable[..., Backbone], labels: Sequence[str], *, indicator_dim: Size
    ) -> None:
        super().__init__()
        self.backbone = backbone(num_features=indicator_dim)
        self.labels = list(labels)
        self.indicator = nn.Embedding(2, indicator_dim)
        # As in AllenNLP: vectors have norm 1.4; with torch's default they would have norm 10.
        nn.init.xavier_uniform_(self.indicator.weight)
        self.output = Scores(self.backbone.dim, len(self.labels))
        nn.init.orthogonal_(self.output.weight)

    def forward(self, batch: Batch) -> Float[Tensor, "B T K"]:
        return self.output(self.backbone(batch.tokens, self.indicator(batch.predicate.long())))

    def loss(self, scores: Float[Tensor, "B T K"], batch: Batch) -> Float[Tensor, ""]:
        """Return the tags' cross-entropy, averaged over a sentence's words, then over sentences."""
        mask = batch.tokens.mask
        # Flattened, since the kernel for sequences has no deterministic version on GPUs.
        words = scores.flatten(0, 1)
        losses = F.cross_entropy(words, batch.tags.flatten(), reduction="none").view_as(mask)
        return ((losses * mask).sum(1) / mask.sum(1).clamp(min=1)).mean()

    def decode(self, scores: Float[Tensor, "B T K"], batch: Batch) -> list[list[str]]:
        """Return the best valid tag sequence of each sentence; all O if it has no predicate."""
        rows = viterbi(scores.log_softmax(-1), batch.tokens.mask, tag_moves(self.labels))
        predictions = []
        for row, has_predicate in zip(rows, batch.predicate.any(1).tolist(), strict=True):
            if has_predicate:
                predictions.append([self.labels[label] for label in row])
            else:
                predictions.append(["O"] * len(row))
        return predictions
