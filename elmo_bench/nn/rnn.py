"""The task's recurrent layers and their dropout: over padded batches, or (highway LSTMs) packed
ones.

A batch is packed once: sentences are sorted by length, longest first, and tokens are ordered by
step. The sentences with a step t are then the first n_t rows of each state, so padding costs
nothing. A backward layer visits the steps from last to first, and sentences join on the way, so
nothing needs to be reversed.

Axes: B batch, T tokens, N tokens of the whole batch, I input features, H output features (of both
directions, if they are concatenated).
"""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_bench.bounds import Dropout, Size
from elmo_bench.elmo import Mask

from .tokens import to_device


def variational_dropout(
    x: Float[Tensor, "B T H"], p: float, training: bool
) -> Float[Tensor, "B T H"]:
    """Drop the same features at every step of a sequence (Gal and Ghahramani 2016)."""
    if not training or p == 0:
        return x
    return x * F.dropout(torch.ones_like(x[:, :1]), p)


class Rnn(nn.Module):
    """The contract of a task's RNN: a module of (vectors, mask) that gives words vectors "B T H",
    made with `input_size`, the width of its input.
    """

    dim: int  # H
    takes_lengths: bool = False  # whether `forward` also takes the sentences' lengths


class Identity(Rnn):
    """No RNN: dropout, 0 past a sentence's end. `sizes` takes options of an RNN, without effect."""

    def __init__(self, *, input_size: int, dropout: Dropout = 0.0, **sizes: Any) -> None:
        super().__init__()
        self.dim = input_size
        self.dropout = dropout

    def forward(self, x: Float[Tensor, "B T I"], mask: Mask) -> Float[Tensor, "B T I"]:
        return F.dropout(x, self.dropout, self.training) * mask[..., None]


class BiLstm(Rnn):
    """A bidirectional LSTM with variational dropout on its input; 0 past a sentence's end."""

    def __init__(
        self, *, input_size: int, hidden_size: Size, num_layers: Size = 1, dropout: Dropout = 0.0
    ) -> None:
        super().__init__()
        self.dim = 2 * hidden_size
        self.dropout = dropout
        self.layers: Any = nn.ModuleList()
        layer_size = input_size
        for _ in range(num_layers):
            directions = [nn.LSTM(layer_size, hidden_size, batch_first=True) for _ in range(2)]
            self.layers.append(nn.ModuleList(directions))
            layer_size = self.dim

    def forward(self, x: Float[Tensor, "B T I"], mask: Mask) -> Float[Tensor, "B T H"]:
        for directions in self.layers:
            x = variational_dropout(x, self.dropout, self.training)
            x = _both_ways(directions, x, mask)
        return x * mask[..., None]


class BiGru(Rnn):
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
        self.dim = 2 * hidden_size
        self.dropout = dropout
        self.output_dropout = output_dropout
        self.directions = nn.ModuleList(
            nn.GRU(input_size, hidden_size, batch_first=True) for _ in range(2)
        )
        for weight in self.directions.parameters():
            if weight.dim() > 1:
                nn.init.trunc_normal_(weight, std=0.05, a=-0.1, b=0.1)
            else:
                nn.init.zeros_(weight)

    def forward(self, x: Float[Tensor, "B T I"], mask: Mask) -> Float[Tensor, "B T H"]:
        dropped = variational_dropout(x, self.dropout, self.training)
        h = _both_ways(self.directions, dropped, mask)
        return variational_dropout(h, self.output_dropout, self.training) * mask[..., None]


def _both_ways(
    directions: Iterable[nn.Module], x: Float[Tensor, "B T I"], mask: Mask
) -> Float[Tensor, "B T H"]:
    """Concatenate the outputs of one network from left to right and of another from right to left.

    Both also process the padding, which follows the words in either order and does not affect them.
    On a CPU, torch is nearly twice as fast with padded batches as with packed sequences.
    """
    forward, backward = directions
    time = torch.arange(mask.shape[1], device=mask.device)
    lengths = mask.sum(1, keepdim=True)
    turned = torch.where(time < lengths, lengths - 1 - time, time)[..., None]
    from_left, _ = forward(x)
    from_right, _ = backward(x.gather(1, turned.expand_as(x)))
    return torch.cat([from_left, from_right.gather(1, turned.expand_as(from_right))], -1)


class ReluBiLstm(Rnn):
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

    def forward(self, x: Float[Tensor, "B T I"], mask: Mask) -> Float[Tensor, "B T H"]:
        return self.bilstm(self.projection(x), mask)


