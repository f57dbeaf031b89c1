"""The norms of layers, as a mix reads them."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from elmo_bench.metrics import Mean


class LayerNorms(nn.Module):
    """The mean norm of each layer, as a mix reads it, over the words of dev."""

    def __init__(self, mixes: nn.ModuleDict) -> None:
        super().__init__()
        self.mixes: list[tuple[str, Any]] = list(mixes.items())
        self.norms: Any = nn.ModuleDict()
        for place, mix in self.mixes:
            self.norms[place] = Mean(len(mix.layers), dtype=torch.double)
        self.hooks: list[Any] = []
        self.read: list[tuple[Mean, Tensor, Tensor]] = []  # measured, and not yet added

    def watch(self) -> None:
        """Measure whatever the mixes read, until `means` is called."""
        for place, mix in self.mixes:
            hook = mix.register_forward_pre_hook(partial(_measure, self.norms[place], self.read))
            self.hooks.append(hook)

    def add(self) -> None:
        """Add what the mixes have read since the last call."""
        for norms, sums, count in self.read:
            norms.update(sums, count)
        self.read.clear()

    def means(self) -> dict[str, list[float]]:
        """Return the mean norm of each layer by place, over all processes, and end measuring."""
        while self.hooks:
            self.hooks.pop().remove()
        # torchmetrics returns a single value as a scalar.
        means = {}
        for place, norms in self.norms.items():
            means[place] = norms.compute().flatten().tolist()
        for norms in self.norms.values():
            norms.reset()
        return means


def _measure(norms: Mean, read: list, mix: Any, given: tuple[Tensor, Tensor]) -> None:
    layers, mask = given
    of_words = mix.normed(layers, mask).norm(dim=-1, dtype=torch.float32) * mask
    read.append((norms, of_words.sum((1, 2)), mask.sum()))
