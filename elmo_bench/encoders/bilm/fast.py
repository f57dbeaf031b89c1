"""The biLM to use: the numbers of `bilm.py`, many times faster.

                                  CPU                        GPU
    which sentences at which step this file                  stacked.py
    the products of a layer       packed.py                  stacked_scan.py
    with gradients                scan.py                    stacked_scan.py, graphs.py
    between a step's products     step.py, native.c          cell.py, kernels.py
    the character CNN             lookup.py, native.c        bilm.py

What is in C (`native.py` loads it) and in Triton (`kernels.py`) is in torch beside it, and may be
missing. On a GPU both directions are read at once. On a CPU:

- A word type goes through the character CNN once; without gradients, a table remembers it for the
  batches to come.
- Sentences are read in order of length, and a step computes only those that still have a token.
- Input weights are multiplied for several steps at a time, the first layer's once for each word
  type.
- Weights are packed once, as oneDNN multiplies fastest: with few rows that more than doubles the
  speed of a product.
- Where a gradient is wanted, `scan.py` has it, written by hand.

Axes: B batch, T tokens, C characters, P one direction, Z cell, G gates (4 Z), I input of a layer, N
rows of a product.
"""

import copy
import threading
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from . import bilm, stacked, step
from .bilm import FORGET_BIAS, CharCnn, ProjectedLstm, State
from .chars import PAD
from .graphs import Graphs
from .lookup import LookupCnn
from .packed import PackedLinear, Snapshot, warn_of_bfloat16
from .scan import Scan
from .stacked import Stacked, product_type
from .stacked_scan import StackedScan

CNN_TYPES = 256  # word types that go through the character CNN at a time
KNOWN_TYPES = 1 << 15  # word types whose vectors are remembered
INPUT_ROWS = 512  # tokens whose input weights are multiplied at a time
# Numbers in a weight whose product is worth a search for rows that are the same.
TYPES_PAY = 1 << 20
STACKED_ON = ("cuda",)  # the types of devices on which `stacked.py` reads
GPU_TYPES = 1 << 12  # as CNN_TYPES, where none are remembered


