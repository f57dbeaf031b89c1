"""Load a tokenizer and a model of Hugging Face transformers, without running code of others.

Weights are read only from safetensors. Every error names `encoder.model`.
"""

import logging
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import torch
from torch import nn

from elmo_bench.files import read_json

from ..tensors import check_finite

log = logging.getLogger(__name__)
MAX_LAYERS = 4096  # a config.json with more would fill the memory with modules
PLAIN = re.compile(r"[\w.-]+\.safetensors", re.ASCII)  # a file's name, without a folder
FLASH = "flash_attention_2"


def load(
    model: str, revision: str | None, dtype: torch.dtype, attention: str | None, pretrained: bool
) -> tuple[Any, Any]:
    """Return the tokenizer and the model, without a pooler; for an encoder-decoder, its encoder.

    With `pretrained=False`, its weights are random. Raises OSError for a model that cannot be
    loaded, and ValueError for one that is not a text encoder or lacks weights.
    """
    transformers = _transformers()
    source = str(Path(model).expanduser())
    _check_folder(model, Path(source), pretrained)
    where: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": False}
    with _quiet(transformers):
        config = _config(transformers, model, source, where)
        tokenizer = transformers.AutoTokenizer.from_pretrained(source, **where)
        if not tokenizer.is_fast:
            raise ValueError(
                f"encoder.model={model}: its tokenizer, {type(tokenizer).__name__}, is written in "
                "Python and cannot be converted to a tokenizer.json, which is needed here: choose "
                "a model that has one, or add one to the model's folder"
            )
        auto, has_decoder = _auto_class(transformers, config)
        how = {"dtype": dtype, "trust_remote_code": False}
        how |= {"attn_implementation": attention} if attention else {}
        if not pretrained:
            log.info("encoder.pretrained=false: %s has random weights", model)
            whole = auto.from_config(config, **how)
            return tokenizer, _encoder(whole, has_decoder=has_decoder).float().to(dtype)
        _check_index(transformers, model, source, config, revision=where["revision"])
        how |= {"config": config, "use_safetensors": True, "output_loading_info": True}
        whole, about = auto.from_pretrained(source, revision=where["revision"], **how)
    check_finite(f"encoder.model={model}", dict(whole.named_parameters()))
    _check_complete(model, about["missing_keys"])
    return tokenizer, _encoder(whole, has_decoder=has_decoder)


def _check_folder(model: str, folder: Path, pretrained: bool) -> None:
    """Raise FileNotFoundError for a folder that is not there or lacks a file."""
    if not folder.is_dir():
        if model.startswith((".", "/", "~")) or model.count("/") > 1:
            raise FileNotFoundError(
                f"encoder.model={model}: no such folder; give a folder with a config.json, or a "
                "name on the hub, such as google/electra-base-discriminator"
            )
        return
    if not (folder / "config.json").is_file():
        raise FileNotFoundError(f"encoder.model={model}: this folder has no config.json")
    if not any(folder.glob("*token*")) and not any(folder.glob("vocab*")):
        raise FileNotFoundError(
            f"encoder.model={model}: this folder has no tokenizer (tokenizer.json)"
        )
    if pretrained and not any(folder.glob("*.safetensors")):
        raise FileNotFoundError(
            f"encoder.model={model}: this folder has no safetensors weights; pickle files "
            "(pytorch_model.bin) are not read, since loading them runs code: save the model again "
            "with save_pretrained"
        )


def _check_index(transformers: Any, model: str, source: str, config: Any, revision: str) -> None:
    """Raise ValueError if the list of a model's files of weights names a file that is not a
    safetensors file of its folder: transformers would unpickle it.
    """
    name = getattr(config, "transformers_weights", None) or "model.safetensors.index.json"
    path = None
    if str(name).endswith(".json"):
        missing = {"_raise_exceptions_for_missing_entries": False}
        path = transformers.utils.cached_file(source, name, revision=revision, **missing)
    names = read_json(path).get("weight_map") if path else {}
    names = names.values() if isinstance(names, dict) else [names]
    if wrong := [one for one in names if not PLAIN.fullmatch(str(one))]:
        raise ValueError(
            f"encoder.model={model}: {name} names {shown(wrong[0])}, but each of its files must be "
            "NAME.safetensors in the same folder"
        )


