"""The interface of all encoders.

Axes: L layers, B batch, T tokens, D encoder.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor, nn

from elmo_bench.text import Sentences


class Misread(NamedTuple):
    """Words that an encoder does not read as they are written."""

    what: str  # goes before their number: "no vector for"
    words: list[str]
    # The share of a corpus's word types from which a run warns. Here, tokenizers and frames of
    # characters lose at most 0.6 % of the types of corpora in their languages, and 77 % of Telugu.
    most: float = 0.05


@runtime_checkable
class Encoder(Protocol):
    """The interface of encoders: a `torch.nn.Module` that gives each word of a sentence L vectors.

    The layers of a sentence do not depend on the other sentences of its batch; layer 0 is the
    lowest. Some encoders also have `is_static` (a table of word vectors), `forget_words` (it
    remembers vectors of words), `reads_joined` (it reads a sentence of `text.joined` in one
    sequence, and has a summary), or `misread(words)`, which returns as `Misread` those of some word
    types that it cannot read.
    """

    num_layers: int  # L, the number of all layers
    dim: int  # D, the width of a layer

    def fingerprint(self) -> str:
        """Return a hash of all that affects the layers (weights, pooling, ...): the store's key."""
        ...

    def prepare(self, sentences: Sentences) -> Any:
        """Return the encoder's input. The data loader calls this, maybe in a worker process.

        Args:
            sentences: Each a list of words.

        Returns:
            A NamedTuple of tensors whose first axis is B. It may be sliced along B, and moved to a
            device, by its own `to` if it has one.
        """
        ...

    def __call__(
        self, inputs: Any, layers: Sequence[int] | None = None
    ) -> Float[Tensor, "L B T D"]:
        """Return the layers of a batch.

        Args:
            inputs: What `prepare` returns, on the encoder's device.
            layers: Numbers of the layers, in the order of the result; None: all.

        Returns:
            The layers, 0 after the end of a sentence; T is the length of the longest sentence.
        """
        ...

    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Return all parameters in groups, each with a learning rate in fine-tuning.

        Returns:
            The groups, from the top layer's to the embeddings'.
        """
        ...