class BiLm(bilm.BiLm):
    """The biLM, fast: stacked on a GPU; on a CPU with packed weights, or `Scan` for gradients; else
    as it is defined.

    What packing or stacking needs besides the parameters is made anew when one of them has changed,
    and is neither saved nor copied. A change in place through `parameter.data` is one that torch
    does not count, and so goes unnoticed.
    """

    # Whether it runs under autocast: the LSTMs' products in bfloat16, all else in float32.
    bf16 = False
    char_cnn = LookupCnn
    # For training on windows of one shape on a GPU, by a loop such as `Graphs` asks for.
    graphs: Graphs | None = None
    _packed: "Packed | Stacked | None" = None

    def read(
        self, chars: Int[Tensor, "B T C"], state: State | None = None, *, boundaries: bool = False
    ) -> tuple[Float[Tensor, "L B S D"], State]:
        with torch.autocast(chars.device.type, torch.bfloat16) if self.bf16 else nullcontext():
            layers, state = super().read(chars, state, boundaries=boundaries)
        return layers.to(state.c.dtype), state  # without packed weights bfloat16 is what came out

    def fingerprint(self) -> str:
        """As that of the definition, and what it multiplies in."""
        return super().fingerprint() + ("-bfloat16" if self.bf16 else "")

    def token_layer(self, chars: Int[Tensor, "B T C"]) -> Float[Tensor, "B T P"]:
        packed, trains = self._pack(Packed), self._trains()
        with torch.autocast(chars.device.type, enabled=False):
            if not chars.numel() or torch.compiler.is_compiling():
                return super().token_layer(chars)
            if packed:
                return packed.types(chars)
            types, numbers = chars.flatten(0, 1).unique(dim=0, return_inverse=True)
            size = len(types) if trains else GPU_TYPES
            vectors = [super(BiLm, self).token_layer(part[None])[0] for part in types.split(size)]
            return torch.cat(vectors)[numbers].unflatten(0, chars.shape[:2])

    def read_framed(
        self, chars: Int[Tensor, "B S C"], lengths: Int[Tensor, " B"], state: State
    ) -> tuple[Float[Tensor, "L B S D"], State]:
        if not _stacks(chars.device):
            return super().read_framed(chars, lengths, state)
        mask = torch.arange(chars.shape[1], device=chars.device) < lengths[:, None]
        return stacked.read(
            self,
            self._pack(Stacked, *state),
            self.token_layer(chars) * mask[..., None],
            lengths.tolist(),
            state,
        )

    def run_directions(
        self,
        inputs: Sequence[Float[Tensor, "B T P"]],
        mask: Bool[Tensor, "B T"] | None,
        state: State,
    ) -> Iterator[tuple[list[Float[Tensor, "B T P"]], State]]:
        if not _stacks(inputs[0].device) or (lengths := _lengths(inputs[0], mask)) is None:
            return super().run_directions(inputs, mask, state)
        kept, x = self._pack(Stacked, *inputs, *state), torch.stack([*inputs])
        graphs = self.graphs if mask is None and self._trains(x) else None
        scan = graphs or StackedScan.apply
        return stacked.run(self, kept, slice(None), x, lengths, state, scan)

    def run(
        self,
        direction: int,
        x: Float[Tensor, "B T P"],
        mask: Bool[Tensor, "B T"] | None,
        state: State,
    ) -> tuple[list[Float[Tensor, "B T P"]], State]:
        if _stacks(x.device):
            if (lengths := _lengths(x, mask)) is None:
                return super().run(direction, x, mask, state)
            kept, one = self._pack(Stacked, x, *state), slice(direction, direction + 1)
            return next(stacked.run(self, kept, one, x[None], lengths, state))
        mask = x.new_ones(x.shape[:2], dtype=torch.bool) if mask is None else mask
        packed, trains = self._pack(Packed, x, *state), self._trains(x, *state)
        order = mask.sum(1).argsort(descending=True, stable=True)
        steps = mask[order].T  # "T B"
        rows = [count for count in steps.sum(1).tolist() if count]
        if not (packed or trains) or not rows or (mask[:, 1:] > mask[:, :-1]).any():
            return super().run(direction, x, mask, state)
        back, x = order.argsort(), x[order].transpose(0, 1)[steps]
        outputs, hs, cs = [], [], []
        for layer, lstm in enumerate(self.directions[direction]):
            before = state.h[direction, layer, order], state.c[direction, layer, order]
            x = F.dropout(x, self.dropout, self.training)
            if packed:
                out, h, c = packed.directions[direction][layer](x, rows, *before, types=not layer)
            else:
                out, h, c = scan(lstm, x, rows, *before)
            x = out + x if layer and self.options.skip_connections else out
            padded = x.new_zeros(*steps.shape, x.shape[1]).index_put((steps,), x)
            outputs.append(padded.transpose(0, 1)[back])
            hs.append(h[back])
            cs.append(c[back])
        return outputs, State(torch.stack(hs), torch.stack(cs))

    def _trains(self, *inputs: Tensor) -> bool:
        """Whether a gradient is wanted."""
        return torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*inputs, *self.parameters())
        )

    def _pack(self, kind: type, *inputs: Tensor) -> Any:
        """The parameters as they are now, as `Packed` or `Stacked`; None where gradients are
        wanted, or where this is not the kind for the device.
        """
        weights = list(self.parameters())
        device, dtype = weights[0].device, product_type(weights[0])
        if kind is not (Stacked if _stacks(device) else Packed):
            return None
        unfit = device.type not in ("cpu", *STACKED_ON) or any(w.is_inference() for w in weights)
        if self.training or unfit or self._trains(*inputs) or torch.compiler.is_compiling():
            self._packed = None
        elif not (isinstance(self._packed, kind) and self._packed.snapshot.is_of(weights, dtype)):
            self._packed = None  # its memory first
            self._packed = kind(self, dtype)
        return self._packed

    def __getstate__(self) -> dict[str, Any]:
        made = ("_packed", "graphs")
        return {name: value for name, value in self.__dict__.items() if name not in made}


class Packed:
    """A biLM's parameters as they were when this was made, and the word types that it has met."""

    def __init__(self, bilm: bilm.BiLm, dtype: torch.dtype) -> None:
        if dtype == torch.bfloat16:
            warn_of_bfloat16("encoder.precision=bfloat16 (or trainer.precision=bf16-mixed)")
        self.snapshot = Snapshot(bilm.parameters(), dtype)
        self.types = WordTypes(bilm.token_encoder)
        self.directions = [
            [PackedLstm(lstm, dtype) for lstm in direction] for direction in bilm.directions
        ]


class WordTypes:
    """The character CNN with a memory, which begins anew when it would hold too much."""

    def __init__(self, cnn: CharCnn) -> None:
        self.cnn = copy.deepcopy(cnn).requires_grad_(False)
        for module in list(self.cnn.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Linear):
                    setattr(module, name, PackedLinear(child.weight, child.bias))
        self.lock = threading.Lock()
        self.numbers: dict[bytes, int] = {}
        self.vectors = cnn.projection.weight.new_empty(0, cnn.projection.out_features)

    def __call__(self, chars: Int[Tensor, "B T C"]) -> Float[Tensor, "B T P"]:
        """A vector for every frame, also for those past a sentence's end."""
        frames = chars.flatten(0, 1)
        keys = [frame.tobytes() for frame in frames.numpy().astype(np.int16)]
        with self.lock:
            new = {key: row for row, key in enumerate(keys) if key not in self.numbers}
            if len(self.numbers) + len(new) > KNOWN_TYPES:
                self.numbers, self.vectors = {}, self.vectors[:0]
                new = {key: row for row, key in enumerate(keys)}
            if new:
                lengths = (frames != PAD).sum(1).tolist()
                # By length: the CNN reads as far as the longest word of a part.
                rows = sorted(new.values(), key=lambda row: lengths[row])
                vectors = [self.cnn(part[None])[0] for part in frames[rows].split(CNN_TYPES)]
                self.vectors = torch.cat([self.vectors, *vectors])
                self.numbers |= {
                    keys[row]: number for number, row in enumerate(rows, len(self.numbers))
                }
            numbers = torch.tensor([self.numbers[key] for key in keys])
            return self.vectors[numbers].unflatten(0, chars.shape[:2])


