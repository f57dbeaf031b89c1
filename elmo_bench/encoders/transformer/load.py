"""Load a tokenizer and a model of Hugging Face transformers, without running code of others.

Weights are read only from safetensors. Every error names `encoder.model`.
"""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from reprlib import repr as shown
from typing import Any

import torch
from torch import nn

from elmo_bench.files import read_json

from ..tensors import check_finite

MAX_LAYERS = 4096  # a config.json with more would fill the memory with modules
TOKENIZERS = ("*token*", "vocab*")  # files of one kind or another
PLAIN = re.compile(r"[\w.-]+\.safetensors", re.ASCII)  # a file's name, without a folder


def load(model: str, revision: str | None, dtype: torch.dtype, pretrained: bool) -> tuple[Any, Any]:
    """Return the tokenizer and the model, without a pooler; for an encoder-decoder, its encoder.

    With `pretrained=False`, its weights are random. Raises ValueError for a model that is not a
    text encoder or lacks weights, and any error of transformers.
    """
    transformers = _transformers()
    source = str(Path(model).expanduser())
    _check_folder(model, Path(source))
    where: dict[str, Any] = {"revision": revision or "main", "trust_remote_code": False}
    config = _config(transformers, model, source, where)
    tokenizer = _tokenizer(transformers, model, source, where, config.vocab_size)
    # Of T5 and the like the encoder alone, which may also be all that the folder has.
    encoders = transformers.AutoModelForTextEncoding
    is_encoder = type(config) in encoders._model_mapping
    auto = encoders if is_encoder else transformers.AutoModel
    if pretrained:
        _check_index(transformers, model, source, config, where["revision"])
        how = {"use_safetensors": True, "output_loading_info": True}
        whole, about = auto.from_pretrained(source, config=config, dtype=dtype, **where, **how)
        check_finite(f"encoder.model={model}", dict(whole.named_parameters()))
        # No layer uses a pooler's.
        if random := sorted(n for n in about["missing_keys"] if not n.startswith("pooler.")):
            raise ValueError(
                f"encoder.model={model}: its files have no weights for {', '.join(random[:3])} "
                f"({len(random)} in all), which would stay random: check that its config.json "
                "belongs to these weights"
            )
    else:
        whole = auto.from_config(config, dtype=dtype, trust_remote_code=False).float().to(dtype)
    has_decoder = not is_encoder and getattr(config, "is_encoder_decoder", False)
    encoder = whole.get_encoder() if has_decoder else whole
    if isinstance(getattr(encoder, "pooler", None), nn.Module):
        encoder.pooler = nn.Identity()  # many checkpoints lack it, and no layer uses it
    return tokenizer, encoder


def _check_folder(model: str, folder: Path) -> None:
    """Raise FileNotFoundError for a folder without a config or a tokenizer, for which transformers
    would have advice of its own, or invent one that knows no word.
    """
    for name, patterns in (("config.json", ["config.json"]), ("tokenizer.json", TOKENIZERS)):
        if folder.is_dir() and not any([*folder.glob(each)] for each in patterns):
            raise FileNotFoundError(f"encoder.model={model}: this folder has no {name}")


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


def _tokenizer(
    transformers: Any, model: str, source: str, where: Mapping[str, Any], size: int
) -> Any:
    """Return a tokenizer with a tokenizer.json, or one that transformers converts to it, of at most
    `size` subwords.
    """
    tokenizer = transformers.AutoTokenizer.from_pretrained(source, **where)
    named = f"encoder.model={model}: its tokenizer, {type(tokenizer).__name__},"
    if not tokenizer.is_fast:
        raise ValueError(
            f"{named} is written in Python and cannot be converted to a tokenizer.json: choose a "
            "model that has one, or add one to the model's folder"
        )
    added = tokenizer.added_tokens_decoder
    numbers = [n for n in tokenizer.get_vocab().values() if n not in added or not added[n].special]
    if max(numbers, default=0) >= size:
        raise ValueError(
            f"{named} has more subwords than the model has embeddings ({size}): use the model's own"
        )
    return tokenizer


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


def _transformers() -> Any:
    """Import transformers, without its progress bars and its lists of unused heads."""
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # a loader forks its workers
    try:
        import transformers
    except ImportError as error:
        raise ImportError(
            "encoder=transformer requires a package: pip install 'elmo-bench[transformers]'"
        ) from error
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return transformers


@contextmanager
def naming(model: Any) -> Iterator[None]:
    """Re-raise exceptions of transformers in terms of `encoder.model`."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # panics of tokenizers (Rust) are BaseExceptions
        said = f"{error}".strip() or type(error).__name__
        if said.startswith("encoder.") or isinstance(error, ImportError):
            raise
        if "trust_remote_code" in said:
            said = (
                "it requires remote code, which is never run: choose a model whose architecture is "
                "part of transformers"
            )
        if not isinstance(error, OSError):
            raise ValueError(
                f"encoder.model={model} cannot be used as a text encoder: {said}"
            ) from error
        raise OSError(
            f"encoder.model={model} cannot be loaded: there is no such folder or, on the hub, no "
            "such model, or it requires a login, or the hub cannot be reached, or a file is "
            "missing or damaged; weights must be safetensors, since pytorch_model.bin can run "
            f"code: save the model with save_pretrained. {said}"
        ) from error
