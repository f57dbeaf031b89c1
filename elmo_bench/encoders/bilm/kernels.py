"""Triton kernels of `cell.py`: a step's pointwise operations and their gradient, one launch each.

A program computes `BLOCK` cells of one row. Rows are contiguous; `*_side` is the stride between
directions. The arithmetic is in float32 for all storage types.

Axes: R directions, N rows, Z cell, G gates (4 Z).
"""

from typing import no_type_check  # Triton would compile our type annotations, and fail

import triton
import triton.language as tl
from torch import Tensor

from .bilm import FORGET_BIAS

BLOCK = 256


def step(
    z: Tensor, before: Tensor, after: Tensor, gated: Tensor, clip: float, *, keep: bool
) -> None:
    """Compute `cell.step` on a GPU."""
    tensors = z, before, after, gated
    _step[_grid(gated)](*tensors, *_sides(tensors), gated.shape[2], clip, FORGET_BIAS, keep, BLOCK)


def gradient(
    z: Tensor,
    before: Tensor,
    after: Tensor,
    gated: Tensor,
    grad_z: Tensor,
    grad_gated: Tensor,
    grad_c: Tensor,
    clip: float,
) -> None:
    """Compute `cell.gradient` on a GPU."""
    tensors = z, before, after, gated, grad_z, grad_gated, grad_c
    _gradient[_grid(gated)](*tensors, *_sides(tensors), gated.shape[2], clip, BLOCK)


def _grid(gated: Tensor) -> tuple[int, int, int]:
    directions, rows, size = gated.shape
    return rows, triton.cdiv(size, BLOCK), directions


def _sides(tensors: tuple[Tensor, ...]) -> tuple[int, ...]:
    return tuple(tensor.stride(0) for tensor in tensors)


@triton.jit
@no_type_check
def _tanh(x):
    return 2 * tl.sigmoid(2 * x) - 1


@triton.jit
@no_type_check
def _step(
    z,
    before,
    after,
    gated,
    z_side,
    before_side,
    after_side,
    gated_side,
    size,
    clip,
    forget_bias: tl.constexpr,
    keep: tl.constexpr,
    block: tl.constexpr,
):
    row, side = tl.program_id(0), tl.program_id(2)
    cell = tl.program_id(1) * block + tl.arange(0, block)
    inside = cell < size
    z += side * z_side + row * 4 * size + cell
    i = tl.sigmoid(tl.load(z, inside).to(tl.float32))
    j = _tanh(tl.load(z + size, inside).to(tl.float32))
    f = tl.sigmoid(tl.load(z + 2 * size, inside).to(tl.float32) + forget_bias)
    o = tl.sigmoid(tl.load(z + 3 * size, inside).to(tl.float32))
    at = row * size + cell
    c = f * tl.load(before + side * before_side + at, inside).to(tl.float32) + i * j
    c = tl.where(c > clip, clip, tl.where(c < -clip, -clip, c))  # unlike min and max, keeps NaN
    tl.store(after + side * after_side + at, c, inside)
    tl.store(gated + side * gated_side + at, o * _tanh(c), inside)
    if keep:
        tl.store(z, i, inside)
        tl.store(z + size, j, inside)
        tl.store(z + 2 * size, f, inside)
        tl.store(z + 3 * size, o, inside)


@triton.jit
@no_type_check
def _gradient(
    z,
    before,
    after,
    gated,
    grad_z,
    grad_gated,
    grad_c,
    z_side,
    before_side,
    after_side,
    gated_side,
    grad_z_side,
    grad_gated_side,
    grad_c_side,
    size,
    clip,
    block: tl.constexpr,
):
    row, side = tl.program_id(0), tl.program_id(2)
    cell = tl.program_id(1) * block + tl.arange(0, block)
    inside = cell < size
    z += side * z_side + row * 4 * size + cell
    grad_z += side * grad_z_side + row * 4 * size + cell
    i = tl.load(z, inside).to(tl.float32)
    j = tl.load(z + size, inside).to(tl.float32)
    f = tl.load(z + 2 * size, inside).to(tl.float32)
    o = tl.load(z + 3 * size, inside).to(tl.float32)
    at = row * size + cell
    c_before = tl.load(before + side * before_side + at, inside).to(tl.float32)
    c = tl.load(after + side * after_side + at, inside).to(tl.float32)
    above = tl.load(grad_gated + side * grad_gated_side + at, inside).to(tl.float32)
    grad_c += side * grad_c_side + at
    tanh_c = _tanh(c)
    grad = tl.load(grad_c, inside).to(tl.float32) + above * o * (1 - tanh_c * tanh_c)
    grad = tl.where(tl.abs(c) >= clip, 0.0, grad)
    tl.store(gated + side * gated_side + at, o * tanh_c, inside)
    tl.store(grad_c, grad * f, inside)
    tl.store(grad_z, grad * j * i * (1 - i), inside)
    tl.store(grad_z + size, grad * i * (1 - j * j), inside)
    tl.store(grad_z + 2 * size, grad * c_before * f * (1 - f), inside)
    tl.store(grad_z + 3 * size, above * tanh_c * o * (1 - o), inside)
