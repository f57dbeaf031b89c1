"""How a task reads ELMo (section 3.3): [x_k; ELMo_k] -> the task's lowest RNN -> [h_k; ELMo_k].

Axes: B batch, T tokens, H features.
"""

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo_bench.elmo import Elmo, ElmoVectors

from .tokens import Tokens


class Backbone(nn.Module):
    """The part of every task's model that is the same for all: embeddings, ELMo, the lowest RNN.

    A task's model is given everything but `num_features`, the width of input vectors of its own,
    and makes its backbone itself.
    """

    def __init__(
        self, embed: Any, elmo: Elmo, rnn: Callable[..., Any], *, num_features: int = 0
    ) -> None:
        super().__init__()
        self.embed, self.elmo = embed, elmo
        self.rnn = rnn(input_size=embed.dim + elmo.dim("input") + num_features)
        self.dim: int = self.rnn.dim + elmo.dim("output")

    def forward(self, tokens: Tokens, *features: Float[Tensor, "B T _"]) -> Float[Tensor, "B T H"]:
        """The tokens in context; `features` are a task's own inputs (SRL's indicator, say)."""
        elmo = self.read_elmo(tokens)
        x = torch.cat([self.embed(tokens), elmo.input, *features], -1)
        return torch.cat([self.run(x, tokens), elmo.output], -1)

    def run(self, x: Float[Tensor, "B T _"], tokens: Tokens) -> Float[Tensor, "B T _"]:
        """The lowest RNN over these vectors; one that `takes_lengths` has those of the sentences
        beside the mask, as they are known on the host.
        """
        if getattr(self.rnn, "takes_lengths", False):
            return self.rnn(x, tokens.mask, tokens.lengths)
        return self.rnn(x, tokens.mask)

    def read_elmo(self, tokens: Tokens) -> ElmoVectors:
        """ELMo_k for both places, from whatever the batch has of it."""
        inputs = tokens.inputs
        if inputs is None and tokens.layers is None and tokens.sentences is not None:
            inputs = self.elmo.prepare(tokens.sentences)
        return self.elmo(tokens.mask, inputs, tokens.layers)
