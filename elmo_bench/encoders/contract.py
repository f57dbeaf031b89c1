"""The contract of all encoders.

Axes: L layers, B batch, T tokens, D encoder.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

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


class Encoder(nn.Module, ABC):
    """A module that gives each word of a sentence L vectors; every encoder inherits it.

    The layers of a sentence do not depend on the other sentences of its batch; layer 0 is the
    lowest. An encoder sets `num_layers` and `dim`, and has the four methods that are abstract here;
    the rest has defaults.
    """

    num_layers: int  # L, the number of all layers
    dim: int  # D, the width of a layer
    is_static: bool = False  # a table of word vectors: a store would be no faster
    reads_joined: bool = False  # it reads texts that are joined in one sequence (`task.joint`)

    @abstractmethod
    def fingerprint(self) -> str:
        """Return a hash of all that affects the layers (weights, pooling, ...): the store's key."""

    @abstractmethod
    def prepare(self, sentences: Sentences) -> Any:
        """Return the encoder's input. The data loader calls this, maybe in a worker process.

        Args:
            sentences: Each a list of words.

        Returns:
            A NamedTuple of tensors whose first axis is B. It may be sliced along B, and moved to a
            device, by its own `to` if it has one.
        """

    @abstractmethod
    def forward(self, inputs: Any, layers: Sequence[int] | None = None) -> Float[Tensor, "L B T D"]:
        """Return the layers of a batch.

        Args:
            inputs: What `prepare` returns, on the encoder's device.
            layers: Numbers of the layers, in the order of the result; None: all.

        Returns:
            The layers, 0 after the end of a sentence; T is the length of the longest sentence.
        """

    @abstractmethod
    def parameter_groups(self) -> list[list[nn.Parameter]]:
        """Return all parameters in groups, each with a learning rate in fine-tuning.

        Returns:
            The groups, from the top layer's to the embeddings'.
        """

    def misread(self, words: Collection[str]) -> Misread:
        """Return the words that the encoder does not read as they are written; by default none.

        Args:
            words: The word types of a corpus.

        Returns:
            Those words, and what is said of them; a run warns if they are too many.
        """
        return Misread("it does not read", [])

    def forget_words(self) -> None:
        """Have the next vectors depend on nothing that was read before, to the last bit; by
        default they never do.
        """
