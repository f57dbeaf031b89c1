"""What a process that computes with a model sets once."""

import logging
import os
import warnings

import torch

CHATTER = (  # Lightning's, on what is meant
    "does not have many workers",
    "number of training batches",
    "exists and is not empty",
    "LeafSpec",
    "in eval mode at the start of training",  # a frozen encoder
    "dataloader is not resumable",  # StepCheckpoint restores our position
    "using a custom batch sampler",
    "`srun` command is available",
    "`is_gradient_checkpointing` is deprecated",  # transformers', of what peft asks
)


def prepare(*, tf32: bool, deterministic: bool) -> None:
    """Silence Lightning's chatter, and compute float32 products in true float32, or all of them in
    TF32 with `tf32`.

    With TF32, a GPU rounds the factors of products to 10 bits. Torch's default allows it only in
    convolutions and recurrent layers; this function sets it for matrix products, too.
    `deterministic` configures cuBLAS's buffers for a fixed order of summation, unless the user has
    set them. Call this before the process first uses the GPU.
    """
    torch.backends.cudnn.allow_tf32 = tf32  # convolutions and recurrent layers
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    # With deterministic algorithms torch fills new memory with NaN, to reveal uninitialised
    # reads. This takes 4 % of a tagger's training time.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    if deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    silence()


def silence() -> None:
    """Keep Lightning from saying what is meant to be so, and the hub's client each request."""
    for name in ("pytorch_lightning", "httpx"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for words in CHATTER:
        warnings.filterwarnings("ignore", f".*{words}.*")
