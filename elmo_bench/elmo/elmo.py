"""ELMo as a task reads it (sections 3.2 and 3.3 of the paper): an encoder and one mix of its layers
for each place.

Axes: L layers, B batch, T tokens, D encoder.
"""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, get_args

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from elmo_bench.bounds import Dropout, NotNegative, one_of

from .mix import Choice, Norm, ScalarMix, chosen_layers

Place = Literal["input", "output"]
PLACES: tuple[Place, ...] = get_args(Place)


class Layers(NamedTuple):
    """The chosen layers of a batch, from a store."""

    layers: Float[Tensor, "L B T D"]


class ElmoVectors(NamedTuple):
    """ELMo_k for the task's input and for its RNN's output; size 0 at a place without a mix."""

    input: Float[Tensor, "B T I"]
    output: Float[Tensor, "B T O"]


class Elmo(nn.Module):
    """Mixes of an encoder's layers, one for each place of a task's model that reads them.

    Args:
        encoder: An `Encoder`; None, the baseline: all sizes are 0.
        mix: The layers: "all", "top", "uniform" (their mean), the number of one, or a list.
        at: The places, "input" and "output" (of the task's RNN).
        dropout: Dropout on the mixed vectors.
        l2: Lambda of the penalty on the mix's logits (section 3.3 of the paper).
        norm: Normalisation of each layer before the mix: "none", "batch" or "word".
        finetune: Whether the encoder is trained; otherwise it is frozen.

    Raises:
        ValueError: A place or a layer does not exist.

    >>> from elmo_bench import load_encoder
    >>> elmo = Elmo(load_encoder("mini"), mix="all").eval()
    >>> inputs = elmo.prepare([["Hello", "world"]])
    >>> elmo(torch.ones(1, 2, dtype=torch.bool), inputs).input.shape  # sentences, words, width
    torch.Size([1, 2, 128])
    """

    def __init__(
        self,
        encoder: Any,
        *,
        mix: Choice = "all",
        at: Sequence[Place] = ("input",),
        dropout: Dropout = 0.5,
        l2: NotNegative = 0.0,
        norm: Norm = "none",
        finetune: bool = False,
    ) -> None:
        super().__init__()
        for place in at:  # nothing would read another one
            one_of("elmo.at", place, PLACES)
        self.encoder = encoder
        self.dropout = dropout
        self.l2 = l2
        self.finetune = finetune
        self.mixes: Any = nn.ModuleDict()
        self.chosen: list[int] = []  # the layers that the mixes read, in order
        if encoder is not None:
            self.chosen = chosen_layers(mix, encoder.num_layers)
            # Lightning preserves the mode of each module.
            encoder.requires_grad_(finetune).train(finetune)
            for place in PLACES:
                if place in at:
                    self.mixes[place] = ScalarMix(encoder.num_layers, mix, norm=norm)

    def dim(self, place: str) -> int:
        """Return the width of the vectors at a place; 0 without a mix."""
        return self.encoder.dim if place in self.mixes else 0

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Any:
        """Return the encoder's input for sentences (lists of words); None without a mix."""
        if not self.mixes:
            return None
        return self.encoder.prepare(sentences)

    def train(self, mode: bool = True) -> "Elmo":
        super().train(mode)
        if self.encoder is not None and not self.finetune:
            self.encoder.eval()  # a frozen encoder has no dropout
        return self

    def forward(self, mask: Bool[Tensor, "B T"], inputs: Any = None) -> ElmoVectors:
        """Return the vectors of words.

        Args:
            mask: (B, T), true at words.
            inputs: What `prepare` returns, or the `Layers` of a store.

        Returns:
            The vectors at each place, (B, T, D); D is 0 without a mix.
        """
        layers = self._layers(inputs, mask.shape[1]) if self.mixes else None
        return ElmoVectors(*(self._at(place, layers, mask) for place in PLACES))

    def _layers(self, inputs: Any, length: int) -> Float[Tensor, "L B T D"]:
        if isinstance(inputs, Layers):
            return inputs.layers
        device = next(iter(self.mixes.values())).gamma.device.type
        with (
            torch.set_grad_enabled(self.finetune and torch.is_grad_enabled()),
            # A frozen encoder has the precision of its own weights, as in a store.
            torch.autocast(device, enabled=self.finetune and torch.is_autocast_enabled(device)),
        ):
            return self.encoder(inputs, self.chosen)[:, :, :length]

    def _at(self, place: str, layers: Tensor | None, mask: Tensor) -> Tensor:
        if place not in self.mixes:
            return torch.zeros(*mask.shape, 0, device=mask.device)
        return F.dropout(self.mixes[place](layers, mask), self.dropout, self.training)

    def penalty(self) -> Float[Tensor, ""] | float:
        """Return lambda times the sum of w squared over all mixes (section 3.3), for the loss."""
        return self.l2 * sum(mix.penalty() for mix in self.mixes.values())
