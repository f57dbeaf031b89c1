"""A step's arithmetic: C against torch, which `test_scan.py` compares with the definition."""

import pytest
import torch

from elmo_bench.encoders.bilm import native, step

BUILT = pytest.mark.skipif(native.LIBRARY is None, reason="native.c was not built: no C compiler")
N, Z, CLIP = 7, 19, 0.9


def numbers(dtype, *, index=False, gates=True, scale=2.0):
    """What a step forward and one backward give, from numbers that are the same each time."""
    torch.manual_seed(0)
    product = (scale * torch.randn(N, 4 * Z)).to(dtype)
    rows = torch.randint(5, (N,)) if index else None
    inputs = torch.randn(5 if index else N, 4 * Z).to(dtype)
    before, after, gated = torch.randn(N, Z), torch.empty(N, Z), torch.empty(N, Z, dtype=dtype)
    saved = torch.empty(N, 4 * Z) if gates else None
    step.forward(product.clone(), inputs, rows, before, saved, after, gated, CLIP)
    results = [after, gated.clone()]
    if saved is None:
        return results
    grad_gated, grad_cell = torch.randn(N, Z).to(dtype), torch.randn(N, Z)
    grad_gates, grad_bias = torch.empty(N, 4 * Z, dtype=dtype), torch.ones(4 * Z)
    ends = grad_cell, grad_gates, gated, grad_bias
    step.backward(saved, after, before, grad_gated, *ends, CLIP)
    return [*results, saved, *ends]


@BUILT
@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("gates", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_c_equals_torch(monkeypatch, dtype, gates, index):
    in_c = numbers(dtype, gates=gates, index=index)
    monkeypatch.setattr(native, "LIBRARY", None)
    tolerance = {"atol": 1e-6, "rtol": 1e-6} if dtype == torch.float32 else {}
    for ours, theirs in zip(in_c, numbers(dtype, gates=gates, index=index), strict=True):
        limits = tolerance or {"atol": 1e-3, "rtol": 8e-3}  # one step of bfloat16
        torch.testing.assert_close(ours, theirs, **limits)


@BUILT
def test_gates_are_as_good_as_float32_is():
    product = torch.linspace(-100, 100, 4 * Z * N).view(N, 4 * Z)
    zeros, gates = torch.zeros(N, 4 * Z), torch.empty(N, 4 * Z)
    ends = torch.zeros(N, Z), gates, torch.empty(N, Z), torch.empty(N, Z), 3.0
    step.forward(product, zeros, None, *ends)
    i, j, f, o = product.double().chunk(4, 1)
    expected = torch.cat([i.sigmoid(), j.tanh(), f.sigmoid(), o.sigmoid()], 1)
    torch.testing.assert_close(gates.double(), expected, rtol=5e-7, atol=1e-12)


@BUILT
def test_nan_stays():
    """So that training with a loss that is not a number is noticed."""
    values = {"scale": float("nan")}
    assert all(tensor.isnan().all() for tensor in numbers(torch.float32, **values, gates=False))


@BUILT
def test_threads_share_a_step_and_change_no_bit():
    n, z = 64, 528
    product, zeros, threads = torch.randn(n, 4 * z), torch.zeros(n, 4 * z), torch.get_num_threads()
    results = []
    for count in (1, 2):
        torch.set_num_threads(count)
        after, gated = torch.ones(n, z), torch.empty(n, z)
        step.forward(product, zeros, None, after, None, after, gated, 3.0)
        results.append((after, gated))
    torch.set_num_threads(threads)
    assert all(map(torch.equal, *results))


def test_a_library_of_other_calls_is_left(monkeypatch):
    monkeypatch.setattr(native, "VERSION", native.VERSION + 1)
    assert native._load() is None
