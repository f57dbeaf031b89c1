"""Triton kernels of `pointwise.py`: a step, and its gradient, in one launch each.

A program computes `BLOCK` cells of one row. Rows are contiguous; `*_side` is the stride between
directions. The arithmetic is in float32 for all storage types.

Axes: R directions, N rows, Z cell, G gates (4 Z).
"""

from typing import no_type_check  # Triton would compile our type annotations, and fail

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


def forward(
    product: Tensor,
    inputs: Tensor,
    before: Tensor,
    gates: Tensor | None,
    cell: Tensor,
    gated: Tensor,
    clip: float,
) -> None:
    """Compute `pointwise.forward` on a GPU."""
    tensors = product, inputs, before, cell if gates is None else gates, cell, gated
    sides = _sides(tensors)
    _forward[_grid(cell)](*tensors, *sides, cell.shape[2], clip, gates is not None, BLOCK)


def backward(
    gates: Tensor,
    cell: Tensor,
    before: Tensor,
    grad_gated: Tensor,
    grad_cell: Tensor,
    grad_gates: Tensor,
    gated: Tensor,
    clip: float,
) -> None:
    """Compute `pointwise.backward` on a GPU."""
    tensors = gates, cell, before, grad_gated, grad_cell, grad_gates, gated
    _backward[_grid(cell)](*tensors, *_sides(tensors), cell.shape[2], clip, BLOCK)


def _grid(cell: Tensor) -> tuple[int, int, int]:
    directions, rows, size = cell.shape
    return rows, triton.cdiv(size, BLOCK), directions


def _sides(tensors: tuple[Tensor, ...]) -> tuple[int, ...]:
    return tuple(tensor.stride(0) for tensor in tensors)


@triton.jit
@no_type_check
def _cells(size, block: tl.constexpr):
    """Return a program's direction, and which of its cells there are, and where: they and their
    first gates.
    """
    row, column = tl.program_id(0), tl.program_id(1) * block + tl.arange(0, block)
    return tl.program_id(2), column < size, row * size + column, row * 4 * size + column


@triton.jit
@no_type_check
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
@no_type_check
def _gate(product, inputs, gate, inside):
    product = tl.load(product + gate, inside).to(tl.float32)
    return product + tl.load(inputs + gate, inside).to(tl.float32)


@triton.jit
@no_type_check
def _forward(
    product,
    inputs,
    before,
    gates,
    cell,
    gated,
    product_side,
    inputs_side,
    before_side,
    gates_side,
    cell_side,
    gated_side,
    size,
    clip,
    keep: tl.constexpr,
    block: tl.constexpr,
):
    side, inside, at, at_gates = _cells(size, block)
    product += side * product_side + at_gates
    inputs += side * inputs_side + at_gates
    i = tl.sigmoid(_gate(product, inputs, 0, inside))
    j = _tanh(_gate(product, inputs, size, inside))
    f = tl.sigmoid(_gate(product, inputs, 2 * size, inside))
    o = tl.sigmoid(_gate(product, inputs, 3 * size, inside))
    c = f * tl.load(before + side * before_side + at, inside).to(tl.float32) + i * j
    c = tl.where(c > clip, clip, tl.where(c < -clip, -clip, c))  # unlike min and max, keeps NaN
    tl.store(cell + side * cell_side + at, c, inside)
    tl.store(gated + side * gated_side + at, o * _tanh(c), inside)
    if keep:
        gates += side * gates_side + at_gates
        tl.store(gates, i, inside)
        tl.store(gates + size, j, inside)
        tl.store(gates + 2 * size, f, inside)
        tl.store(gates + 3 * size, o, inside)


@triton.jit
@no_type_check
def _backward(
    gates,
    cell,
    before,
    grad_gated,
    grad_cell,
    grad_gates,
    gated,
    gates_side,
    cell_side,
    before_side,
    grad_gated_side,
    grad_cell_side,
    grad_gates_side,
    gated_side,
    size,
    clip,
    block: tl.constexpr,
):
    side, inside, at, at_gates = _cells(size, block)
    gates += side * gates_side + at_gates
    grad_gates += side * grad_gates_side + at_gates
    grad_cell += side * grad_cell_side + at
    i = tl.load(gates, inside).to(tl.float32)
    j = tl.load(gates + size, inside).to(tl.float32)
    f = tl.load(gates + 2 * size, inside).to(tl.float32)
    o = tl.load(gates + 3 * size, inside).to(tl.float32)
    c = tl.load(cell + side * cell_side + at, inside).to(tl.float32)
    c_before = tl.load(before + side * before_side + at, inside).to(tl.float32)
    above = tl.load(grad_gated + side * grad_gated_side + at, inside).to(tl.float32)
    tanh_c = _tanh(c)
    grad = tl.load(grad_cell, inside).to(tl.float32) + above * o * (1 - tanh_c * tanh_c)
    grad = tl.where(tl.abs(c) >= clip, 0.0, grad)
    tl.store(gated + side * gated_side + at, o * tanh_c, inside)
    tl.store(grad_cell, grad * f, inside)
    tl.store(grad_gates, grad * j * i * (1 - i), inside)
    tl.store(grad_gates + size, grad * i * (1 - j * j), inside)
    tl.store(grad_gates + 2 * size, grad * c_before * f * (1 - f), inside)
    tl.store(grad_gates + 3 * size, above * tanh_c * o * (1 - o), inside)
