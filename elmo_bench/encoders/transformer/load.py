"""Load a tokenizer and a model of Hugging Face transformers, without running code of others.

Weights are read only from safetensors. `naming` says of which model an error is.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import torch
import transformers
from torch import nn

from elmo_bench.files import read_json
from elmo_bench.terminal import plain

from ..lora import merge_adapter
from ..tensors import check_finite
from . import hub

MAX_LAYERS = 4096  # a config.json with more would fill the memory with modules
PLAIN = re.compile(r"[\w.-]+\.safetensors", re.ASCII)  # a file's name, without a folder
transformers.utils.logging.set_verbosity_error()  # no lists of unused heads
transformers.utils.logging.disable_progress_bar()


def load(
    model: str,
    revision: str | None,
    dtype: torch.dtype,
    pretrained: bool,
    adapter: str | Path | None,
) -> tuple[Any, Any]:
    """Return the tokenizer and the model, without a pooler; for an encoder-decoder, its encoder.

    With `pretrained=False`, its weights are random; `adapter` is a folder of LoRA weights to add.
    Raises ValueError for a model that is not a text encoder or lacks weights, and any error of
    transformers.
    """
    source = Path(model).expanduser()
    where: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": False}
    where["local_files_only"] = not source.is_dir() and hub.is_out_of_reach(model, revision)
    config = _config(source, where)
    tokenizer = _tokenizer(source, where, config.vocab_size)
    # Of T5 and the like only the encoder, which may also be all that the folder has.
    encoders = transformers.AutoModelForTextEncoding
    is_encoder = type(config) in encoders._model_mapping
    auto: Any = encoders if is_encoder else transformers.AutoModel
    if pretrained:
        _check_index(source, config, where["revision"], where["local_files_only"])
        whole, about = auto.from_pretrained(
            str(source),
            config=config,
            dtype=dtype,
            use_safetensors=True,
            output_loading_info=True,
            **where,
        )
        check_finite("its weights", dict(whole.named_parameters()))
        # No layer uses a pooler's.
        missing = sorted(key for key in about["missing_keys"] if not key.startswith("pooler."))
        if missing:
            raise ValueError(
                f"its files have no weights for {', '.join(missing[:3])} ({len(missing)} in all), "
                "which would stay random: check that its config.json belongs to these weights"
            )
    else:
        whole = auto.from_config(config, dtype=dtype, trust_remote_code=False).float().to(dtype)
    if adapter:
        merge_adapter(whole, adapter)
    has_decoder = not is_encoder and getattr(config, "is_encoder_decoder", False)
    encoder = whole.get_encoder() if has_decoder else whole
    if isinstance(getattr(encoder, "pooler", None), nn.Module):
        encoder.pooler = nn.Identity()  # many checkpoints lack it, and no layer uses it
    return tokenizer, encoder


def _config(source: Path, where: dict[str, Any]) -> Any:
    """Return the config of a text encoder whose code is transformers' own."""
    if source.is_dir() and not (source / "config.json").is_file():
        raise ValueError(f"this folder has no config.json{_instead(source)}")
    # transformers would add it without a word.
    adapter = transformers.utils.find_adapter_config_file(
        str(source), revision=where["revision"], local_files_only=where["local_files_only"]
    )
    if adapter:
        raise ValueError(
            "it has an adapter beside it: move adapter_config.json and the adapter's weights to "
            "another FOLDER, and give encoder.adapter=FOLDER to add it"
        )
    config: Any = transformers.AutoConfig.from_pretrained(str(source), **where)
    config.use_cache = False
    if getattr(config, "_attn_implementation", None) not in (None, "sdpa", "eager"):
        raise ValueError(
            f"its config.json sets attn_implementation={shown(config._attn_implementation)}, but "
            "it must be sdpa, eager or missing, since others may be remote code: edit this "
            "config.json"
        )
    if not hasattr(config, "vocab_size"):
        raise ValueError(f"its type is {config.model_type}")
    num_layers = getattr(config, "num_hidden_layers", 0)
    if num_layers > MAX_LAYERS:
        raise ValueError(
            f"its config.json has {num_layers} layers, but at most {MAX_LAYERS:,} are possible"
        )
    return config