class PackedLstm:
    """`bilm.ProjectedLstm` over sentences that come longest first."""

    def __init__(self, lstm: ProjectedLstm, dtype: torch.dtype) -> None:
        weight, bias, projection = (parameter.detach().clone() for parameter in lstm.parameters())
        bias.chunk(4)[2].add_(FORGET_BIAS)
        size = len(projection)
        input_weight, state_weight = weight.split([weight.shape[1] - size, size], dim=1)
        self.from_input = PackedLinear(input_weight.to(dtype), bias)
        self.types_pay = input_weight.numel() >= TYPES_PAY
        self.from_state = PackedLinear(state_weight.to(dtype))
        self.project = PackedLinear(projection.to(dtype))
        self.dtype, self.cell_clip, self.projection_clip = (
            dtype,
            lstm.cell_clip,
            lstm.projection_clip,
        )

    def __call__(
        self,
        x: Float[Tensor, "N I"],
        rows: Sequence[int],
        h: Float[Tensor, "B P"],
        c: Float[Tensor, "B Z"],
        *,
        types: bool,
    ) -> tuple[Float[Tensor, "N P"], Float[Tensor, "B P"], Float[Tensor, "B Z"]]:
        """The outputs, and the state after the last step, which overwrites h and c.

        `rows` says how many sentences have a token at each step; x has one step after the other.
        `types` says that many rows of x are the same.
        """
        outputs, state = h.new_empty(len(x), h.shape[1]), h.to(self.dtype)
        gated = torch.empty_like(c, dtype=self.dtype)
        steps = zip(rows, outputs.split(rows), self._inputs(x, rows, types), strict=True)
        for n, output, (inputs, numbers) in steps:
            product, now, through = self.from_state(state[:n]), c[:n], gated[:n]
            step.forward(product, inputs, numbers, now, None, now, through, self.cell_clip)
            state = self.project(through).clamp_(-self.projection_clip, self.projection_clip)
            output.copy_(state)
            h[:n] = state
        return outputs, h, c

    def _inputs(
        self, x: Float[Tensor, "N I"], rows: Sequence[int], types: bool
    ) -> Iterator[tuple[Float[Tensor, "U G"], Int[Tensor, " N"] | None]]:
        """W_x x_t + b of each step, computed for `INPUT_ROWS` tokens or so at a time; and which of
        these each row has, where that is not its own.
        """
        ends, x = np.cumsum(rows), x.to(self.dtype)
        for _, steps in groupby(range(len(rows)), lambda t: ends[t] // INPUT_ROWS):
            sizes = [rows[t] for t in steps]
            tokens, x = x.split([sum(sizes), len(x) - sum(sizes)])
            if types and self.types_pay:
                distinct, numbers = tokens.unique(dim=0, return_inverse=True)
                products = self.from_input(distinct)
                yield from ((products, step) for step in numbers.split(sizes))
            else:
                yield from ((product, None) for product in self.from_input(tokens).split(sizes))


def scan(
    lstm: ProjectedLstm,
    x: Float[Tensor, "N I"],
    rows: Sequence[int],
    h: Float[Tensor, "B P"],
    c: Float[Tensor, "B Z"],
) -> tuple[Float[Tensor, "N P"], Float[Tensor, "B P"], Float[Tensor, "B Z"]]:
    """`PackedLstm` with gradients, by `Scan`."""
    dtype = product_type(h)
    forget = lstm.bias.new_tensor([[0.0], [0.0], [FORGET_BIAS], [0.0]])
    bias = (lstm.bias.view(4, -1) + forget).flatten()
    with torch.autocast(x.device.type, enabled=False):
        clips = lstm.cell_clip, lstm.projection_clip
        return Scan.apply(x, lstm.weight, bias, lstm.projection_weight, h, c, rows, *clips, dtype)


def _stacks(device: torch.device) -> bool:
    """Whether `stacked.py` reads there."""
    return device.type in STACKED_ON and not torch.compiler.is_compiling()


def _lengths(x: Float[Tensor, "B T P"], mask: Bool[Tensor, "B T"] | None) -> list[int] | None:
    """How many tokens each sentence has; None if one of them has a gap."""
    if mask is None:
        return [x.shape[1]] * len(x)
    gaps = (mask[:, 1:] > mask[:, :-1]).sum()
    *lengths, num_gaps = torch.cat([mask.sum(1), gaps[None]]).tolist()
    return None if num_gaps else lengths
