"""LoRA (Hu et al. 2021): small trainable adapters for an encoder whose own weights are frozen; and
one that PEFT saved, added to the weights of a model.
"""

from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from elmo_bench.bounds import Size
from elmo_bench.files import read_json
from elmo_bench.terminal import pip_install

from .tensors import check_finite

SCALE = 2  # alpha / rank, the weight of an adapter's output
WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
READ = {"r", "lora_alpha", "use_rslora", "use_dora", "fan_in_fan_out", "lora_bias"}
# Settings of training, and those that the weights show. All others must be PEFT's defaults: some
# change the model's own weights, and some name files or modules that PEFT would load.
UNREAD = {"task_type", "inference_mode", "auto_mapping", "peft_version", "revision"}
UNREAD |= {"base_model_name_or_path", "lora_dropout", "modules_to_save", "target_modules"}
UNREAD |= {"exclude_modules", "layers_to_transform", "layers_pattern"}
PREFIX = "base_model.model."
MARK = ".lora_"


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
            f"finetune=lora needs the package peft: {pip_install('transformers')}"
        ) from error
    settings = LoraConfig(r=rank, lora_alpha=SCALE * rank, target_modules="all-linear")
    encoder.requires_grad_(False)
    inject_adapter_in_model(settings, model)


def merge_adapter(model: Any, adapter: str | Path) -> None:
    """Add the adapter in a folder to the weights of a model of transformers.

    It may have been trained in the same model below a head; what belongs to a head is left out.
    Raises ValueError for an adapter of another kind, and for one that does not fit.
    """
    folder = Path(adapter).expanduser()
    for file in (CONFIG, WEIGHTS):
        if not (folder / file).is_file():
            raise ValueError(
                f"encoder.adapter={adapter} has no {file}: give a folder with a LoRA adapter that "
                "PEFT saved as safetensors"
            )
    try:
        settings = read_json(folder / CONFIG)
        weights = load_file(folder / WEIGHTS)
        check_finite(folder / WEIGHTS, weights)
        _adapted(model, settings, weights).merge_and_unload()
    except (LookupError, RuntimeError, SafetensorError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split("\n\t")[:2])  # of all sizes the first
        raise ValueError(
            f"encoder.adapter={adapter} cannot be added to this model: {reason}"
        ) from error
    model.requires_grad_(True)  # as before


def _adapted(model: Any, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Any:
    """Return PEFT's model with this adapter."""
    import peft  # takes seconds

    usual = peft.LoraConfig().to_dict()
    for key, value in settings.items():
        if key not in READ | UNREAD and value != usual.get(key):
            raise ValueError(
                f"{CONFIG} sets {key}={shown(value)}, but only plain LoRA can be added: merge it "
                "into its own model, and save that"
            )
    below_head = f"{PREFIX}{model.base_model_prefix}."
    prefix = below_head if any(key.startswith(below_head) for key in weights) else PREFIX
    own = {key.removeprefix(prefix): key for key in weights if key.startswith(prefix)}
    replaced = sorted(own.keys() & model.state_dict().keys())
    if replaced:
        raise ValueError(f"it replaces {replaced[0]}: merge it into its own model, and save that")
    lora = {}
    targets = set()
    for name, key in own.items():
        if MARK in name:
            lora[PREFIX + name] = weights[key]
            targets.add(name.partition(MARK)[0])
    config = {key: settings[key] for key in READ & settings.keys()}
    adapted = peft.PeftModel(model, peft.LoraConfig(**config, target_modules=sorted(targets)))
    result: Any = peft.set_peft_model_state_dict(adapted, lora)
    wrong = [key for key in result.missing_keys if MARK in key]
    wrong += result.unexpected_keys
    wrong.sort()
    if wrong:
        raise ValueError(f"{wrong[0].removeprefix(PREFIX)} is missing in it, or not expected")
    return adapted
