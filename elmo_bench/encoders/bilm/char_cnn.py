"""The token encoder of a biLM: from the characters of a word to its context-independent vector.

Axes: N words, C characters, W places of a filter in a word, K taps of a filter, F filters, V size
of the alphabet, E a character's vector, P one direction.
"""

import copy
import threading
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from elmo_bench.text.chars import NUM_CHARACTERS, PAD

from .options import Options
from .scan import PackedLinear

WORDS = 128  # words whose outputs at all places are in memory at once
CACHE_BATCH = 256  # word types in a batch of the cache
KNOWN_TYPES = 1 << 15  # word types in the cache


class Highway(nn.Module):
    """y = g * relu(W_t x + b_t) + (1 - g) * x with g = sigmoid(W_c x + b_c).

    The gate opens the *transformed* branch.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.carry = nn.Linear(size, size)
        self.transform = nn.Linear(size, size)
        for layer in (self.carry, self.transform):
            nn.init.normal_(layer.weight, std=size**-0.5)
        nn.init.constant_(self.carry.bias, -2.0)
        nn.init.zeros_(self.transform.bias)

    def forward(self, x: Float[Tensor, "*N F"]) -> Float[Tensor, "*N F"]:
        gate = torch.sigmoid(self.carry(x))
        return gate * F.relu(self.transform(x)) + (1 - gate) * x


class CharCnn(nn.Module):
    """Convolutions over characters, their maximum over a word, highway layers and a projection.

    As in the original, the maximum includes padding characters, which have a trained embedding.
    """

    def __init__(self, options: Options) -> None:
        super().__init__()
        self.activation = torch.relu if options.activation == "relu" else torch.tanh
        self.embedding = nn.Embedding(NUM_CHARACTERS, options.char_dim, padding_idx=0)
        convolutions: list[Any] = []
        size = 0
        for width, count in options.filters:
            convolutions.append(nn.Conv1d(options.char_dim, count, width))
            size += count
        self.convolutions: Any = nn.ModuleList(convolutions)
        self.highways = nn.ModuleList(Highway(size) for _ in range(options.num_highway))
        self.projection = nn.Linear(size, options.projection_size)
        # Initialised as bilm-tf does.
        nn.init.uniform_(self.embedding.weight[1:], -1.0, 1.0)
        for convolution, (width, _) in zip(convolutions, options.filters, strict=True):
            if options.activation == "relu":
                nn.init.uniform_(convolution.weight, -0.05, 0.05)
            else:
                nn.init.normal_(convolution.weight, std=(width * options.char_dim) ** -0.5)
            nn.init.zeros_(convolution.bias)
        nn.init.normal_(self.projection.weight, std=size**-0.5)
        nn.init.zeros_(self.projection.bias)

    def forward(self, chars: Int[Tensor, "N C"]) -> Float[Tensor, "N P"]:
        # All windows of pad characters give the same value: past the longest word, one of the
        # widest filter's is enough.
        longest = int(((chars > 0) & (chars != PAD)).sum(-1).amax())
        widest = max(conv.kernel_size[0] for conv in self.convolutions)
        used = chars[:, : longest + widest]
        highest = self._by_table(used) if used.is_cpu else self._by_convolution(used)
        x = self.activation(highest)
        for highway in self.highways:
            x = highway(x)
        return self.projection(x)

    def _by_convolution(self, chars: Int[Tensor, "N C"]) -> Float[Tensor, "N F"]:
        """Return the maximum output of each filter over all places in a word."""
        characters = self.embedding(chars).transpose(1, 2)  # "N E C"
        highest = []
        for convolution in self.convolutions:
            outputs = convolution(characters)
            # `amax` is faster, but its gradient, split among ties, is five times slower.
            highest.append(outputs.max(-1).values if outputs.requires_grad else outputs.amax(-1))
        return torch.cat(highest, -1)

    def _by_table(self, chars: Int[Tensor, "N C"]) -> Float[Tensor, "N F"]:
        """Return the same, several times faster on a CPU.

        There are only 262 characters, so the contribution of each character to each filter and tap
        is computed once. An output is then the sum of one row for each tap.
        """
        weight = self.embedding.weight
        highest = []
        # Character 0 is padding and gets no gradient.
        vectors = torch.cat([weight[:1].detach(), weight[1:]])
        with torch.autocast("cpu", enabled=False):
            for conv in self.convolutions:
                filters = conv.weight.permute(1, 2, 0)  # "E K F"
                table = (vectors @ filters.flatten(1)).view(len(vectors), *filters.shape[1:])
                highest.append(_highest_sum(chars, table) + conv.bias)
        return torch.cat(highest, -1)


def _highest_sum(chars: Int[Tensor, "N C"], table: Float[Tensor, "V K F"]) -> Float[Tensor, "N F"]:
    """Return the maximum over a word's places of the sum of a row for each tap.

    The gradient reaches only the place of each filter's maximum, while a convolution's gradient
    visits all places.
    """
    num_taps = table.shape[1]
    rows = table.detach().flatten(0, 1)
    numbers = chars.unfold(1, num_taps, 1) * num_taps + torch.arange(num_taps)  # "N W K"
    needs_place = table.requires_grad and torch.is_grad_enabled()
    highest = []
    for part in numbers.split(WORDS):
        bags = F.embedding_bag(part.flatten(0, 1), rows, mode="sum")
        sums = bags.unflatten(0, part.shape[:2])
        # `argmax` is slower.
        highest.append(sums.max(1).indices if needs_place else sums.amax(1))
    if not needs_place:
        return torch.cat(highest)
    place = torch.cat(highest)
    ids = chars.long()
    of_taps = [table[:, tap].gather(0, ids.gather(1, place + tap)) for tap in range(num_taps)]
    return torch.stack(of_taps).sum(0)


class WordCache:
    """A frozen character CNN on a CPU with a cache of word types, which is cleared when full."""

    def __init__(self, cnn: CharCnn) -> None:
        self.cnn = copy.deepcopy(cnn).requires_grad_(False)
        self.size = cnn.projection.out_features
        for module in list(self.cnn.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Linear):
                    setattr(module, name, PackedLinear(child.weight, child.bias))
        self.lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Empty the cache."""
        with self.lock:
            self.numbers: dict[bytes, int] = {}
            self.vectors = self.cnn.embedding.weight.new_empty(0, self.size)

    def __call__(self, chars: Int[Tensor, "N C"]) -> Float[Tensor, "N P"]:
        """Return a vector for every word, including padding."""
        keys = [word.tobytes() for word in chars.numpy().astype(np.int16)]
        with self.lock:
            new = {key: row for row, key in enumerate(keys) if key not in self.numbers}
            if len(self.numbers) + len(new) > KNOWN_TYPES:
                self.forget()
                new = {key: row for row, key in enumerate(keys)}
            if new:
                self._add(chars, keys, list(new.values()))
            return self.vectors[torch.tensor([self.numbers[key] for key in keys])]

    def _add(self, chars: Int[Tensor, "N C"], keys: list[bytes], rows: list[int]) -> None:
        """Compute the vectors of the words in `rows`, and keep them by their keys."""
        lengths = (chars != PAD).sum(1).tolist()
        # Sort by length, since the CNN's cost depends on the longest word of a batch.
        by_length = sorted(rows, key=lambda row: lengths[row])
        vectors = [self.vectors]
        for part in chars[by_length].split(CACHE_BATCH):
            vectors.append(self.cnn(part))
        self.vectors = torch.cat(vectors)
        for row in by_length:
            self.numbers[keys[row]] = len(self.numbers)
