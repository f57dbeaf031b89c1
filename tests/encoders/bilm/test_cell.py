"""The pointwise half of a step: its gradient against autograd, and Triton's kernels against torch's
operations, run by Triton's interpreter and compiled for GPUs that need not be here.
"""

import os
import subprocess
import sys

import pytest
import torch

from elmo_bench.encoders.bilm import bilm, cell, fast


def made_up(size, dtype=torch.float32):
    """What `cell.gradient` takes, parts of larger tensors: z, before, after, gated, grad_z,
    grad_gated, grad_c.
    """
    random = torch.Generator().manual_seed(size)
    z, grad_z = (torch.randn(2, 9, 4 * size, generator=random).to(dtype)[:, 2:7] for _ in range(2))
    gated, grad_gated = (torch.randn(2, 5, size, generator=random).to(dtype) for _ in range(2))
    before, after, grad_c = (torch.randn(2, 6, size, generator=random)[:, :5] for _ in range(3))
    return z, before, after, gated, grad_z, grad_gated, grad_c


def test_gradient():
    """Of the gates and of the cell before, where the clip binds and where it does not."""
    clip = 0.6
    z, before, after, gated, grad_z, grad_gated, grad_c = (part.double() for part in made_up(7))
    leaves = z.clone().requires_grad_(), before.clone().requires_grad_()
    i, j, f, o = leaves[0].chunk(4, -1)
    c = (f + 1).sigmoid() * leaves[1] + i.sigmoid() * j.tanh()
    c = c.clamp(-clip, clip)
    assert 0 < (c.abs() == clip).sum() < c.numel()
    expected = torch.autograd.grad((o.sigmoid() * c.tanh(), c), leaves, (grad_gated, grad_c))
    cell.step(z, before, after, gated, clip, keep=True)
    torch.testing.assert_close(after, c)
    again = torch.empty_like(gated)
    cell.gradient(z, before, after, again, grad_z, grad_gated, grad_c, clip)
    torch.testing.assert_close(again, gated)
    torch.testing.assert_close((grad_z, grad_c), expected)


def interpreted():
    """Both kernels, and a biLM's layers and gradients with them, in a process whose Triton
    interprets.
    """
    from tests.encoders.bilm.test_fast import CHARS, assert_same, defined, frozen

    torch.manual_seed(0)
    fast.STACKED_ON = ("cpu",)
    model = frozen(cell_size=37)
    assert_same(model.read(CHARS), defined(model, CHARS))
    model.train().requires_grad_(True)
    plain = bilm.BiLm(model.options).train()
    plain.load_state_dict(model.state_dict())
    for each in (model, plain):
        each.read(CHARS[:2, :2])[0].square().sum().backward()
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        assert (ours.grad - theirs.grad).norm() < 1e-4 * theirs.grad.norm()
    for size, dtype in ((1, torch.float32), (7, torch.bfloat16), (300, torch.float32)):
        found = []
        for fused in (cell.fused, lambda _: None):
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(cell, "fused", fused)
                frozen, trained = made_up(size, dtype)[:4], made_up(size, dtype)
                cell.step(*frozen, 0.6)
                cell.step(*trained[:4], 0.6, keep=True)
                cell.gradient(*trained, 0.6)
                found.append((*frozen[2:], *trained))
        assert cell.fused(found[0][0])
        tolerance = 1e-6 if dtype == torch.float32 else 0.04
        torch.testing.assert_close(*found, atol=tolerance, rtol=tolerance)
    c = torch.zeros(1, 1, 1)
    cell.step(torch.full((1, 1, 4), torch.nan), c, c, c.clone(), 3.0)
    assert c.isnan().all()


def test_interpreted_kernels():
    pytest.importorskip("triton")
    subprocess.run(
        [sys.executable, "-c", f"from {__name__} import interpreted; interpreted()"],
        check=True,
        env=os.environ | {"TRITON_INTERPRET": "1"},
    )


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize("name", ["_step", "_gradient"])
def test_kernels_compile(name, dtype, tmp_path, monkeypatch):
    """To a GPU's machine code, which Triton can make without one."""
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget

    from elmo_bench.encoders.bilm import kernels

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    types = dict.fromkeys(("z", "gated", "grad_z", "grad_gated"), f"*{dtype}")
    types |= dict.fromkeys(("before", "after", "grad_c"), "*fp32")
    types |= {"size": "i32", "clip": "fp32"}
    constants = {"forget_bias": 1.0, "keep": True, "block": kernels.BLOCK}
    kernel = getattr(kernels, name)
    signature = {
        argument: "constexpr" if argument in constants else types.get(argument, "i64")
        for argument in kernel.arg_names
    }
    own = {argument: constants[argument] for argument in kernel.arg_names if argument in constants}
    source = triton.compiler.ASTSource(kernel, signature, own)
    assert triton.compile(source, target=GPUTarget("cuda", 90, 32)).asm["cubin"]


def test_without_triton(monkeypatch, caplog):
    """One warning, and torch's own operations."""
    monkeypatch.setitem(sys.modules, "elmo_bench.encoders.bilm.kernels", None)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(cell, "_kernels", cell._kernels.__wrapped__)
    assert cell.fused(torch.zeros(1)) is None
    assert "without its Triton kernels" in caplog.text
