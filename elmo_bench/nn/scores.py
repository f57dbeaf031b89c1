"""The linear layer that computes scores.

Axes: I input features, K scores.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Scores(nn.Linear):
    """A linear layer that computes in its weights' type, even under autocast.

    Scores are compared and summed. The 8 bits of a bfloat16 would leave only a few dozen distinct
    scores, so that ties decide.
    """

    def forward(self, x: Float[Tensor, "*N I"]) -> Float[Tensor, "*N K"]:
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x.to(self.weight.dtype), self.weight, self.bias)