def _config(transformers: Any, model: str, source: str, where: Mapping[str, Any]) -> Any:
    """Return the config of a text encoder whose code is transformers' own."""
    config = transformers.AutoConfig.from_pretrained(source, **where)
    config.use_cache = False
    if getattr(config, "_attn_implementation", None) not in (None, "sdpa", "eager"):
        raise ValueError(
            f"encoder.model={model}: its config.json sets attn_implementation="
            f"{shown(config._attn_implementation)}, but it must be sdpa, eager or missing, since "
            "others may be remote code: edit this config.json"
        )
    if not hasattr(config, "vocab_size"):
        raise ValueError(
            f"encoder.model={model} is not a text encoder: its type is {config.model_type}"
        )
    if (layers := getattr(config, "num_hidden_layers", 0)) > MAX_LAYERS:
        raise ValueError(
            f"encoder.model={model}: its config.json has {layers} layers, but at most "
            f"{MAX_LAYERS:,} are possible"
        )
    return config


def _auto_class(transformers: Any, config: Any) -> tuple[Any, bool]:
    """Return the class that builds the model, and whether this model has a decoder, too."""
    encoders = transformers.AutoModelForTextEncoding
    # Of T5 and the like the encoder alone, which may also be all that the folder has.
    if type(config) in encoders._model_mapping:
        return encoders, False
    return transformers.AutoModel, bool(getattr(config, "is_encoder_decoder", False))


def _encoder(whole: Any, *, has_decoder: bool) -> Any:
    """Return the encoder of a model, without a pooler."""
    encoder = whole.get_encoder() if has_decoder else whole
    if isinstance(getattr(encoder, "pooler", None), nn.Module):
        encoder.pooler = nn.Identity()  # many checkpoints lack it, and no layer uses it
    return encoder


def _check_complete(model: str, missing: Iterable[str]) -> None:
    """Raise ValueError if the files lack weights; no layer uses a pooler's."""
    random = sorted(name for name in missing if not name.startswith("pooler."))
    if random:
        raise ValueError(
            f"encoder.model={model}: its files have no weights for "
            f"{', '.join(random[:3])}{' ...' if len(random) > 3 else ''} ({len(random)} in all), "
            "which would stay random: check that its config.json belongs to these weights"
        )


def use_flash_attention(model: Any) -> None:
    """Let a loaded model use FlashAttention 2. Raises ValueError where it cannot run.

    Without the package flash-attn, transformers would download a kernel, that is code.
    """
    is_there = _transformers().utils.is_flash_attn_2_available()  # the package and a GPU
    if is_there and model.dtype != torch.float32:
        model.set_attn_implementation(FLASH)
    if model.config._attn_implementation != FLASH:
        raise ValueError(
            f"encoder.attention={FLASH} needs the package flash-attn, a GPU, "
            "encoder.dtype=bfloat16 or float16, and a model that has it (here "
            f"{type(model).__name__}): encoder.attention=sdpa runs everywhere"
        )


def _transformers() -> Any:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a loader forks its workers
    try:
        import transformers
    except ImportError as error:
        raise ImportError(
            "encoder=transformer requires a package: pip install 'elmo-bench[transformers]'"
        ) from error
    return transformers


@contextmanager
def _quiet(transformers: Any) -> Iterator[None]:
    """Suppress progress bars and lists of unused heads; what matters is raised as an error."""
    logging_ = transformers.utils.logging
    verbosity, bars = logging_.get_verbosity(), logging_.is_progress_bar_enabled()
    logging_.set_verbosity_error()
    logging_.disable_progress_bar()
    try:
        yield
    finally:
        logging_.set_verbosity(verbosity)
        if bars:
            logging_.enable_progress_bar()


@contextmanager
def naming(model: Any) -> Iterator[None]:
    """Re-raise exceptions of transformers in terms of `encoder.model`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of tokenizers (Rust) are BaseExceptions
        said = f"{error}".strip()
        if said.startswith("encoder.") or isinstance(error, ImportError):
            raise
        if "trust_remote_code" in said:
            raise ValueError(
                f"encoder.model={model} requires remote code, which is never run: choose a "
                "model whose architecture is part of transformers"
            ) from error
        if isinstance(error, OSError):
            raise OSError(
                f"encoder.model={model} cannot be loaded: there is no such local folder, "
                "and on the hub there is no such model, or it requires a login or has no "
                f"safetensors weights, or the hub cannot be reached. {said}"
            ) from error
        raise ValueError(
            f"encoder.model={model} cannot be used as a text encoder: "
            f"{said or type(error).__name__}"
        ) from error
