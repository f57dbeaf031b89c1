"""The vectors of the word types that a frozen biLM has read on a CPU.

Axes: N words, C characters, P one direction.
"""

import copy
import threading

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.text.chars import PAD

from .char_cnn import CharCnn
from .packed import PackedLinear

CNN_TYPES = 256  # word types in a batch of the character CNN
KNOWN_TYPES = 1 << 15  # word types in the cache


class WordCache:
    """A character CNN with a cache of word types, which is cleared when it is full."""

    def __init__(self, cnn: CharCnn) -> None:
        self.cnn = copy.deepcopy(cnn).requires_grad_(False)
        for module in list(self.cnn.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Linear):
                    setattr(module, name, PackedLinear(child.weight, child.bias))
        self.lock = threading.RLock()
        self.vectors = cnn.projection.weight.new_empty(0, cnn.projection.out_features)
        self.forget()

    def forget(self) -> None:
        """Empty the cache."""
        with self.lock:
            self.numbers: dict[bytes, int] = {}
            self.vectors = self.vectors[:0]

    def __call__(self, chars: Int[Tensor, "N C"]) -> Float[Tensor, "N P"]:
        """Return a vector for every word, including padding."""
        keys = [word.tobytes() for word in chars.numpy().astype(np.int16)]
        with self.lock:
            new = {key: row for row, key in enumerate(keys) if key not in self.numbers}
            if len(self.numbers) + len(new) > KNOWN_TYPES:
                self.forget()
                new = {key: row for row, key in enumerate(keys)}
            if new:
                lengths = (chars != PAD).sum(1).tolist()
                # Sort by length, since the CNN's cost depends on the longest word of a batch.
                rows = sorted(new.values(), key=lambda row: lengths[row])
                vectors = [self.cnn(part) for part in chars[rows].split(CNN_TYPES)]
                self.vectors = torch.cat([self.vectors, *vectors])
                self.numbers |= {
                    keys[row]: number for number, row in enumerate(rows, len(self.numbers))
                }
            return self.vectors[torch.tensor([self.numbers[key] for key in keys])]
