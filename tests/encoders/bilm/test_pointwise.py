"""A step's arithmetic, which `test_bilm.py` compares with a plain loop in torch's operations: in C,
and as Triton's kernels, run by Triton's interpreter and compiled for GPUs that need not be here.
"""

import os
import subprocess
import sys

import pytest
import torch

from elmo_bench.encoders.bilm import bilm, pointwise

BUILT = pytest.mark.skipif(
    pointwise.LIBRARY is None, reason="needs a C compiler, which builds native.c"
)
N, CLIP = 7, 0.9


def numbers(size=19, dtype=torch.float32, *, directions=1, gates=True, scale=2.0):
    """What a step forward and one backward give, from numbers that are the same each time; with
    several directions all are parts of larger tensors.
    """
    random = torch.Generator().manual_seed(size)

    def part(width, dtype=torch.float32):
        whole = torch.randn(directions, N + 2 * (directions > 1), width, generator=random)
        return whole.to(dtype)[:, :N]

    product, inputs = (scale * part(4 * size, dtype) for _ in range(2))
    before, after, gated = part(size), part(size), part(size, dtype)
    saved = part(4 * size) if gates else None
    pointwise.forward(product, inputs, before, saved, after, gated, CLIP)
    results = [after, gated.clone()]
    if saved is None:
        return results
    grad_gated, grad_cell, grad_gates = part(size, dtype), part(size), part(4 * size, dtype)
    pointwise.backward(saved, after, before, grad_gated, grad_cell, grad_gates, gated, CLIP)
    return [*results, saved, grad_cell, grad_gates, gated]


def assert_close(ours, theirs, dtype):
    limits = {"atol": 1e-6, "rtol": 1e-5}
    if dtype == torch.bfloat16:  # one step of it
        limits = {"atol": 1e-3, "rtol": 8e-3}
    torch.testing.assert_close(ours, theirs, **limits)


@BUILT
@pytest.mark.parametrize("gates", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_c_equals_torch(monkeypatch, dtype, gates):
    in_c = numbers(dtype=dtype, gates=gates)
    monkeypatch.setattr(pointwise, "LIBRARY", None)
    assert_close(in_c, numbers(dtype=dtype, gates=gates), dtype)


@BUILT
def test_gates_are_as_good_as_float32_is():
    product, size = torch.linspace(-100, 100, 4 * 19 * N).view(1, N, -1), 19
    zeros, gates = torch.zeros(1, N, 4 * size), torch.empty(1, N, 4 * size)
    ends = torch.empty(1, N, size), torch.empty(1, N, size)
    pointwise.forward(product, zeros, torch.zeros(1, N, size), gates, *ends, 3.0)
    i, j, f, o = product.double().chunk(4, -1)
    expected = torch.cat([i.sigmoid(), j.tanh(), f.sigmoid(), o.sigmoid()], -1)
    torch.testing.assert_close(gates.double(), expected, rtol=5e-7, atol=1e-12)


@pytest.mark.parametrize("in_c", [pytest.param(True, marks=BUILT), False])
def test_nan_stays(monkeypatch, in_c):
    """So that training with a loss that is not a number is noticed."""
    if not in_c:
        monkeypatch.setattr(pointwise, "LIBRARY", None)
    assert all(tensor.isnan().all() for tensor in numbers(scale=float("nan"), gates=False))


@BUILT
def test_threads_share_a_step_and_change_no_bit():
    n, z = 64, 528
    product, zeros = torch.randn(1, n, 4 * z), torch.zeros(1, n, 4 * z)
    results, threads = [], torch.get_num_threads()
    for count in (1, 2):
        torch.set_num_threads(count)
        after, gated = torch.ones(1, n, z), torch.empty(1, n, z)
        pointwise.forward(product, zeros, after, None, after, gated, 3.0)
        results.append((after, gated))
    torch.set_num_threads(threads)
    assert all(map(torch.equal, *results))


def interpreted():
    """Both kernels, and a biLM's layers and gradients with them, in a process whose Triton
    interprets.
    """
    from tests.encoders.bilm import plain_bilm
    from tests.encoders.bilm.clipping_bilm import CHARS, assert_same, frozen, trained

    pointwise.LIBRARY = None
    for size, dtype in ((1, torch.float32), (7, torch.bfloat16), (300, torch.float32)):
        for settings in ({"gates": False}, {}):
            found = numbers(size, dtype, directions=2, **settings)
            assert pointwise.fused(found[0])
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(pointwise, "fused", lambda _: None)
                assert_close(found, numbers(size, dtype, directions=2, **settings), dtype)
    assert all(tensor.isnan().all() for tensor in numbers(scale=float("nan"), gates=False))
    torch.manual_seed(0)
    bilm.TOGETHER_ON = ("cpu",)
    model = frozen(cell_size=37)
    assert_same(model.read(CHARS), plain_bilm.read(model, CHARS))
    model, gradients = trained(model), []
    for layers, _ in (model.read(CHARS[:2, :2]), plain_bilm.read(model, CHARS[:2, :2])):
        gradients.append(torch.autograd.grad(layers.square().sum(), [*model.parameters()]))
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours - theirs).norm() < 1e-4 * theirs.norm()


def test_interpreted_kernels():
    pytest.importorskip("triton")
    subprocess.run(
        [sys.executable, "-c", f"from {__name__} import interpreted; interpreted()"],
        check=True,
        env=os.environ | {"TRITON_INTERPRET": "1"},
    )


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["_forward", "_backward"])
def test_kernels_compile(name, dtype, tmp_path, monkeypatch):
    """To a GPU's machine code, which Triton can make without one."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget

    from elmo_bench.encoders.bilm import triton_kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    low = ("product", "inputs", "gated", "grad_gates", "grad_gated")
    types = dict.fromkeys(low, f"*{dtype}")
    types |= dict.fromkeys(("gates", "before", "cell", "grad_cell"), "*fp32")
    types |= {"size": "i32", "clip": "fp32"}
    constants = {"keep": True, "block": triton_kernels.BLOCK}
    kernel = getattr(triton_kernels, name)
    signature = {
        argument: "constexpr" if argument in constants else types.get(argument, "i64")
        for argument in kernel.arg_names
    }
    own = {argument: constants[argument] for argument in kernel.arg_names if argument in constants}
    source = triton.compiler.ASTSource(kernel, signature, own)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]


def test_without_triton(monkeypatch, caplog):
    """One warning, and torch's own operations."""
    monkeypatch.setitem(sys.modules, "elmo_bench.encoders.bilm.triton_kernels", None)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(pointwise, "_kernels", pointwise._kernels.__wrapped__)
    assert pointwise.fused(torch.zeros(1)) is None
    assert "without its Triton kernels" in caplog.text