class HighwayLstm(nn.Module):
    """One layer, in one direction: h = r * (o * tanh c) + (1 - r) * x'.

    x' is a linear projection of the input. The rows of both weights are ordered i, f, o, r and the
    candidate g; the rows of x' come last in `input`.
    """

    def __init__(self, *, input_size: int, hidden_size: int, backward: bool = False) -> None:
        super().__init__()
        self.dim = hidden_size
        self.backward = backward
        self.input = nn.Linear(input_size, 6 * hidden_size, bias=False)
        self.state = nn.Linear(hidden_size, 5 * hidden_size)
        with torch.no_grad():
            for weight in (self.input.weight, self.state.weight):
                for block in weight.split(self.dim):
                    nn.init.orthogonal_(block)
            self.state.bias.zero_()
            self.state.bias[self.dim : 2 * self.dim] = 1  # forget bias of 1

    def forward(
        self, x: Float[Tensor, "N I"], sizes: Sequence[int], dropout_mask: Float[Tensor, "B H"]
    ) -> Float[Tensor, "N H"]:
        """Return the outputs at the tokens; `sizes` is the number of sentences at each step.

        `dropout_mask` has a row for each sentence, and applies to the output of each step. Under
        autocast only the products are in the lower precision, because the cell accumulates small
        changes over a sentence.
        """
        bias = self.state.bias
        projected = self.input(x)  # all steps at once
        weight = self.state.weight.t().to(projected)
        kept = dropout_mask.to(bias)
        gates, skip = projected.to(bias).split([5 * self.dim, self.dim], 1)
        steps = list(zip((gates + bias).split(sizes), skip.split(sizes), strict=True))
        if self.backward:
            steps.reverse()
        h = bias.new_zeros(0, self.dim)
        c = h
        outputs = []
        with torch.autocast(x.device.type, enabled=False):
            for from_input, step_skip in steps:
                size = len(step_skip)
                h = _resize(h, size)
                c = _resize(c, size)
                step_gates = torch.addmm(from_input.to(weight), h.to(weight), weight).to(c)
                i, f, o, r = step_gates[:, : 4 * self.dim].sigmoid().chunk(4, 1)
                c = torch.addcmul(f * c, i, step_gates[:, 4 * self.dim :].tanh())
                h = torch.lerp(step_skip, o * c.tanh(), r) * kept[:size]
                outputs.append(h)
        if self.backward:
            outputs.reverse()
        return torch.cat(outputs)


def _resize(state: Float[Tensor, "_ H"], size: int) -> Float[Tensor, "_ H"]:
    """Return the state of the first `size` sentences; new sentences start with 0."""
    return state[:size] if size <= len(state) else F.pad(state, (0, 0, 0, size - len(state)))


class AlternatingHighwayLstm(Rnn):
    """A stack of highway LSTMs with directions forward, backward, forward ...; 0 at padding (He et
    al. 2017, section 2.1).

    `dropout` is recurrent and variational, with one mask for each sentence and layer. It applies to
    the output that a step passes to the next step and to the next layer (He et al. 2017, and
    AllenNLP before version 0.8.2, which the paper used).
    """

    takes_lengths = True

    def __init__(
        self, *, input_size: int, hidden_size: Size, num_layers: Size, dropout: Dropout = 0.0
    ) -> None:
        super().__init__()
        self.dim = hidden_size
        self.dropout = dropout
        self.layers = nn.ModuleList()
        for number in range(num_layers):
            layer = HighwayLstm(
                input_size=input_size if number == 0 else hidden_size,
                hidden_size=hidden_size,
                backward=number % 2 == 1,
            )
            self.layers.append(layer)

    def forward(
        self, x: Float[Tensor, "B T I"], mask: Mask, lengths: Sequence[int] | None = None
    ) -> Float[Tensor, "B T H"]:
        """Return the last layer's output; without `lengths`, the host waits for those of `mask`."""
        given = mask.sum(1).tolist() if lengths is None else lengths
        # A sentence without words has one step, on padding.
        num_steps = torch.tensor(given).clamp(min=1)
        sorted_steps, order_on_host = num_steps.sort(descending=True, stable=True)
        order = to_device(order_on_host, x)
        packed = pack_padded_sequence(x.index_select(0, order), sorted_steps, batch_first=True)
        h = packed.data
        sizes = packed.batch_sizes.tolist()
        for layer in self.layers:
            dropout_mask = F.dropout(h.new_ones(len(x), self.dim), self.dropout, self.training)
            h = layer(h, sizes, dropout_mask)
        padded, _ = pad_packed_sequence(
            packed._replace(data=h), batch_first=True, total_length=mask.shape[1]
        )
        return padded.index_select(0, order.argsort()) * mask[..., None]
