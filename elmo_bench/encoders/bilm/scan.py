"""The recurrence of one LSTM layer of the biLM: the one loop over time, and its gradient.

Sentences are sorted by length, and a step computes only the sentences that still have a token: a
prefix of the rows of the step before. A step is the product with the state, the pointwise
operations (`pointwise.py`), the projection and its clip. Inputs are multiplied by their weights for
many steps at once. Autograd would keep about forty small tensors a step; here a step of the
gradient has two products, and each weight's gradient is one product over all steps at the end.

Several directions are computed together, in one product: on a GPU all, on a CPU one, whose weights
are packed. `tests/encoders/bilm/oracle.py` has the same as a plain loop.

Axes: R directions that are read together, B sentences, longest first, N tokens of all steps, one
step after the other, M places of all sentences, I input and O output of a product, P one direction,
Z cell, G gates (4 Z), F features.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from . import pointwise
from .options import Options

LARGE = 1 << 17  # packing pays from this number of elements of a weight on
FORGET_BIAS = 1.0  # TensorFlow adds it at run time; weight files do not include it.
INPUT_TOKENS = 512  # tokens in a product with the input weights: 0.07 GB at the original size
EQUAL_ROWS_PAY = 1 << 20  # elements of a weight: finding equal rows costs less than multiplying
Read = tuple[Float[Tensor, "R N P"], Float[Tensor, "R B P"], Float[Tensor, "R B Z"]]


class Order:
    """The order in which the tokens of a batch are read: step by step, longest sentence first."""

    def __init__(
        self, lengths: Sequence[int], width: int, from_end: Sequence[bool], device: torch.device
    ) -> None:
        # `from_end`: whether a direction begins with a sentence's last token
        length = np.array(lengths, np.int64)
        sentences = np.argsort(-length, kind="stable")
        steps = np.arange(length.max(initial=0))[:, None] < length[sentences]
        step, row = steps.nonzero()
        start, size = sentences[row] * width, length[sentences[row]]
        places = [start + (size - 1 - step if back else step) for back in from_end]
        self.rows: list[int] = steps.sum(1).tolist()  # number of sentences at each step
        tensors = [*map(torch.from_numpy, (sentences, np.stack(places), np.argsort(sentences)))]
        if device.type == "cuda":  # copying then waits for nothing
            tensors = [tensor.pin_memory() for tensor in tensors]
        there = (tensor.to(device, non_blocking=True) for tensor in tensors)
        self.sentences, self.places, self.unsorted = there
        self.sides = torch.arange(len(from_end), device=device)[:, None]


class PackedLinear(nn.Module):
    """x -> x W' + b, in W's type; a large W on a CPU is packed for oneDNN, if torch has its
    operators: with few rows, the product takes less than half the time.
    """

    def __init__(
        self,
        weight: Float[Tensor, "O I"],
        bias: Float[Tensor, " O"] | None = None,
        *,
        pack: bool = True,
    ) -> None:
        super().__init__()
        self.dtype, self.bias = weight.dtype, None if bias is None else bias.to(weight.dtype)
        self.is_packed = pack and weight.is_cpu and weight.numel() >= LARGE and _packs(self.dtype)
        if self.is_packed:
            weight = torch.ops.mkldnn._reorder_linear_weight(weight)
        elif self.dtype == torch.bfloat16:  # products with a matrix's columns are slow there
            weight = weight.contiguous()
        self.weight = weight

    def forward(self, x: Float[Tensor, "N I"]) -> Float[Tensor, "N O"]:
        operands = x.to(self.dtype), self.weight, self.bias
        if self.is_packed:
            return torch.ops.mkldnn._linear_pointwise(*operands, "none", [], "").to(x.dtype)
        return F.linear(*operands).to(x.dtype)


@functools.cache
def _packs(dtype: torch.dtype) -> bool:
    """Whether torch has these operators of its compiler, for this type, on this processor."""
    weight = torch.zeros(16, 16, dtype=dtype)
    try:
        packed = torch.ops.mkldnn._reorder_linear_weight(weight)
        torch.ops.mkldnn._linear_pointwise(weight, packed, None, "none", [], "")
    except (AttributeError, RuntimeError, TypeError):
        return False
    return dtype in (torch.float32, torch.bfloat16)


class Weights:
    """The products of one layer, from what `stack` returns; `pack` if they multiply many times."""

    def __init__(self, stacked: Sequence[Tensor], *, pack: bool = True) -> None:
        input_weight, bias, state_weight, projection = stacked
        self.dtype = bias.dtype
        self.from_input = _product(input_weight, bias, pack=pack)
        self.from_state = _product(state_weight, pack=pack)
        self.project = _product(projection, pack=pack)
        on_cpu = len(bias) == 1 and bias.is_cpu
        self.equal_rows_pay = on_cpu and input_weight.numel() >= EQUAL_ROWS_PAY

    def inputs(
        self, x: Float[Tensor, "R N I"], rows: Sequence[int]
    ) -> Iterator[Float[Tensor, "R _ G"]]:
        """Yield W_x x_t + b of each step, computed for about `INPUT_TOKENS` tokens at a time."""
        x, start, ends = x.to(self.dtype), 0, [*accumulate(rows)]
        for _, steps in groupby(range(len(rows)), lambda step: ends[step] // INPUT_TOKENS):
            sizes = [rows[step] for step in steps]
            tokens = x[:, start : start + sum(sizes)]
            start += sum(sizes)
            if self.equal_rows_pay:  # in the first layer, a word type is one row
                distinct, numbers = tokens[0].unique(dim=0, return_inverse=True)
                if len(distinct) < len(numbers):
                    yield from self.from_input(distinct[None])[:, numbers].split(sizes, 1)
                    continue
            yield from self.from_input(tokens).split(sizes, 1)


def stack(parameters: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Return one layer's parameters, each of all directions in one tensor, and cast: W_x "R G I",
    b with the forget bias "R G", W_h "R G P", W_p "R P Z".
    """
    kinds = ([parameter.detach() for parameter in parameters[kind::3]] for kind in range(3))
    # One direction is not copied.
    weight, bias, projection = (torch.stack(k) if len(k) > 1 else k[0][None] for k in kinds)
    bias, size = bias.clone(), projection.shape[1]
    bias.chunk(4, -1)[2].add_(FORGET_BIAS)
    from_input, from_state = weight.to(dtype).split([weight.shape[2] - size, size], 2)
    return [from_input, bias.to(dtype), from_state, projection.to(dtype)]


