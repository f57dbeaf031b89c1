"""The recurrence of one LSTM layer of the biLM: the one loop over time, and its gradient.

Sentences are sorted by length, and a step computes only the sentences that still have a token: a
prefix of the rows of the step before. A step is the product with the state, the pointwise
operations (`pointwise.py`), the projection and its clip. Inputs are multiplied by their weights for
many steps at once. Autograd would keep about forty small tensors a step; here a step of the
gradient has two products, and each weight's gradient is one product over all steps at the end.

Several directions are computed together, in one product: on a GPU all, on a CPU one, whose weights
are packed. `tests/encoders/bilm/plain_bilm.py` has the same as a plain loop.

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
        is_read = np.arange(length.max(initial=0))[:, None] < length[sentences]
        step, row = is_read.nonzero()
        sentence = sentences[row]
        places = []
        for is_reversed in from_end:
            position = length[sentence] - 1 - step if is_reversed else step
            places.append(sentence * width + position)
        self.rows: list[int] = is_read.sum(1).tolist()  # number of sentences at each step
        self.sentences = _on_device(sentences, device)
        self.places = _on_device(np.stack(places), device)
        self.unsorted = _on_device(np.argsort(sentences), device)
        self.sides = torch.arange(len(from_end), device=device)[:, None]


def _on_device(array: np.ndarray, device: torch.device) -> Tensor:
    """Send an array to a device, without waiting."""
    tensor = torch.from_numpy(array)
    if device.type == "cuda":  # copying then waits for nothing
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)


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
        self.dtype = weight.dtype
        self.bias = None if bias is None else bias.to(weight.dtype)
        self.is_packed = pack and weight.is_cpu and weight.numel() >= LARGE and _packs(self.dtype)
        if self.is_packed:
            weight = torch.ops.mkldnn._reorder_linear_weight(weight)
        elif self.dtype == torch.bfloat16:  # products with a matrix's columns are slow there
            weight = weight.contiguous()
        self.weight = weight

    def forward(self, x: Float[Tensor, "N I"]) -> Float[Tensor, "N O"]:
        inputs = x.to(self.dtype)
        if self.is_packed:
            product = torch.ops.mkldnn._linear_pointwise(
                inputs, self.weight, self.bias, "none", [], ""
            )
        else:
            product = F.linear(inputs, self.weight, self.bias)
        return product.to(x.dtype)


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
        inputs = x.to(self.dtype)
        ends = list(accumulate(rows))
        start = 0
        for _, steps in groupby(range(len(rows)), lambda step: ends[step] // INPUT_TOKENS):
            sizes = [rows[step] for step in steps]
            end = start + sum(sizes)
            yield from self._of_tokens(inputs[:, start:end]).split(sizes, 1)
            start = end

    def _of_tokens(self, tokens: Float[Tensor, "R N I"]) -> Float[Tensor, "R N G"]:
        """Return W_x x_t + b of some tokens."""
        if self.equal_rows_pay:  # in the first layer, a word type is one row
            distinct, numbers = tokens[0].unique(dim=0, return_inverse=True)
            if len(distinct) < len(numbers):
                return self.from_input(distinct[None])[:, numbers]
        return self.from_input(tokens)


def stack(parameters: Sequence[Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Return one layer's parameters, each of all directions in one tensor, and cast: W_x "R G I",
    b with the forget bias "R G", W_h "R G P", W_p "R P Z".
    """
    weight = _of_all_directions(parameters[0::3])
    bias = _of_all_directions(parameters[1::3]).clone()
    projection = _of_all_directions(parameters[2::3])
    bias.chunk(4, -1)[2].add_(FORGET_BIAS)
    state_size = projection.shape[1]
    input_size = weight.shape[2] - state_size
    from_input, from_state = weight.to(dtype).split([input_size, state_size], 2)
    return [from_input, bias.to(dtype), from_state, projection.to(dtype)]


