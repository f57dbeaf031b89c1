"""The fast biLM: computes the same numbers as `bilm.py`, many times faster.

                                  CPU                        GPU
    order of sentences            this file                  stacked.py
    matrix products of a layer    packed.py                  stacked_scan.py
    the same, with gradients      scan.py                    stacked_scan.py
    pointwise operations          step.py, native.c          cell.py, kernels.py
    character CNN                 lookup.py, native.c        bilm.py

The code in C (loaded by `native.py`) and in Triton (`kernels.py`) is optional; each function also
exists in torch. A GPU computes both directions at once. On a CPU:

- The character CNN computes each word type once. Without gradients, a table caches the vectors for
  later batches.
- Sentences are sorted by length, and a step computes only the sentences that still have a token.
- Inputs are multiplied by the input weights for several steps at a time, in the first layer once
  for each word type.
- Weights are packed once into oneDNN's format, which more than doubles the speed of products with
  few rows.
- `scan.py` computes gradients, with a hand-written backward pass.

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
from .lookup import LookupCnn
from .packed import PackedLinear, Snapshot, warn_of_bfloat16
from .scan import Scan
from .stacked import Stacked, product_type

CNN_TYPES = 256  # word types in a batch of the character CNN
KNOWN_TYPES = 1 << 15  # word types in the cache of vectors
INPUT_ROWS = 512  # tokens in a product with the input weights
# From this number of elements of a weight on, finding equal rows is cheaper than multiplying them.
TYPES_PAY = 1 << 20
STACKED_ON = ("cuda",)  # device types that use `stacked.py`
GPU_TYPES = 1 << 12  # like CNN_TYPES, on a GPU, which has no cache


class BiLm(bilm.BiLm):
    """The fast biLM: stacked on a GPU; on a CPU with packed weights, or with `Scan` for gradients.

    Other inputs fall back to the definition in `bilm.py`. Packed and stacked copies are rebuilt
    after a change of a parameter, and are neither saved nor copied. An in-place change through
    `parameter.data` is not noticed, because torch does not count it.
    """

    # Whether it runs under autocast: the LSTMs' products are in bfloat16, all else in float32.
    bf16 = False
    char_cnn = LookupCnn
    _packed: "Packed | Stacked | None" = None

    def read(
        self, chars: Int[Tensor, "B T C"], state: State | None = None, *, boundaries: bool = False
    ) -> tuple[Float[Tensor, "L B S D"], State]:
        with torch.autocast(chars.device.type, torch.bfloat16) if self.bf16 else nullcontext():
            layers, state = super().read(chars, state, boundaries=boundaries)
        return layers.to(state.c.dtype), state  # unpacked weights leave bfloat16 outputs

    def fingerprint(self) -> str:
        """Return the definition's fingerprint, with the type of the products."""
        return super().fingerprint() + ("-bfloat16" if self.bf16 else "")

    def forget_words(self) -> None:
        """Empty the cache of word types: the last bits of a vector depend on the words that were
        computed together with its word.
        """
        if isinstance(self._packed, Packed):
            self._packed.types.forget()

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
        return stacked.run(self, kept, slice(None), x, lengths, state)

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
        """Whether an input or a parameter needs a gradient."""
        return torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (*inputs, *self.parameters())
        )

    def _pack(self, kind: type, *inputs: Tensor) -> Any:
        """Return the current parameters as `kind`, `Packed` or `Stacked`.

        Returns None if gradients are needed, or if the device uses the other kind.
        """
        weights = list(self.parameters())
        device, dtype = weights[0].device, product_type(weights[0])
        if kind is not (Stacked if _stacks(device) else Packed):
            return None
        unfit = device.type not in ("cpu", *STACKED_ON) or any(w.is_inference() for w in weights)
        if self.training or unfit or self._trains(*inputs) or torch.compiler.is_compiling():
            self._packed = None
        elif not (isinstance(self._packed, kind) and self._packed.snapshot.is_of(weights, dtype)):
            self._packed = None  # free its memory before the new copy
            self._packed = kind(self, dtype)
        return self._packed

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_packed"}


