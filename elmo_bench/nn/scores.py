"""The layer that scores come from.

Axes: I input features, K scores.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn


class Scores(nn.Linear):
    """A linear layer that computes in its weights' own type under autocast too.

    Scores are compared and added up: the 8 bits of a bfloat16 leave a few dozen different ones, and
    ties decide.
    """

    def forward(self, x: Float[Tensor, "*N I"]) -> Float[Tensor, "*N K"]:
        with torch.autocast(x.device.type, enabled=False):
            return F.linear(x.to(self.weight.dtype), self.weight, self.bias)
