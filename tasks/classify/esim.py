"""ESIM, the sequential model of Chen et al. (2017), as trained by Peters et al. (2018).

Axes: B batch, T tokens of the premise, U tokens of the hypothesis, H features, K labels.
"""

from collections.abc import Callable, Sequence
from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo_bench.bounds import Dropout, NotNegative, Size
from elmo_bench.nn import Backbone, BiLstm, Mask, Scores, Tokens, attend, masked_max, masked_mean

from .classifier import Classifier, ClassWeights
from .examples import Batch


class Esim(Classifier):
    """Backbone -> attention to the other sentence -> ReLU -> BiLSTM -> mean, maximum -> labels.

    `dropout` applies before the BiLSTM (variational) and before each layer of the classifier,
    `attention_dropout` after attention. `l2` is the weight in the loss of the squared recurrent and
    feed-forward weights (not biases, embeddings or the encoder).
    """

    num_texts = 2
    needs_joint = False

    def __init__(
        self,
        backbone: Callable[..., Backbone],
        labels: Sequence[str],
        *,
        hidden_size: Size,
        dropout: Dropout,
        attention_dropout: Dropout = 0.0,
        l2: NotNegative = 0.0,
        class_weights: ClassWeights = None,
    ) -> None:
        super().__init__(backbone, labels, class_weights)
        self.l2 = l2
        self.projection = nn.Sequential(
            nn.Dropout(attention_dropout), nn.Linear(4 * self.backbone.dim, hidden_size), nn.ReLU()
        )
        self.composition = BiLstm(input_size=hidden_size, hidden_size=hidden_size, dropout=dropout)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(4 * self.composition.dim, hidden_size),
            nn.ReLU(),
            nn.Dropout(dropout),
            Scores(hidden_size, self.num_scores),
        )
        self._initialise()

    def _initialise(self) -> None:
        """Initialise the weights as AllenNLP's configuration of the model does.

        Recurrent (hidden-to-hidden) weights are orthogonal, all others Glorot uniform; biases are
        0, except that those of the forget gates are 1.
        """
        for part in (self.backbone.rnn, self.composition):
            for module in part.modules():
                if isinstance(module, nn.LSTM):
                    _initialise_lstm(module)
        for layers in (self.projection, self.classifier):
            for layer in layers:
                if isinstance(layer, nn.Linear):
                    nn.init.xavier_uniform_(layer.weight)
                    nn.init.zeros_(layer.bias)

    def scores(self, batch: Batch) -> Float[Tensor, "B K"]:
        premises = batch.first
        hypotheses = cast(Tokens, batch.second)
        premise = self.backbone(premises)
        hypothesis = self.backbone(hypotheses)
        scores = premise @ hypothesis.mT
        of_premise = attend(scores, hypothesis, hypotheses.mask[:, None])
        of_hypothesis = attend(scores.mT, premise, premises.mask[:, None])
        first = self._compose(premise, of_premise, premises.mask)
        second = self._compose(hypothesis, of_hypothesis, hypotheses.mask)
        return self.classifier(torch.cat([first, second], -1))

    def _compose(
        self, x: Float[Tensor, "B T H"], context: Float[Tensor, "B T H"], mask: Mask
    ) -> Float[Tensor, "B _"]:
        """Compose a sentence with its context in the other and pool it (sections 3.2, 3.3)."""
        x = self.projection(torch.cat([x, context, x - context, x * context], -1))
        x = self.composition(x, mask)
        return torch.cat([masked_mean(x, mask), masked_max(x, mask)], -1)

    def loss(self, scores: Float[Tensor, "B K"], batch: Batch) -> Float[Tensor, ""]:
        """Return the loss of `Classifier`, plus the L2 penalty."""
        penalty: Tensor | float = 0.0
        for part in (self.backbone.rnn, self.projection, self.composition, self.classifier):
            for weight in part.parameters():
                if weight.ndim > 1:  # no bias
                    penalty = penalty + weight.square().sum()
        return super().loss(scores, batch) + self.l2 * penalty


def _initialise_lstm(lstm: nn.LSTM) -> None:
    for name, weight in lstm.named_parameters():
        if name.startswith("bias"):
            nn.init.zeros_(weight)
            if name.startswith("bias_hh"):  # of the gates i, f, g, o
                nn.init.ones_(weight[lstm.hidden_size : 2 * lstm.hidden_size])
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(weight)
        else:
            nn.init.xavier_uniform_(weight)