class Packed:
    """A packed copy of a biLM's parameters, with a cache of word types."""

    def __init__(self, bilm: bilm.BiLm, dtype: torch.dtype) -> None:
        if dtype == torch.bfloat16:
            warn_of_bfloat16("encoder.precision=bfloat16 (or trainer.precision=bf16-mixed)")
        self.snapshot = Snapshot(bilm.parameters(), dtype)
        self.types = WordTypes(bilm.token_encoder)
        self.directions = [
            [PackedLstm(lstm, dtype) for lstm in direction] for direction in bilm.directions
        ]


class WordTypes:
    """The character CNN with a cache of word types, which is cleared when it is full."""

    def __init__(self, cnn: CharCnn) -> None:
        self.cnn = copy.deepcopy(cnn).requires_grad_(False)
        for module in list(self.cnn.modules()):
            for name, child in module.named_children():
                if isinstance(child, nn.Linear):
                    setattr(module, name, PackedLinear(child.weight, child.bias))
        self.lock = threading.Lock()
        self.numbers: dict[bytes, int] = {}
        self.vectors = cnn.projection.weight.new_empty(0, cnn.projection.out_features)

    def forget(self) -> None:
        """Empty the cache."""
        with self.lock:
            self.numbers, self.vectors = {}, self.vectors[:0]

    def __call__(self, chars: Int[Tensor, "B T C"]) -> Float[Tensor, "B T P"]:
        """Return a vector for every frame, including padding."""
        frames = chars.flatten(0, 1)
        keys = [frame.tobytes() for frame in frames.numpy().astype(np.int16)]
        with self.lock:
            new = {key: row for row, key in enumerate(keys) if key not in self.numbers}
            if len(self.numbers) + len(new) > KNOWN_TYPES:
                self.numbers, self.vectors = {}, self.vectors[:0]
                new = {key: row for row, key in enumerate(keys)}
            if new:
                lengths = (frames != PAD).sum(1).tolist()
                # Sort by length, since the CNN's cost depends on the longest word of a batch.
                rows = sorted(new.values(), key=lambda row: lengths[row])
                vectors = [self.cnn(part[None])[0] for part in frames[rows].split(CNN_TYPES)]
                self.vectors = torch.cat([self.vectors, *vectors])
                self.numbers |= {
                    keys[row]: number for number, row in enumerate(rows, len(self.numbers))
                }
            numbers = torch.tensor([self.numbers[key] for key in keys])
            return self.vectors[numbers].unflatten(0, chars.shape[:2])


class PackedLstm:
    """`bilm.ProjectedLstm` over sentences sorted by length, longest first."""

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
        """Return the outputs and the last state, which overwrites h and c.

        `rows` is the number of sentences with a token at each step; x is ordered by step. `types`
        means that x has many equal rows.
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
        """Yield W_x x_t + b of each step, computed for about `INPUT_ROWS` tokens at a time.

        If equal rows are computed once, the second value maps the step's rows to these; else None.
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
    """Compute like `PackedLstm`, but with gradients, by `Scan`."""
    dtype = product_type(h)
    forget = lstm.bias.new_tensor([[0.0], [0.0], [FORGET_BIAS], [0.0]])
    bias = (lstm.bias.view(4, -1) + forget).flatten()
    with torch.autocast(x.device.type, enabled=False):
        clips = lstm.cell_clip, lstm.projection_clip
        return Scan.apply(x, lstm.weight, bias, lstm.projection_weight, h, c, rows, *clips, dtype)


def _stacks(device: torch.device) -> bool:
    """Whether this device uses `stacked.py`."""
    return device.type in STACKED_ON and not torch.compiler.is_compiling()


def _lengths(x: Float[Tensor, "B T P"], mask: Bool[Tensor, "B T"] | None) -> list[int] | None:
    """Return each sentence's number of tokens; None if a mask has a gap."""
    if mask is None:
        return [x.shape[1]] * len(x)
    gaps = (mask[:, 1:] > mask[:, :-1]).sum()
    *lengths, num_gaps = torch.cat([mask.sum(1), gaps[None]]).tolist()
    return None if num_gaps else lengths
