"""The biLM on a GPU against plain loops on a CPU; `pytest -m gpu`."""

import copy
import subprocess
import sys

import pytest
import torch

from benchmarks.timing import SIZES
from elmo_bench.encoders.bilm import BiLm, pointwise
from elmo_bench.text.chars import char_ids
from tests.encoders.bilm import plain_bilm
from tests.encoders.bilm.clipping_bilm import BATCH, CHARS, frozen, random_state

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


@pytest.fixture(autouse=True)
def _float32_is_float32():
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.mark.parametrize("changes", [{}, {"cell_size": 300}, {"directions": ("backward",)}])
def test_every_layer_and_state(changes):
    model = frozen(**changes)
    state = random_state(model, len(BATCH))
    layers, after = plain_bilm.read(model, CHARS, state)
    model = model.to("cuda")
    found, last = model.read(CHARS.cuda(), type(state)(*(part.cuda() for part in state)))
    assert pointwise.fused(found) is not None, "the Triton kernels do not run"
    torch.testing.assert_close(
        (found, *last), (layers, *after), check_device=False, atol=1e-5, rtol=0
    )


def test_every_gradient():
    model = frozen().train().requires_grad_(True)
    there = copy.deepcopy(model).cuda()
    gradients = []
    for layers, (h, c) in (there.read(CHARS.cuda()), plain_bilm.read(model, CHARS)):
        loss = layers.square().sum() + h.sum() + c.square().sum()
        parameters = there.parameters() if layers.is_cuda else model.parameters()
        gradients.append(torch.autograd.grad(loss, [*parameters]))
    for ours, theirs in zip(*gradients, strict=True):
        assert (ours.cpu() - theirs).norm() < 1e-4 * theirs.norm()


def test_bfloat16():
    model = frozen(cell_clip=3.0, projection_clip=3.0)
    expected = plain_bilm.read(model, CHARS)[0]
    model = model.cuda()
    model.bf16 = True
    found = model.read(CHARS.cuda())[0].cpu()
    assert found.dtype == torch.float32
    for ours, exact in zip(found[1:], expected[1:], strict=True):
        assert 0 < (ours - exact).norm() < 0.02 * exact.norm()


def test_steps_do_not_wait():
    """An error where the host would wait; the first forward compiles the kernels."""
    model = frozen().cuda()
    model.read(CHARS.cuda())
    x, state = torch.randn(3, 7, 12, device="cuda"), model.zero_state(3)
    torch.cuda.set_sync_debug_mode("error")
    try:
        model.read_tokens(x, [7, 2, 5], state)
    finally:
        torch.cuda.set_sync_debug_mode("default")


def long_sentences() -> None:
    model = BiLm(SIZES["original"]).eval().requires_grad_(False).cuda()
    chars = char_ids([["word"]]).expand(64, 5000, -1).cuda()
    assert model.read(chars)[0].shape == (3, 64, 5000, 1024)
    assert torch.cuda.max_memory_allocated() < 8e9, torch.cuda.max_memory_allocated()


def test_64_sentences_of_5000_tokens():
    """In 8 GB at the original size; in a process without type checks, which hold on to tensors."""
    code = f"from {__name__} import long_sentences as read; read()"
    subprocess.run([sys.executable, "-c", code], check=True)
