"""Build the encoder of `cfg.encoder`, and find the files of a biLM."""

from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from elmo_bench.encoders import Encoder
from elmo_bench.encoders.bilm import BiLm

from . import inputs
from .inputs import instantiate


def encoder(cfg: DictConfig) -> Any:
    """Build the encoder of a job that has no task.

    Raises ValueError for elmo.adapt=true, for encoder=none, and for an invalid encoder, and any
    error of loading the encoder.
    """
    if cfg.elmo.adapt:
        raise ValueError(
            "elmo.adapt=true requires a run with a task: to adapt a biLM for this job, run "
            "job=adapt out=DIR first, then use encoder=files encoder.dir=DIR"
        )
    if (built := encoder_or_none(cfg)) is None:
        raise ValueError(
            f"encoder={cfg.encoder.name} has no layers: choose an encoder, such as encoder=mini"
        )
    return built


def encoder_or_none(cfg: DictConfig) -> Encoder | None:
    """Build the encoder from `cfg.encoder`; all its settings except `inputs.ABOUT` are arguments.
    Without a `_target_` it is the baseline.
    """
    built: Encoder | None = None
    inputs.check_encoder(cfg)
    if "_target_" in cfg.encoder:
        settings: Any = OmegaConf.to_container(cfg.encoder, resolve=True)
        built = instantiate(
            {key: value for key, value in settings.items() if key not in inputs.ABOUT}
        )
        if not isinstance(built, torch.nn.Module) or not isinstance(built, Encoder):
            raise ValueError(
                f"encoder={cfg.encoder.name}: {cfg.encoder._target_} returned a "
                f"{type(built).__name__}, which is not an encoder; see "
                "elmo_bench/encoders/contract.py for what an encoder must have"
            )
    return built


def bilm(cfg: DictConfig) -> BiLm:
    """Build the encoder, which must be a biLM."""
    built = encoder(cfg)
    if not isinstance(built, BiLm):
        raise ValueError(
            f"encoder={cfg.encoder.name} is not a biLM: choose one, such as encoder=mini"
        )
    return built


def bilm_files(cfg: DictConfig) -> tuple[str, str]:
    """Return the paths of the biLM's options.json and weights; download them if necessary."""
    if not {"_target_", "options", "weights"} <= cfg.encoder.keys():  # encoder=none has two of them
        raise ValueError(
            f"encoder={cfg.encoder.name} has no biLM files: choose a biLM, such as encoder=mini"
        )
    inputs.check_encoder(cfg)
    paths = []
    for key in ("options", "weights"):
        value = cfg.encoder[key]
        paths.append(value if value is None or isinstance(value, str) else instantiate(value))
        if paths[-1] is None:
            raise ValueError(
                f"encoder.{key} is empty: give a folder written by job=pretrain out=FOLDER: "
                "encoder.dir=FOLDER"
            )
    options, weights = (str(Path(str(path)).expanduser()) for path in paths)
    return options, weights


def is_pretrained(settings: DictConfig) -> bool:
    """Whether the encoder's weights come from its files; random weights depend on the seed."""
    return bool(settings.get("pretrained", True))
