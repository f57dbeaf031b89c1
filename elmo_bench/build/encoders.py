"""Build the encoder of `cfg.encoder`, and find the files of a biLM."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench.encoders import Encoder
from elmo_bench.encoders.transformer import hub
from elmo_bench.files.download import check_online
from elmo_bench.settings import inputs
from elmo_bench.settings.inputs import located, made
from elmo_bench.settings.targets import instantiate
from elmo_bench.settings.types import arguments


def encoder(cfg: DictConfig) -> Any:
    """Build the encoder of a job that has no task.

    Raises ValueError for encoder=none and for an invalid encoder, and any error of loading the
    encoder.
    """
    built = encoder_or_none(cfg)
    if built is None:
        raise ValueError(
            f"encoder={cfg.encoder.name} has no layers: choose an encoder, such as encoder=mini"
        )
    return built


def encoder_or_none(cfg: DictConfig) -> Encoder | None:
    """Build the encoder from `cfg.encoder`; None, the baseline, without a target."""
    if "_target_" not in cfg.encoder:
        return None
    settings: Any = OmegaConf.to_container(cfg.encoder, resolve=True)
    model = settings.get("model") if settings["_target_"].startswith("elmo_bench.") else None
    if model and isinstance(model, str) and not Path(model).expanduser().is_dir():
        inputs.check_model(model)
        if not hub.is_cached(model, settings.get("revision")):
            check_online(f"encoder.model={model}")
    vectors = settings.get("vectors")
    if isinstance(vectors, str):
        settings["vectors"] = located(vectors, cfg)
    elif isinstance(vectors, list) and all(isinstance(file, str) for file in vectors):
        settings["vectors"] = [located(file, cfg) for file in vectors]
    hints = arguments(settings["_target_"])
    for key in ("name", "dir"):
        if key not in hints:  # a user's class may take them
            settings.pop(key, None)
    built = instantiate(settings)
    if not isinstance(built, Encoder):
        raise ValueError(
            f"encoder={cfg.encoder.name}: {cfg.encoder._target_} returned a "
            f"{type(built).__name__}, which is not an encoder: its class must inherit "
            "elmo_bench.Encoder, whose docstring says what it must have"
        )
    return built


def bilm_files(cfg: DictConfig) -> tuple[str, str]:
    """Return the paths of the biLM's options.json and weights; download them if necessary."""
    if not {"_target_", "options", "weights"} <= cfg.encoder.keys():  # encoder=none has two of them
        raise ValueError(
            f"encoder={cfg.encoder.name} has no biLM files: choose a biLM, such as encoder=mini"
        )
    if not is_pretrained(cfg.encoder):
        raise ValueError(
            "encoder.pretrained=false: a random biLM has no files; job=pretrain trains one"
        )
    paths = []
    for key in ("options", "weights"):
        path = made(cfg.encoder[key])
        if path is None:
            raise ValueError(
                f"encoder.{key} is empty: give a folder written by job=pretrain out=FOLDER: "
                "encoder.dir=FOLDER"
            )
        paths.append(str(Path(path).expanduser()))
    return paths[0], paths[1]


def is_pretrained(settings: DictConfig) -> bool:
    """Whether the encoder's weights come from its files; random weights depend on the seed."""
    return bool(settings.get("pretrained", True))