def _instead(folder: Path) -> str:
    """Return what to give in place of a folder that is not a model's: for an adapter the setting,
    and of a folder of sentence-transformers, or another with one model in it, the subfolder.
    """
    if (folder / "adapter_config.json").is_file():
        base = read_json(folder / "adapter_config.json").get("base_model_name_or_path")
        base = plain(base) if base and isinstance(base, str) else "BASE"
        return f": it is an adapter, so give encoder.model={base} encoder.adapter={folder}"
    models = sorted(path.parent for path in folder.glob("*/config.json"))
    # Of sentence-transformers, the first module is the model.
    first_modules = [path for path in models if path.name.startswith("0_")]
    candidates = first_modules or models
    if len(candidates) == 1:
        return f": give the folder of its model, encoder.model={candidates[0]}"
    return ""


def _tokenizer(source: Path, where: dict[str, Any], size: int) -> Any:
    """Return a fast tokenizer, converted if transformers can, of at most `size` subwords."""
    if source.is_dir() and not any(source.glob("*token*")) and not any(source.glob("vocab*")):
        # transformers would invent one that knows no word
        raise ValueError("this folder has no tokenizer.json")
    tokenizer = transformers.AutoTokenizer.from_pretrained(str(source), **where)
    name = type(tokenizer).__name__
    if not tokenizer.is_fast:
        raise ValueError(
            f"its tokenizer, {name}, is written in Python and cannot be converted to a "
            "tokenizer.json: choose a model that has one, or add one to the model's folder"
        )
    added = tokenizer.added_tokens_decoder
    special = {number for number, token in added.items() if token.special}
    numbers = set(tokenizer.get_vocab().values()) - special
    numbers.update(tokenizer("a", "a")["input_ids"])  # of special tokens those of each text
    if max(numbers, default=0) >= size:
        raise ValueError(
            f"its tokenizer, {name}, has more subwords than the model has embeddings ({size}): "
            "use the model's own"
        )
    return tokenizer


def _check_index(source: Path, config: Any, revision: Any, is_local: bool) -> None:
    """Raise ValueError if the list of a model's files of weights names a file that is not a
    safetensors file of its folder: transformers would unpickle it.
    """
    name = getattr(config, "transformers_weights", None) or "model.safetensors.index.json"
    if not str(name).endswith(".json"):
        return
    path = transformers.utils.cached_file(
        str(source),
        name,
        revision=revision,
        local_files_only=is_local,
        _raise_exceptions_for_missing_entries=False,
    )
    if not path:
        return
    weight_map = read_json(path).get("weight_map")
    files = weight_map.values() if isinstance(weight_map, dict) else [weight_map]
    for file in files:
        if not PLAIN.fullmatch(str(file)):
            raise ValueError(
                f"{name} names {shown(file)}, but each of its files must be NAME.safetensors in "
                "the same folder"
            )


@contextmanager
def naming(model: Any) -> Iterator[None]:
    """Re-raise exceptions in terms of `encoder.model`."""
    try:
        yield
    except BaseException as error:  # panics of tokenizers (Rust) are BaseExceptions
        reason = str(error).strip() or type(error).__name__
        passes = isinstance(error, KeyboardInterrupt | SystemExit | ImportError)
        if passes or reason.startswith("encoder."):
            raise
        if "trust_remote_code" in reason:
            reason = (
                "it requires remote code, which is never run: choose a model whose architecture is "
                "part of transformers"
            )
        if not isinstance(error, OSError):
            raise ValueError(
                f"encoder.model={model} cannot be used as a text encoder: {reason}"
            ) from error
        raise OSError(
            f"encoder.model={model} cannot be loaded: there is no such folder or, on the hub, no "
            "such model, or it requires a login, or the hub cannot be reached, or a file is "
            "missing or damaged; weights must be safetensors, since pytorch_model.bin can run "
            f"code: save the model with save_pretrained. {reason}"
        ) from error
