"""What gives layers: the contract that every encoder keeps.

Axes: L layers, B batch, T tokens, D encoder.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn


@runtime_checkable
class Encoder(Protocol):
    """A `torch.nn.Module` that turns sentences, lists of words, into layers: a vector a word and
    layer.

    A sentence's layers depend on no other sentence of its batch. Layer 0 is the lowest one.
    """

    num_layers: int  # L, all of them
    dim: int  # D, the width of a layer

    def fingerprint(self) -> str:
        """A hash of whatever changes a number: weights, pooling, precision ...; stores are kept
        under it.
        """
        ...

    def prepare(self, sentences: Sequence[Sequence[str]]) -> Any:
        """A batch as the encoder reads it: a NamedTuple of tensors, the first axis of each of them
        B.

        The loader calls it, perhaps in a worker process; what it returns may be cut along B and
        moved to a device.
        """
        ...

    def __call__(
        self, inputs: Any, layers: Sequence[int] | None = None
    ) -> Float[Tensor, "L B T D"]:
        """The layers asked for, in that order, or all; 0 past a sentence's end. T is the longest
        sentence's length.
        """
        ...

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """All parameters, the top layer's first, the embeddings' last: fine-tuning has a learning
        rate for each group.
        """
        ...
