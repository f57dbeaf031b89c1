"""The biLM on a GPU, where few large operations are fast: both directions in one product.

- The backward direction reads each sentence from its end, so that both directions have the same
  number of sentences at every step, and one product with stacked weights serves both.
- Sentences are sorted by length, and a step computes only the sentences that still have a token.
- The host reads the lengths back from the GPU once, before the first step, and never waits again.
- Memory holds one copy of the layers: 64 sentences of 5,000 tokens fit in 8 GB at the original
  size.

`stacked_scan.py` computes the steps.

Axes: R directions, B sentences, S places of a sentence, M places of all sentences (B S), N tokens,
one step after the other, L layers, D biLM, P one direction.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from . import bilm
from .bilm import State
from .packed import Snapshot
from .stacked_scan import Clips, Read, StackedScan, Weights, frozen, stack


class Stacked:
    """A copy of a biLM's weights, cast and stacked."""

    def __init__(self, model: bilm.BiLm, dtype: torch.dtype) -> None:
        self.snapshot = Snapshot(model.parameters(), dtype)
        self.layers = [
            stack(_parameters(model, slice(None), layer), dtype)
            for layer in range(model.options.num_layers)
        ]


class Order:
    """The order in which the tokens of a batch are read: step by step, longest sentence first."""

    def __init__(
        self, lengths: Sequence[int], width: int, from_end: Sequence[bool], device: torch.device
    ) -> None:
        """`from_end` says, for each direction, whether it begins with a sentence's last token."""
        length = np.array(lengths, np.int64)
        sentences = np.argsort(-length, kind="stable")
        steps = np.arange(length.max(initial=0))[:, None] < length[sentences]
        step, row = steps.nonzero()
        sentence = sentences[row]
        towards_end, from_there = (
            sentence * width + step,
            sentence * width + length[sentence] - 1 - step,
        )
        places = np.stack([from_there if back else towards_end for back in from_end])
        self.rows: list[int] = steps.sum(1).tolist()  # number of sentences at each step
        self.sentences, self.places, self.unsorted = (
            _on(device, numbers) for numbers in (sentences, places, np.argsort(sentences))
        )
        self.sides = torch.arange(len(from_end), device=device)[:, None]

    def pick(self, x: Float[Tensor, "R M F"]) -> Float[Tensor, "R N F"]:
        """Return the values at the places of the tokens, in reading order."""
        return x[self.sides, self.places]


def read(
    model: bilm.BiLm,
    stacked: Stacked | None,
    x: Float[Tensor, "B S P"],
    lengths: Sequence[int],
    state: State,
) -> tuple[Float[Tensor, "L B S D"], State]:
    """Return all layers and the last state; the token vectors must be 0 past a sentence's end.

    Gradients are computed only without `stacked` weights.
    """
    directions = model.options.directions
    (count, width, size), sides = x.shape, len(directions)
    order = Order(lengths, width, [name == "backward" for name in directions], x.device)
    layers = x.new_zeros(model.num_layers, count * width, sides, size)
    x = x.flatten(0, 1)
    layers[0] = x[:, None]
    x = order.pick(x.expand(sides, -1, -1))
    states = []
    every = _layers(model, stacked, slice(None), x, order, state)
    del x  # free its memory
    for number, (tokens, *after) in enumerate(every, 1):
        layers[number, order.places, order.sides] = tokens
        states.append(after)
    h, c = (torch.stack(parts, 1) for parts in zip(*states, strict=True))
    return layers.view(-1, count, width, sides * size), State(h, c)


def run(
    model: bilm.BiLm,
    stacked: Stacked | None,
    directions: slice,
    x: Float[Tensor, "R B S P"],
    lengths: Sequence[int],
    state: State,
) -> Iterator[tuple[list[Float[Tensor, "B S P"]], State]]:
    """Return the outputs of `bilm.BiLm.run` for these directions, each with its own inputs."""
    count, width = x.shape[1:3]
    order = Order(lengths, width, [False] * len(x), x.device)
    x = x.flatten(1, 2)
    outputs, states = [], []
    every = _layers(model, stacked, directions, order.pick(x), order, state)
    for tokens, *after in every:
        everywhere = torch.zeros_like(x).index_put((order.sides, order.places), tokens)
        outputs.append(everywhere.unflatten(1, (count, width)))
        states.append(after)
    h, c = (torch.stack(parts, 1) for parts in zip(*states, strict=True))
    for side in range(len(x)):
        yield [layer[side] for layer in outputs], State(h[side], c[side])


def _layers(
    model: bilm.BiLm,
    stacked: Stacked | None,
    directions: slice,
    x: Float[Tensor, "R N P"],
    order: Order,
    state: State,
) -> Iterator[Read]:
    """Yield each layer's output and state, with the sentences in their original order.

    Without gradients, a layer's output overwrites the output of the layer below.
    """
    dtype = product_type(state.h)
    clips = Clips(model.options.cell_clip, model.options.projection_clip)
    h, c = (part[directions][:, :, order.sentences] for part in state)
    for layer in range(model.options.num_layers):
        x = F.dropout(x, model.dropout, model.training)
        before = h[:, layer], c[:, layer], order.rows
        with torch.autocast(x.device.type, enabled=False), _current(x.device):
            if stacked:
                weights = Weights(*(part[directions] for part in stacked.layers[layer]))
                out, last_h, last_c = frozen(x, *before, weights, clips)
            else:
                parameters = _parameters(model, directions, layer)
                out, last_h, last_c = StackedScan.apply(x, *before, clips, dtype, *parameters)
        out = out.to(c.dtype)
        if layer and model.options.skip_connections:
            out = x.add_(out) if stacked else x + out
        x = out
        yield x, last_h.to(h.dtype)[:, order.unsorted], last_c[:, order.unsorted]


def _parameters(model: bilm.BiLm, directions: slice, layer: int) -> list[Tensor]:
    lstms = [lstms[layer] for lstms in model.directions[directions]]
    return [parameter for lstm in lstms for parameter in lstm.parameters()]


def product_type(tensor: Tensor) -> torch.dtype:
    """Return the type of products: autocast's type, or the tensor's own."""
    device = tensor.device.type
    return torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else tensor.dtype


def _on(device: torch.device, numbers: np.ndarray) -> Tensor:
    """Copy numbers to a device, without waiting for it."""
    tensor = torch.from_numpy(numbers)
    tensor = tensor.pin_memory() if device.type == "cuda" else tensor
    return tensor.to(device, non_blocking=True)


def _current(device: torch.device) -> AbstractContextManager[None]:
    """Make the device current, since Triton launches on the current GPU, not on the tensors'."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()
