"""The numbers of `bilm.ProjectedLstm` for training, with the gradient written by hand.

Autograd keeps and revisits some forty small tensors a step; by hand a step is a dozen products, and
each weight's gradient is one product over all steps at the end. `tests/elmo/test_scan.py` compares
both with the definition.

Axes: N tokens of all steps, one step after the other, B sentences, longest first, Z cell, G gates
(4 Z), I input of a layer, P one direction.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable

from .packed import PackedLinear


class Scan(torch.autograd.Function):
    """(x, W, b, W_p, h_0, c_0, rows, clips, dtype) -> (h of all steps, last h, last c).

    W is [W_x, W_h], and b includes the forget bias. `rows` says how many sentences have a token at
    each step. Products are taken in `dtype` (bfloat16 under autocast), all else in the state's own.
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
        from_state, project = PackedLinear(state_weight), PackedLinear(projection_weight)
        last_h, last_c = h.clone(), c.clone()
        # Of each step; gates are sigmoid(i), tanh(j), sigmoid(f), sigmoid(o).
        gates, cells, outputs = [], [], []
        inputs = PackedLinear(input_weight, bias)(x).split(rows)
        for n, from_input in zip(rows, inputs, strict=True):
            gate = from_state(last_h[:n], from_input)
            i, j, f, o = gate.chunk(4, 1)
            j.mul_(2)
            gate.sigmoid_()
            j.mul_(2).sub_(1)
            cell = torch.mul(f, last_c[:n]).addcmul_(i, j).clamp_(-cell_clip, cell_clip)
            output = project(_tanh(cell).mul_(o)).clamp_(-projection_clip, projection_clip)
            last_h[:n], last_c[:n] = output, cell
            gates.append(gate)
            cells.append(cell)
            outputs.append(output)
        ctx.save_for_backward(x, weight, projection_weight, h, c, *gates, *cells, *outputs)
        ctx.rows, ctx.clips = rows, (cell_clip, projection_clip)
        return torch.cat(outputs), last_h, last_c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, projection_weight, h, c, *saved = ctx.saved_tensors
        rows, (cell_clip, projection_clip) = ctx.rows, ctx.clips
        gates, cells, outputs = (saved[k * len(rows) : (k + 1) * len(rows)] for k in range(3))
        input_weight, state_weight = weight.split([x.shape[1], h.shape[1]], 1)
        to_state, to_gated = PackedLinear(state_weight.T), PackedLinear(projection_weight.T)
        # Of the state after a step, then of that before it.
        grad_h, grad_c = grads[1].clone(), grads[2].clone()
        grad_outputs, grad_gates = grads[0].clone(), x.new_empty(len(x), len(weight))
        gated = x.new_empty(len(x), c.shape[1])  # sigmoid(o) tanh(c)
        parts = [whole.split(rows) for whole in (grad_outputs, grad_gates, gated)]
        steps = list(zip(gates, cells, [c, *cells[:-1]], outputs, *parts, strict=True))
        for gate, cell, cell_before, output, grad_output, grad_gate, through in reversed(steps):
            n = len(gate)
            i, j, f, o = gate.chunk(4, 1)
            squashed = _tanh(cell)
            torch.mul(squashed, o, out=through)
            grad_output.add_(grad_h[:n]).mul_(output.abs() < projection_clip)
            grad_through = to_gated(grad_output)
            slope = torch.addcmul(o, through, squashed, value=-1)
            grad_cell = grad_c[:n].addcmul_(grad_through, slope)
            grad_cell.mul_(cell.abs() < cell_clip)
            grad_i, grad_j, grad_f, grad_o = grad_gate.chunk(4, 1)
            torch.mul(grad_cell, j, out=grad_i)
            torch.mul(grad_cell, i, out=grad_j)
            torch.mul(grad_cell, cell_before[:n], out=grad_f)
            torch.mul(grad_through, squashed, out=grad_o)
            for grad, value in ((grad_i, i), (grad_f, f), (grad_o, o)):
                torch.ops.aten.sigmoid_backward.grad_input(grad, value, grad_input=grad)
            torch.ops.aten.tanh_backward.grad_input(grad_j, j, grad_input=grad_j)
            grad_cell.mul_(f)
            grad_h[:n] = to_state(grad_gate)
        before = torch.cat([state[:n] for n, state in zip(rows, [h, *outputs], strict=False)])
        grad_x = (grad_gates.to(weight.dtype) @ input_weight).to(x.dtype)
        grad_weight = _outer(grad_gates, torch.cat([x, before], 1), weight.dtype)
        grad_projection_weight = _outer(grad_outputs, gated, weight.dtype)
        grads_of_tensors = grad_x, grad_weight, grad_gates.sum(0), grad_projection_weight
        return *grads_of_tensors, grad_h, grad_c, None, None, None, None


def _tanh(x: Tensor) -> Tensor:
    """tanh(x) = 2 sigmoid(2 x) - 1: torch computes the sigmoid ten times faster."""
    return torch.mul(x, 2).sigmoid_().mul_(2).sub_(1)


def _outer(
    a: Float[Tensor, "N O"], b: Float[Tensor, "N I"], dtype: torch.dtype
) -> Float[Tensor, "O I"]:
    """A' b, the product in `dtype`."""
    return PackedLinear(b.T.to(dtype))(a.T)
