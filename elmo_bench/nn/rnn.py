"""The task's recurrent layers, over padded batches, and their dropout.

Axes: B batch, T tokens, I input features, H output features (both directions).
"""

from collections.abc import Iterable
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from elmo_bench.files import Dropout, Size


def variational_dropout(
    x: Float[Tensor, "B T H"], p: float, training: bool
) -> Float[Tensor, "B T H"]:
    """Drop the same features at every step of a sequence (Gal and Ghahramani 2016)."""
    if not training or p == 0:
        return x
    return x * F.dropout(torch.ones_like(x[:, :1]), p)


class Identity(nn.Module):
    """No RNN: returns its input with dropout, 0 past a sentence's end.

    `sizes` accepts the options of an RNN that a recipe may set, and ignores them.
    """

    def __init__(self, *, input_size: int, dropout: Dropout = 0.0, **sizes: Any) -> None:
        super().__init__()
        self.dim, self.dropout = input_size, dropout

    def forward(
        self, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T I"]:
        return F.dropout(x, self.dropout, self.training) * mask[..., None]


class BiLstm(nn.Module):
    """A bidirectional LSTM with variational dropout on its input; 0 past a sentence's end."""

    def __init__(
        self, *, input_size: int, hidden_size: Size, num_layers: Size = 1, dropout: Dropout = 0.0
    ) -> None:
        super().__init__()
        self.dim, self.dropout = 2 * hidden_size, dropout
        sizes = [input_size if k == 0 else self.dim for k in range(num_layers)]
        self.layers: Any = nn.ModuleList(
            nn.ModuleList(nn.LSTM(size, hidden_size, batch_first=True) for _ in range(2))
            for size in sizes
        )

    def forward(
        self, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T H"]:
        for directions in self.layers:
            x = _both_ways(directions, variational_dropout(x, self.dropout, self.training), mask)
        return x * mask[..., None]


class BiGru(nn.Module):
    """A bidirectional GRU with variational dropout on its input and output; 0 at padding.

    Weights are initialised from a normal distribution with standard deviation 0.05, truncated at
    two deviations, and biases with 0 (Clark and Gardner 2018).
    """

    def __init__(
        self,
        *,
        input_size: int,
        hidden_size: Size,
        dropout: Dropout = 0.0,
        output_dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        self.dim, self.dropout, self.output_dropout = 2 * hidden_size, dropout, output_dropout
        self.directions = nn.ModuleList(
            nn.GRU(input_size, hidden_size, batch_first=True) for _ in range(2)
        )
        for weight in self.directions.parameters():
            if weight.dim() > 1:
                nn.init.trunc_normal_(weight, std=0.05, a=-0.1, b=0.1)
            else:
                nn.init.zeros_(weight)

    def forward(
        self, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T H"]:
        h = _both_ways(self.directions, variational_dropout(x, self.dropout, self.training), mask)
        return variational_dropout(h, self.output_dropout, self.training) * mask[..., None]


def _both_ways(
    directions: Iterable[nn.Module], x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T H"]:
    """Concatenate the outputs of one network from left to right and of another from right to left.

    Both also process the padding, which follows the words in either order and does not affect them.
    On a CPU, torch is nearly twice as fast with padded batches as with packed sequences.
    """
    forward, backward = directions
    time, lengths = torch.arange(mask.shape[1], device=mask.device), mask.sum(1, keepdim=True)
    turned = torch.where(time < lengths, lengths - 1 - time, time)[..., None]
    from_left, _ = forward(x)
    from_right, _ = backward(x.gather(1, turned.expand_as(x)))
    return torch.cat([from_left, from_right.gather(1, turned.expand_as(from_right))], -1)


class ReluBiLstm(nn.Module):
    """Dropout, a ReLU layer, dropout, a BiLSTM: the lowest layers of McCann et al. (2017)."""

    def __init__(
        self,
        *,
        input_size: int,
        projection_size: Size,
        hidden_size: Size,
        input_dropout: Dropout = 0.0,
        dropout: Dropout = 0.0,
    ) -> None:
        super().__init__()
        self.projection = nn.Sequential(
            nn.Dropout(input_dropout),
            nn.Linear(input_size, projection_size),
            nn.ReLU(),
            nn.Dropout(dropout),
        )
        self.bilstm = BiLstm(input_size=projection_size, hidden_size=hidden_size)
        self.dim = self.bilstm.dim

    def forward(
        self, x: Float[Tensor, "B T I"], mask: Bool[Tensor, "B T"]
    ) -> Float[Tensor, "B T H"]:
        return self.bilstm(self.projection(x), mask)
