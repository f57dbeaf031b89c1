"""A LoRA adapter (Hu et al. 2021) that PEFT saved, added to the weights of a model."""

from collections.abc import Mapping
from pathlib import Path
from reprlib import repr as shown
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from elmo_bench.files import read_json

from ..tensors import check_finite

WEIGHTS, CONFIG = "adapter_model.safetensors", "adapter_config.json"
ACTING = {"r", "lora_alpha", "use_rslora", "use_dora", "fan_in_fan_out", "lora_bias"}
# Settings of training, and those that the weights show.
IDLE = {"peft_type", "task_type", "inference_mode", "auto_mapping", "peft_version", "revision"}
IDLE |= {"base_model_name_or_path", "lora_dropout", "bias", "modules_to_save", "target_modules"}
IDLE |= {"exclude_modules", "layers_to_transform", "layers_pattern"}
PREFIX, MARK = "base_model.model.", ".lora_"


def add_adapter(model: nn.Module, adapter: str | Path) -> None:
    """Add the adapter in a folder to a model's weights.

    It may have been trained in the same model below a head; what belongs to a head is left out.
    Raises ValueError for an adapter of another kind, and for one that does not fit.
    """
    folder, name = Path(adapter).expanduser(), f"encoder.adapter={adapter}"
    for file in (CONFIG, WEIGHTS):
        if not (folder / file).is_file():
            raise ValueError(
                f"{name} has no {file}: give a folder with a LoRA adapter that PEFT saved as "
                "safetensors"
            )
    try:
        settings, weights = read_json(folder / CONFIG), load_file(folder / WEIGHTS)
        check_finite(folder / WEIGHTS, weights)
        _adapted(model, settings, weights).merge_and_unload()
    except (LookupError, RuntimeError, SafetensorError, TypeError, ValueError) as error:
        said = " ".join(f"{error}".split("\n\t")[:2])  # of all sizes the first
        raise ValueError(f"{name} cannot be added to this model: {said}") from error
    model.requires_grad_(True)  # as before


def _adapted(model: nn.Module, settings: Mapping[str, Any], weights: Mapping[str, Tensor]) -> Any:
    """Return PEFT's model with this adapter."""
    import peft  # takes seconds

    usual = peft.LoraConfig().to_dict() | dict.fromkeys(ACTING | IDLE, ...) | {"peft_type": "LORA"}
    for key, value in settings.items():
        if usual.get(key) not in (..., value):
            raise ValueError(
                f"{CONFIG} sets {key}={shown(value)}, but only plain LoRA can be added: merge it "
                "into its own model, and save that"
            )
    modules, tensors = {name for name, _ in model.named_modules()} - {""}, {}
    for key, tensor in weights.items():
        name, mark, rest = key.removeprefix(PREFIX).partition(MARK)
        module = _own(name if mark else name.rpartition(".")[0], modules)
        if mark:
            tensors[module, rest] = tensor
        elif module in modules:
            raise ValueError(f"it replaces {name}: merge it into its own model, and save that")
    targets = sorted({module for module, _ in tensors})
    config = {key: settings[key] for key in ACTING & settings.keys()}
    adapted = peft.PeftModel(model, peft.LoraConfig(**config, target_modules=targets))
    named = {f"{PREFIX}{module}{MARK}{rest}": tensor for (module, rest), tensor in tensors.items()}
    result: Any = peft.set_peft_model_state_dict(adapted, named)
    missing = [key for key in result.missing_keys if MARK in key]
    if wrong := sorted([*missing, *result.unexpected_keys]):
        raise ValueError(f"{wrong[0].removeprefix(PREFIX)} is missing in it, or not expected")
    return adapted


def _own(name: str, modules: set[str]) -> str:
    """Return a module's name in the model itself, without the names of what was around it."""
    parts = name.split(".")
    ends = (".".join(parts[k:]) for k in range(len(parts)))
    return next((end for end in ends if end in modules), name)
