"""Whether float32 is float32."""

import os

import pytest
import torch

from elmo_bench.build import process


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # so that it is restored
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    yield
    process.prepare(tf32=False, deterministic=False)


@pytest.mark.parametrize("tf32", [False, True])
def test_all_products_of_float32_are_alike(tf32):
    """Torch alone has TF32 in recurrent layers and convolutions, and not in matrix products."""
    process.prepare(tf32=tf32, deterministic=False)
    if hasattr(torch.backends.cudnn, "rnn"):  # later than torch 2.6
        kinds = torch.backends.cuda.matmul, torch.backends.cudnn.rnn, torch.backends.cudnn.conv
        assert [kind.fp32_precision == "tf32" for kind in kinds] == [tf32] * 3
    # What Lightning asks before it trains on a GPU, and would fail if the two ways disagreed.
    assert torch.get_float32_matmul_precision() == ("high" if tf32 else "highest")
    assert torch.backends.cudnn.allow_tf32 == torch.backends.cuda.matmul.allow_tf32 == tf32


def test_sums_in_one_order(monkeypatch):
    process.prepare(tf32=False, deterministic=False)
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    process.prepare(tf32=False, deterministic=True)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":16:8")
    process.prepare(tf32=False, deterministic=True)
    assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