def _product(
    weight: Float[Tensor, "R O I"], bias: Float[Tensor, "R O"] | None = None, *, pack: bool = True
) -> Callable[[Tensor], Tensor]:
    """Return the product x -> x W' + b, "R N I" -> "R N O"."""
    if len(weight) == 1:
        linear = PackedLinear(weight[0], None if bias is None else bias[0], pack=pack)
        return lambda x: linear(x[0])[None]
    if bias is None:
        return lambda x: x.bmm(weight.mT)
    return lambda x: torch.baddbmm(bias[:, None], x, weight.mT)


def _matmul(x: Float[Tensor, "R O N"], y: Float[Tensor, "R N I"]) -> Float[Tensor, "R O I"]:
    """Return x @ y; for one direction, torch is much faster with matrices."""
    return (x[0] @ y[0])[None] if len(x) == 1 else x @ y


def read(
    inputs: Iterable[Float[Tensor, "R _ G"]],
    h: Float[Tensor, "R B P"],
    c: Float[Tensor, "R B Z"],
    rows: Sequence[int],
    weights: Weights,
    options: Options,
    kept: tuple[Float[Tensor, "R N G"], Float[Tensor, "R N Z"]] | None = None,
) -> Read:
    """Return the outputs and the last state, from W_x x_t + b of each step.

    `rows` is the number of sentences with a token at each step. What the gradient needs is written
    to `kept`: sigmoid(i), tanh(j), sigmoid(f) and sigmoid(o), which may replace the inputs, and the
    cells. Products are in the type of the weights, all else in the state's.
    """
    first_h, first_c, c = h, c, c if kept else c.clone()
    h, clip = h.to(weights.dtype), options.projection_clip
    outputs, gated = h.new_empty(len(h), sum(rows), h.shape[2]), h.new_empty(c.shape)
    end = 0
    for n, from_input in zip(rows, inputs, strict=True):
        here = slice(end, end := end + n)
        gates, cell = (part[:, here] for part in kept) if kept else (None, c[:, :n])
        product, through = weights.from_state(h[:, :n]), gated[:, :n]
        pointwise.forward(product, from_input, c[:, :n], gates, cell, through, options.cell_clip)
        projected, h = weights.project(through), outputs[:, here]
        torch.clamp(projected, -clip, clip, out=h)
        c = cell if kept else c
    outputs = outputs.to(c.dtype)
    return outputs, _last(first_h, outputs, rows), _last(first_c, kept[1], rows) if kept else c