def _of_all_directions(parameters: Sequence[Tensor]) -> Tensor:
    """Return a parameter of all directions in one tensor; that of one direction is not copied."""
    detached = [parameter.detach() for parameter in parameters]
    return torch.stack(detached) if len(detached) > 1 else detached[0][None]


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
    clip = options.projection_clip
    state = h.to(weights.dtype)  # before a step
    cells = c if kept else c.clone()  # before a step; without `kept`, each step is written there
    outputs = state.new_empty(len(h), sum(rows), h.shape[2])
    gated = state.new_empty(c.shape)
    start = 0
    for n, from_input in zip(rows, inputs, strict=True):
        here = slice(start, start + n)
        if kept:
            gates = kept[0][:, here]
            after = kept[1][:, here]
        else:
            gates = None
            after = cells[:, :n]
        product = weights.from_state(state[:, :n])
        through = gated[:, :n]
        pointwise.forward(
            product, from_input, cells[:, :n], gates, after, through, options.cell_clip
        )
        projected = weights.project(through)
        state = outputs[:, here]
        torch.clamp(projected, -clip, clip, out=state)
        if kept:
            cells = after
        start += n
    outputs = outputs.to(c.dtype)
    last_c = _last(c, kept[1], rows) if kept else cells
    return outputs, _last(h, outputs, rows), last_c


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
        stacked = stack(parameters, dtype)
        # For the steps of one window, after which the weights change, packing bfloat16 costs more.
        weights = Weights(stacked, pack=dtype != torch.bfloat16)
        cast = x.to(dtype)
        inputs = weights.from_input(cast)
        gates = inputs if dtype == c.dtype else torch.empty_like(inputs, dtype=c.dtype)
        cells = c.new_empty(*x.shape[:2], c.shape[2])
        result = read(inputs.split(rows, 1), h, c, rows, weights, options, (gates, cells))
        outputs = result[0]
        ctx.save_for_backward(cast, h, c, gates, cells, outputs, *stacked)
        ctx.rows = rows
        ctx.options = options
        return result

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, h, c, gates, cells, outputs, *stacked = ctx.saved_tensors
        input_weight, _, state_weight, projection = stacked
        rows = ctx.rows
        clip = ctx.options.projection_clip
        # Compare in the products' type, which may have rounded the clip down.
        unclipped = (outputs.to(x.dtype).abs() < clip).to(c.dtype)
        grad_outputs = grads[0] * unclipped
        # Gradients of the state after a step; each iteration turns them into those before it.
        grad_h = grads[1].clone(memory_format=torch.contiguous_format)
        grad_c = grads[2].clone(memory_format=torch.contiguous_format)
        grad_gates = x.new_empty(gates.shape)
        gated = x.new_empty(cells.shape)
        pack = x.dtype != torch.bfloat16
        to_state = _product(state_weight.mT, pack=pack)
        to_gated = _product(projection.mT, pack=pack)
        # The part of each step, for every tensor.
        gates_at = gates.split(rows, 1)
        cells_at = cells.split(rows, 1)
        outputs_at = outputs.split(rows, 1)
        unclipped_at = unclipped.split(rows, 1)
        grad_outputs_at = grad_outputs.split(rows, 1)
        grad_gates_at = grad_gates.split(rows, 1)
        gated_at = gated.split(rows, 1)
        for step in reversed(range(len(rows))):
            n = rows[step]
            before = cells_at[step - 1] if step > 0 else c
            grad_output = grad_outputs_at[step]
            grad_output.addcmul_(grad_h[:, :n], unclipped_at[step])
            pointwise.backward(
                gates_at[step],
                cells_at[step],
                before[:, :n],
                to_gated(grad_output.to(x.dtype)),
                grad_c[:, :n],
                grad_gates_at[step],
                gated_at[step],
                ctx.options.cell_clip,
            )
            grad_h[:, :n] = to_state(grad_gates_at[step])
        states = [h[:, :0]]  # before each step; the first one is for a batch without steps
        for step, n in enumerate(rows):
            before = outputs_at[step - 1] if step > 0 else h
            states.append(before[:, :n])
        inputs = torch.cat([x, torch.cat(states, 1).to(x.dtype)], 2)
        grad_weight = _matmul(grad_gates.mT, inputs).to(c.dtype)
        grad_bias = grad_gates.sum(1).to(c.dtype)
        grad_projection = _matmul(grad_outputs.to(x.dtype).mT, gated).to(c.dtype)
        grad_parameters = []
        for side in range(len(x)):
            grad_parameters += [grad_weight[side], grad_bias[side], grad_projection[side]]
        grad_x = _matmul(grad_gates, input_weight).to(c.dtype)
        return grad_x, grad_h, grad_c, None, None, None, *grad_parameters


def _last(
    first: Float[Tensor, "R B F"], after: Float[Tensor, "R N F"], rows: Sequence[int]
) -> Float[Tensor, "R B F"]:
    """Return each sentence's value after its last step, or `first` if it has no step."""
    parts = []
    num_ended = 0
    end = sum(rows)
    for n in reversed(rows):
        if n > num_ended:
            parts.append(after[:, end - n + num_ended : end])
            num_ended = n
        end -= n
    parts.append(first[:, num_ended:])
    return torch.cat(parts, 1)
