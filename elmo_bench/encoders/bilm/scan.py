"""`bilm.ProjectedLstm` for training on a CPU, with a hand-written backward pass.

Autograd keeps about forty small tensors a step. Here a step has two products in each pass, with
`step.py` between them, and each weight's gradient is one product over all steps at the end.
`tests/encoders/bilm/test_scan.py` compares outputs and gradients with the definition.

Axes: N tokens of all steps, one step after the other, B sentences, longest first, Z cell, G gates
(4 Z), I input of a layer, P one direction.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from . import step
from .packed import PackedLinear


class Scan(torch.autograd.Function):
    """(x, W, b, W_p, h_0, c_0, rows, clips, dtype) -> (h of all steps, last h, last c).

    W is [W_x, W_h], and b includes the forget bias. `rows` is the number of sentences with a token
    at each step. Products are in `dtype` (bfloat16 under autocast), all else in the state's type.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Float[Tensor, "N I"],
        weight: Float[Tensor, "G K"],
        bias: Float[Tensor, " G"],
        projection_weight: Float[Tensor, "P Z"],
        h: Float[Tensor, "B P"],
        c: Float[Tensor, "B Z"],
        rows: Sequence[int],
        cell_clip: float,
        projection_clip: float,
        dtype: torch.dtype,
    ) -> tuple[Float[Tensor, "N P"], Float[Tensor, "B P"], Float[Tensor, "B Z"]]:
        weight, projection_weight = weight.to(dtype), projection_weight.to(dtype)
        input_weight, state_weight = weight.split([x.shape[1], h.shape[1]], 1)
        from_state, project = _step_product(state_weight), _step_product(projection_weight)
        x = x.to(dtype)
        inputs = F.linear(x, input_weight, bias.to(dtype))
        gates = inputs if dtype == c.dtype else torch.empty_like(inputs, dtype=c.dtype)
        cells, outputs = c.new_empty(len(x), c.shape[1]), h.new_empty(len(x), h.shape[1])
        gated = torch.empty_like(c, dtype=dtype)
        last_h, last_c, state, before = h.clone(), c.clone(), h.to(dtype), c
        steps = (whole.split(rows) for whole in (inputs, gates, cells, outputs))
        for n, from_input, gate, now, output in zip(rows, *steps, strict=True):
            through = gated[:n]
            product = from_state(state[:n])
            step.forward(product, from_input, None, before[:n], gate, now, through, cell_clip)
            state, before = project(through).clamp_(-projection_clip, projection_clip), now
            output.copy_(state)
            last_h[:n], last_c[:n] = output, now
        ctx.save_for_backward(x, weight, projection_weight, h, c, gates, cells, outputs)
        ctx.rows, ctx.clips = rows, (cell_clip, projection_clip)
        return outputs, last_h, last_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, projection_weight, h, c, gates, cells, outputs = ctx.saved_tensors
        rows, (cell_clip, projection_clip) = ctx.rows, ctx.clips
        input_weight, state_weight = weight.split([x.shape[1], h.shape[1]], 1)
        to_state, to_gated = _step_product(state_weight.T), _step_product(projection_weight.T)
        # Gradients of the state after a step; each iteration turns them into those before it.
        grad_h, grad_c = grads[1].clone(), grads[2].clone()
        grad_outputs, grad_bias = grads[0].clone(), c.new_zeros(len(weight))
        grad_gates, gated = x.new_empty(gates.shape), x.new_empty(cells.shape)
        # Compare in the products' type, which may have rounded the clip down.
        unclipped = outputs.to(x.dtype).abs() < projection_clip
        befores = [c, *cells.split(rows)]
        wholes = gates, cells, grad_outputs, unclipped, grad_gates, gated
        steps = [*zip(rows, befores, *(whole.split(rows) for whole in wholes), strict=False)]
        for n, before, gate, after, grad_output, kept, grad_gate, through in reversed(steps):
            grad_output.add_(grad_h[:n]).mul_(kept)
            grad_through, given = to_gated(grad_output.to(x.dtype)), (gate, after, before[:n])
            results = grad_c[:n], grad_gate, through, grad_bias
            step.backward(*given, grad_through, *results, cell_clip)
            grad_h[:n] = to_state(grad_gate)
        states = [h, *outputs.split(rows)]
        read = torch.cat([state[:n] for n, state in zip(rows, states, strict=False)])
        grad_weight = grad_gates.T @ torch.cat([x, read.to(x.dtype)], 1)
        grad_projection_weight = grad_outputs.to(x.dtype).T @ gated
        grads_of_tensors = (
            tensor.to(c.dtype)
            for tensor in (
                grad_gates @ input_weight,
                grad_weight,
                grad_bias,
                grad_projection_weight,
            )
        )
        return *grads_of_tensors, grad_h, grad_c, None, None, None, None


def _step_product(weight: Float[Tensor, "O I"]) -> Callable[[Tensor], Tensor]:
    """Return the product x -> x W' of every step, packed if that may be faster."""
    if weight.dtype == torch.bfloat16:  # packing brings nothing
        return partial(F.linear, weight=weight.contiguous())
    return PackedLinear(weight)