class Scan(torch.autograd.Function):
    """(x, h_0, c_0, rows, options, dtype, parameters) -> the outputs of `read`, with gradients.

    `parameters` are those of `stack`; `dtype` is the type of the products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "R N I"],
        h: Float[Tensor, "R B P"],
        c: Float[Tensor, "R B Z"],
        rows: Sequence[int],
        options: Options,
        dtype: torch.dtype,
        *parameters: Tensor,
    ) -> Read:
        stacked, x = stack(parameters, dtype), x.to(dtype)
        # For the steps of one window, after which the weights change, packing bfloat16 costs more.
        weights = Weights(stacked, pack=dtype != torch.bfloat16)
        inputs = weights.from_input(x)
        gates = inputs if dtype == c.dtype else torch.empty_like(inputs, dtype=c.dtype)
        kept = gates, c.new_empty(*x.shape[:2], c.shape[2])
        result = read(inputs.split(rows, 1), h, c, rows, weights, options, kept)
        ctx.save_for_backward(x, h, c, *kept, result[0], *stacked)
        ctx.rows, ctx.options = rows, options
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, h, c, gates, cells, outputs, *stacked = ctx.saved_tensors
        rows, options, pack = ctx.rows, ctx.options, x.dtype != torch.bfloat16
        input_weight, _, state_weight, projection = stacked
        to_state, to_gated = (_product(w.mT, pack=pack) for w in (state_weight, projection))
        # Compare in the products' type, which may have rounded the clip down.
        unclipped = (outputs.to(x.dtype).abs() < options.projection_clip).to(c.dtype)
        # Gradients of the state after a step; each iteration turns them into those before it.
        grad_h, grad_c = (grad.clone(memory_format=torch.contiguous_format) for grad in grads[1:])
        grad_outputs = grads[0] * unclipped
        grad_gates, gated = x.new_empty(gates.shape), x.new_empty(cells.shape)
        befores = [c, *cells.split(rows, 1)]
        wholes = gates, cells, grad_outputs, unclipped, grad_gates, gated
        steps = [*zip(rows, befores, *(whole.split(rows, 1) for whole in wholes), strict=False)]
        for n, before, gate, cell, grad_output, is_unclipped, grad_gate, through in reversed(steps):
            grad_output.addcmul_(grad_h[:, :n], is_unclipped)
            grad_gated = to_gated(grad_output.to(x.dtype))
            results = grad_c[:, :n], grad_gate, through
            pointwise.backward(gate, cell, before[:, :n], grad_gated, *results, options.cell_clip)
            grad_h[:, :n] = to_state(grad_gate)
        states = [h, *outputs.split(rows, 1)]
        befores = [state[:, :n] for n, state in zip(rows, states, strict=False)]
        inputs = torch.cat([x, torch.cat([*befores, h[:, :0]], 1).to(x.dtype)], 2)
        of_parameters = (
            _matmul(grad_gates.mT, inputs).to(c.dtype),
            grad_gates.sum(1).to(c.dtype),
            _matmul(grad_outputs.to(x.dtype).mT, gated).to(c.dtype),
        )
        every = (grad[side] for side in range(len(x)) for grad in of_parameters)
        grad_x = _matmul(grad_gates, input_weight).to(c.dtype)
        return grad_x, grad_h, grad_c, None, None, None, *every


def _last(
    first: Float[Tensor, "R B F"], after: Float[Tensor, "R N F"], rows: Sequence[int]
) -> Float[Tensor, "R B F"]:
    """Return each sentence's value after its last step, or `first` if it has no step."""
    parts, num_ended = [], 0
    for n, end in reversed([*zip(rows, accumulate(rows), strict=True)]):
        if n > num_ended:
            parts.append(after[:, end - n + num_ended : end])
            num_ended = n
    return torch.cat([*parts, first[:, num_ended:]], 1)
