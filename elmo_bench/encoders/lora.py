"""LoRA (Hu et al. 2021): small trainable adapters for an encoder whose own weights are frozen."""

from typing import Any

from torch import nn

from elmo_bench.files import Size

SCALE = 2  # alpha / rank, the weight of an adapter's output


def add_adapters(encoder: Any, rank: Size) -> None:
    """Freeze a transformers encoder and add an adapter of the given rank to each linear layer of
    its model. The adapters are trainable and initially add zero.

    Raises ValueError for an encoder without such a model, and ImportError if peft is not installed.
    """
    model = getattr(encoder, "model", None)
    if not isinstance(model, nn.Module) or not hasattr(model, "config"):
        raise ValueError(
            f"finetune=lora requires an encoder with linear layers of a transformers "
            f"model, but this one is a {type(encoder).__name__}: choose "
            "encoder=transformer, or finetune=full, which trains all weights"
        )
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ImportError(
            "finetune=lora requires a package: pip install 'elmo-bench[transformers]'"
        ) from error
    settings = LoraConfig(r=rank, lora_alpha=SCALE * rank, target_modules="all-linear")
    encoder.requires_grad_(False)
    inject_adapter_in_model(settings, model)
