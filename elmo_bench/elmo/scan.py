"""The recurrence of `bilm.ProjectedLstm` for training a language model: the same numbers, with its gradient written by hand.

Autograd keeps and revisits some forty small tensors a step; by hand a step is a dozen products, and each weight's gradient is
one product over all steps at the end. `tests/elmo/test_scan.py` compares both with the definition.

Axes: T tokens (first here), B batch, Z cell, G gates (4 Z), P one direction.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor


class Scan(torch.autograd.Function):
    """(W_x x_t + b of all steps, W_h, W_p, h_0, c_0, clips, forget bias) -> (h of all steps, last h, last c).

    The state that goes in is not differentiated: truncated backpropagation stops there. Products are taken in `dtype` (bfloat16
    under autocast), all else in the state's own.
    """

    @staticmethod
    def forward(
        ctx: Any,
        from_input: Float[Tensor, "T B G"],
        state_weight: Float[Tensor, "G P"],
        projection_weight: Float[Tensor, "P Z"],
        h: Float[Tensor, "B P"],
        c: Float[Tensor, "B Z"],
        cell_clip: float,
        projection_clip: float,
        forget_bias: float,
        dtype: torch.dtype = torch.float32,
    ) -> tuple[Float[Tensor, "T B P"], Float[Tensor, "B P"], Float[Tensor, "B Z"]]:
        steps, size = len(from_input), c.shape[1]
        gates = from_input.clone()  # becomes sigmoid(i), tanh(j), sigmoid(f + 1), sigmoid(o)
        cells = c.new_empty(steps + 1, *c.shape)
        squashed, gated = torch.empty_like(cells[1:]), torch.empty_like(cells[1:])  # tanh(c), sigmoid(o) tanh(c)
        outputs = h.new_empty(steps + 1, *h.shape)
        cells[0], outputs[0] = c, h
        state_weight, projection_weight = state_weight.to(dtype), projection_weight.to(dtype)
        for t in range(steps):
            z = _add_product(gates[t], outputs[t], state_weight.T)
            i, j, f, o = z.split(size, 1)
            i.sigmoid_()
            j.tanh_()
            f.add_(forget_bias).sigmoid_()
            o.sigmoid_()
            torch.mul(f, cells[t], out=cells[t + 1])
            cells[t + 1].addcmul_(i, j).clamp_(-cell_clip, cell_clip)
            torch.tanh(cells[t + 1], out=squashed[t])
            torch.mul(o, squashed[t], out=gated[t])
            _add_product(outputs[t + 1], gated[t], projection_weight.T, beta=0)
            outputs[t + 1].clamp_(-projection_clip, projection_clip)
        ctx.save_for_backward(gates, cells, squashed, gated, outputs, state_weight, projection_weight)
        ctx.clips = cell_clip, projection_clip
        ctx.mark_non_differentiable(last_h := outputs[-1].clone(), last_c := cells[-1].clone())
        return outputs[1:].clone(), last_h, last_c

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        gates, cells, squashed, gated, outputs, state_weight, projection_weight = ctx.saved_tensors
        cell_clip, projection_clip = ctx.clips
        steps, size = len(gates), cells.shape[-1]
        grad_h = grads[0].clone()  # of the projection, before its clip
        grad_gates = torch.empty_like(gates)
        grad_c, grad_gated = torch.zeros_like(cells[0]), torch.empty_like(cells[0])
        # What each step multiplies with, for all steps at once: the derivatives of the squashing and the clips.
        i, j, f, o = gates.split(size, 2)
        through_tanh = o * (1 - squashed.square())
        slopes = torch.cat([j * i * (1 - i), i * (1 - j.square()), cells[:-1] * f * (1 - f)], 2)
        output_slope = squashed * o * (1 - o)
        free_c, free_h = cells[1:].abs() < cell_clip, outputs[1:].abs() < projection_clip
        for t in range(steps - 1, -1, -1):
            if t + 1 < steps:
                _add_product(grad_h[t], grad_gates[t + 1], state_weight)
            grad_h[t].mul_(free_h[t])
            _add_product(grad_gated, grad_h[t], projection_weight, beta=0)
            grad_c.addcmul_(grad_gated, through_tanh[t]).mul_(free_c[t])
            torch.mul(grad_c.repeat(1, 3), slopes[t], out=grad_gates[t, :, : 3 * size])
            torch.mul(grad_gated, output_slope[t], out=grad_gates[t, :, 3 * size :])
            grad_c.mul_(f[t])
        dtype = state_weight.dtype
        grad_state_weight = (grad_gates.flatten(0, 1).T.to(dtype) @ outputs[:-1].flatten(0, 1).to(dtype)).to(gates.dtype)
        grad_projection_weight = (grad_h.flatten(0, 1).T.to(dtype) @ gated.flatten(0, 1).to(dtype)).to(gates.dtype)
        return grad_gates, grad_state_weight, grad_projection_weight, *(None,) * 6


def _add_product(x: Float[Tensor, "B N"], a: Float[Tensor, "B K"], b: Float[Tensor, "K N"], beta: int = 1) -> Tensor:
    """Set x to beta x + a b, the product in b's type."""
    if a.dtype == b.dtype:
        return torch.addmm(x, a, b, beta=beta, out=x)
    product = a.to(b.dtype) @ b
    return x.add_(product) if beta else x.copy_(product)
