"""The interface of all encoders.

Axes: L layers, B batch, T tokens, D encoder.
"""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from elmo_bench.text import Sentences


@runtime_checkable
class Encoder(Protocol):
    """A `torch.nn.Module` that maps sentences, as lists of words, to layers with one vector per
    word.

    The layers of a sentence do not depend on the other sentences of its batch. Layer 0 is the
    lowest. Some encoders also have `is_static` and `has_vector` (a table of word vectors),
    `forget_words` (it remembers the vectors of words) or `reads_joined` (a sentence of
    `text.joined` is read in one sequence, and has a summary).
    """

    num_layers: int  # L, the number of all layers
    dim: int  # D, the width of a layer

    def fingerprint(self) -> str:
        """Return a hash of everything that affects the layers: weights, pooling, precision, ...; it
        is the key of the store.
        """
        ...

    def prepare(self, sentences: Sentences) -> Any:
        """Convert sentences to the encoder's input: a NamedTuple of tensors whose first axis is B.

        Called by the data loader, possibly in a worker process. The result may be sliced along B
        and moved to a device, by its own `to` if it has one.
        """
        ...

    def __call__(
        self, inputs: Any, layers: Sequence[int] | None = None
    ) -> Float[Tensor, "L B T D"]:
        """Return the requested layers in that order, or all of them; 0 after the end of a sentence.
        T is the length of the longest sentence.
        """
        ...

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Return all parameters in groups, from the top layer's to the embeddings'; fine-tuning has
        a learning rate for each group.
        """
        ...
