"""What float32 means in this process, and whether the same seed gives the same numbers on a GPU."""

import os

import torch


def settle(*, tf32: bool, deterministic: bool) -> None:
    """Compute in float32 what `trainer.precision` says is float32.

    A GPU rounds the factors of float32 products to the 10 bits of TF32 where it may: torch lets it
    in convolutions and recurrent layers, and, with `tf32`, in matrix products too. `deterministic`
    gives cuBLAS the buffers with which its sums come in one order; a user's own choice stays. Both
    come before the process first uses the GPU.
    """
    torch.backends.cudnn.allow_tf32 = tf32  # convolutions and recurrent layers
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    # With deterministic algorithms torch fills new memory with NaN, to reveal uninitialised
    # reads. This takes 4 % of a tagger's training time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
