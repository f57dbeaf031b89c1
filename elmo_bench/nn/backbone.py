"""ELMo in a task's model (Peters et al. 2018, section 3.3): [x_k; ELMo_k] -> the task's lowest
RNN -> [h_k; ELMo_k].

Axes: B batch, T tokens, H features.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from elmo_bench.elmo import Elmo, ElmoVectors

from .embed import Embed
from .rnn import Rnn
from .tokens import Tokens


class Backbone(nn.Module):
    """The common part of all task models: embeddings, ELMo and the lowest RNN.

    Each task's model creates its own backbone. It receives all arguments from the config except
    `num_features`, the width of the task's additional input vectors.
    """

    def __init__(
        self, embed: Embed, elmo: Elmo, rnn: Callable[..., Rnn], *, num_features: int = 0
    ) -> None:
        super().__init__()
        self.embed = embed
        self.elmo = elmo
        self.rnn = rnn(input_size=embed.dim + elmo.dim("input") + num_features)
        self.dim: int = self.rnn.dim + elmo.dim("output")

    def forward(self, tokens: Tokens, *features: Float[Tensor, "B T _"]) -> Float[Tensor, "B T H"]:
        """Return the tokens in context; `features` are a task's own inputs, such as SRL's
        predicate indicator.
        """
        elmo = self.read_elmo(tokens)
        inputs = [self.embed(tokens), elmo.input]
        inputs += features
        h = self.run(torch.cat(inputs, -1), tokens)
        return torch.cat([h, elmo.output], -1)

    def run(self, x: Float[Tensor, "B T _"], tokens: Tokens) -> Float[Tensor, "B T _"]:
        """Run the lowest RNN over these vectors.

        RNNs with `takes_lengths` also get the sentences' lengths, which are known on the host.
        """
        if self.rnn.takes_lengths:
            return self.rnn(x, tokens.mask, tokens.lengths.tolist())
        return self.rnn(x, tokens.mask)

    def read_elmo(self, tokens: Tokens) -> ElmoVectors:
        """Return ELMo_k for both places."""
        inputs = tokens.elmo
        if inputs is None and tokens.sentences is not None:
            inputs = self.elmo.prepare(tokens.sentences)
        return self.elmo(tokens.mask, inputs)
