"""Triton kernels of `pointwise.py`: a step, and its gradient, in one launch each.

A program computes `BLOCK` cells of one row. Rows are contiguous; `*_side` is the stride between
directions. The arithmetic is in float32 for all storage types.

Axes: R directions, N rows, Z cell, G gates (4 Z).
"""

from collections.abc import Sequence
from typing import no_type_check  # Triton would compile our type annotations, and fail

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 256


@no_type_check
def step(tensors: Sequence[Tensor | None], clip: float, backward: bool) -> None:
    """Compute a step on a GPU, from the tensors of `pointwise.forward` or `backward`."""
    directions, rows, size = tensors[-1].shape
    given = [tensors[-1] if tensor is None else tensor for tensor in tensors]
    sides = [tensor.stride(0) for tensor in given]
    grid = (rows, triton.cdiv(size, BLOCK), directions)
    if backward:
        _backward[grid](*given, *sides, size, clip, BLOCK)
    else:
        keep = tensors[3] is not None
        _forward[grid](*given, *sides, size, clip, keep, BLOCK)


@triton.jit
@no_type_check
def _cells(size, block: tl.constexpr):
    """Return a program's direction, which of its cells there are, and where cells and gates are."""
    row = tl.program_id(0)
    column = tl.program_id(1) * block + tl.arange(0, block)
    return tl.program_id(2), column < size, row * size + column, row * 4 * size + column


@triton.jit
@no_type_check
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
@no_type_check
def _load(gates, size, inside):
    """Return i, j, f and o."""
    return (
        tl.load(gates, inside).to(tl.float32),
        tl.load(gates + size, inside).to(tl.float32),
        tl.load(gates + 2 * size, inside).to(tl.float32),
        tl.load(gates + 3 * size, inside).to(tl.float32),
    )


@triton.jit
@no_type_check
def _store(gates, size, inside, i, j, f, o):
    tl.store(gates, i, inside)
    tl.store(gates + size, j, inside)
    tl.store(gates + 2 * size, f, inside)
    tl.store(gates + 3 * size, o, inside)


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
    h_i, h_j, h_f, h_o = _load(product + side * product_side + at_gates, size, inside)
    x_i, x_j, x_f, x_o = _load(inputs + side * inputs_side + at_gates, size, inside)
    i = tl.sigmoid(h_i + x_i)
    j = _tanh(h_j + x_j)
    f = tl.sigmoid(h_f + x_f)
    o = tl.sigmoid(h_o + x_o)
    c = f * tl.load(before + side * before_side + at, inside).to(tl.float32) + i * j
    c = tl.where(c > clip, clip, tl.where(c < -clip, -clip, c))  # unlike min and max, keeps NaN
    tl.store(cell + side * cell_side + at, c, inside)
    tl.store(gated + side * gated_side + at, o * _tanh(c), inside)
    if keep:
        _store(gates + side * gates_side + at_gates, size, inside, i, j, f, o)


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
    grad_gates += side * grad_gates_side + at_gates
    grad_cell += side * grad_cell_side + at
    i, j, f, o = _load(gates + side * gates_side + at_gates, size, inside)
    c = tl.load(cell + side * cell_side + at, inside).to(tl.float32)
    c_before = tl.load(before + side * before_side + at, inside).to(tl.float32)
    above = tl.load(grad_gated + side * grad_gated_side + at, inside).to(tl.float32)
    tanh_c = _tanh(c)
    grad = tl.load(grad_cell, inside).to(tl.float32) + above * o * (1 - tanh_c * tanh_c)
    grad = tl.where(tl.abs(c) >= clip, 0.0, grad)
    tl.store(gated + side * gated_side + at, o * tanh_c, inside)
    tl.store(grad_cell, grad * f, inside)
    grad_i = grad * j * i * (1 - i)
    grad_j = grad * i * (1 - j * j)
    grad_f = grad * c_before * f * (1 - f)
    grad_o = above * tanh_c * o * (1 - o)
    _store(grad_gates, size, inside, grad_i, grad_j, grad_f, grad_o)
