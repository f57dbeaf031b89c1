"""The command of a run: settings as typed, the options chosen, Hydra's part of a config."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from hydra.core.override_parser.types import Quote, QuotedString
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from elmo_bench.runs import key_of


def composition(cfg: DictConfig) -> Any:
    """Return Hydra's own part of a config, or of the one that runs; None without either."""
    return cfg.get("hydra") or (HydraConfig.get() if HydraConfig.initialized() else None)


def choices(cfg: DictConfig) -> dict[str, str]:
    """Return the chosen option of each config group; empty if Hydra did not compose the config."""
    hydra = composition(cfg)
    return dict(hydra.runtime.choices) if hydra else {}


def overrides(cfg: DictConfig) -> list[str]:
    """Return the settings on the command line, as typed; in a sweep, those of this run."""
    hydra = composition(cfg)
    typed: Any = OmegaConf.to_container(hydra.overrides.task) if hydra else []  # not resolved
    return typed


def overridden(cfg: DictConfig) -> dict[str, str]:
    """Return the values of `overrides` by key."""
    return {key_of(override): override.partition("=")[2] for override in overrides(cfg)}


def quoted(value: str | Path) -> str:
    """Quote a value for Hydra's override grammar, whatever characters it has."""
    return QuotedString(str(value), Quote.single).with_quotes()


@contextmanager
def as_run(config: DictConfig) -> Iterator[DictConfig]:
    """The config as a job gets it; within, Hydra takes it for the one that runs."""
    hydra = HydraConfig.instance()
    cfg = config.copy()
    before = hydra.cfg
    with open_dict(cfg), read_write(cfg.hydra):
        cfg.hydra.runtime.output_dir = str(Path(cfg.hydra.run.dir).absolute())
        hydra.set_config(cfg)
        del cfg["hydra"]
        cfg.run_dir = cfg.run_dir  # resolved
    try:
        yield cfg
    finally:
        hydra.cfg = before
