"""One LSTM layer of the biLM, with all directions in one product: four operations a step, five for
its gradient.

A step is the product with the state, the pointwise operations (`cell.py`), the projection and its
clip. Each weight's gradient is one product over all steps, as in `scan.py`. Nothing here waits for
the GPU.

Axes: R directions, B sentences, longest first, N tokens, one step after the other, I input of a
layer, P one direction, Z cell, G gates (4 Z), F features.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import cell

INPUT_TOKENS = 1024  # tokens in a product with the input weights: 0.13 GB at the original size
# Outputs, last h, last c.
Read = tuple[Float[Tensor, "R N P"], Float[Tensor, "R B P"], Float[Tensor, "R B Z"]]


class Clips(NamedTuple):
    """The largest absolute values of the cell and of the projection."""

    cell: float
    projection: float


class Weights(NamedTuple):
    """The stacked weights of one layer's directions."""

    input: Float[Tensor, "R G I"]
    state: Float[Tensor, "R G P"]
    bias: Float[Tensor, "R 1 G"]
    projection: Float[Tensor, "R P Z"]


def stack(parameters: Sequence[Tensor], dtype: torch.dtype) -> Weights:
    """Stack and cast the parameters of one layer's `ProjectedLstm`s, ordered by direction."""
    weights, biases, projections = (
        torch.stack([parameter.detach().to(dtype) for parameter in parameters[kind::3]])
        for kind in range(3)
    )
    size = projections.shape[1]
    input_weights, state_weights = weights.split([weights.shape[2] - size, size], 2)
    return Weights(input_weights, state_weights, biases[:, None], projections)


def frozen(
    x: Float[Tensor, "R N I"],
    h: Float[Tensor, "R B P"],
    c: Float[Tensor, "R B Z"],
    rows: Sequence[int],
    weights: Weights,
    clips: Clips,
) -> Read:
    """Compute the layer without gradients, overwriting c.

    `rows` is the number of sentences with a token at each step.
    """
    dtype = weights.state.dtype

    def steps() -> Iterator[Tensor]:
        start, ends = 0, [*accumulate(rows)]
        for _, block in groupby(range(len(rows)), lambda step: ends[step] // INPUT_TOKENS):
            sizes = [rows[step] for step in block]
            tokens = x[:, start : start + sum(sizes)].to(dtype)
            start += sum(sizes)
            yield from torch.baddbmm(weights.bias, tokens, weights.input.mT).split(sizes, 1)

    h = h.to(dtype)
    outputs = h.new_empty(*x.shape[:2], h.shape[2])
    _read(steps(), h, c, weights, clips, outputs, None)
    return outputs, _last(h, outputs, rows), c


class StackedScan(torch.autograd.Function):
    """(x, h_0, c_0, rows, clips, dtype, parameters) -> the outputs of `frozen`, with gradients.

    `parameters` are those of `stack`; `dtype` is the type of the products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "R N I"],
        h: Float[Tensor, "R B P"],
        c: Float[Tensor, "R B Z"],
        rows: Sequence[int],
        clips: Clips,
        dtype: torch.dtype,
        *parameters: Tensor,
    ) -> Read:
        weights = stack(parameters, dtype)
        x, first_h = x.to(dtype), h.to(dtype)
        gates = torch.baddbmm(weights.bias, x, weights.input.mT)
        outputs, cells = (
            x.new_empty(*x.shape[:2], h.shape[2]),
            c.new_empty(*x.shape[:2], c.shape[2]),
        )
        _read(gates.split(rows, 1), first_h, c, weights, clips, outputs, cells)
        ctx.save_for_backward(x, first_h, c, gates, cells, outputs, *weights)
        ctx.rows, ctx.clips = rows, clips
        return outputs, _last(first_h, outputs, rows), _last(c, cells, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, h, c, gates, cells, outputs, *stacked = ctx.saved_tensors
        rows, clips, weights = ctx.rows, ctx.clips, Weights(*stacked)
        # Gradients of the state after a step; each iteration turns them into those before it.
        grad_outputs, grad_h, grad_c = (
            grad.clone(memory_format=torch.contiguous_format) for grad in grads
        )
        grad_gates, gated = torch.empty_like(gates), torch.empty_like(cells, dtype=x.dtype)
        grad_gated = gated.new_empty(c.shape)
        unclipped = outputs.abs() < clips.projection
        cells_before = _before(c, cells, rows)
        for n, end in reversed([*zip(rows, accumulate(rows), strict=True)]):
            here = slice(end - n, end)
            grad_output = grad_outputs[:, here]
            grad_output.add_(grad_h[:, :n]).mul_(unclipped[:, here])
            torch.bmm(grad_output, weights.projection, out=grad_gated[:, :n])
            cell.gradient(
                gates[:, here],
                cells_before[:, here],
                cells[:, here],
                gated[:, here],
                grad_gates[:, here],
                grad_gated[:, :n],
                grad_c[:, :n],
                clips.cell,
            )
            torch.bmm(grad_gates[:, here], weights.state, out=grad_h[:, :n])
        read = torch.cat([x, _before(h, outputs, rows)], 2)
        of_parameters = (grad_gates.mT @ read, grad_gates.sum(1), grad_outputs.mT @ gated)
        return (
            grad_gates @ weights.input,
            grad_h,
            grad_c,
            *(None, None, None),
            *(grad[side] for side in range(len(x)) for grad in of_parameters),
        )


def _read(
    steps: Iterable[Tensor],
    h: Float[Tensor, "R B P"],
    c: Float[Tensor, "R B Z"],
    weights: Weights,
    clips: Clips,
    outputs: Float[Tensor, "R N P"],
    cells: Float[Tensor, "R N Z"] | None,
) -> None:
    """Write the outputs and, for the gradient, all cells; without `cells`, only c.

    `steps` are the input products of each step; with kept cells, squashed gates overwrite them.
    """
    gated, state, projection = outputs.new_empty(c.shape), weights.state.mT, weights.projection.mT
    end = 0
    for z in steps:
        n = z.shape[1]
        start, end = end, end + n
        before, after = c[:, :n], c[:, :n] if cells is None else cells[:, start:end]
        z.baddbmm_(h[:, :n], state)
        cell.step(z, before, after, gated[:, :n], clips.cell, keep=cells is not None)
        # Sentences are sorted by length, so the next step has a prefix of these rows.
        h, c = outputs[:, start:end], after
        torch.bmm(gated[:, :n], projection, out=h)
        h.clamp_(-clips.projection, clips.projection)


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


def _before(
    first: Float[Tensor, "R B F"], after: Float[Tensor, "R N F"], rows: Sequence[int]
) -> Float[Tensor, "R N F"]:
    """Return the values before each step, from the values after each step."""
    left = [first, *after.split(rows, 1)]
    return torch.cat([part[:, :n] for part, n in zip(left, rows, strict=False)], 1)
