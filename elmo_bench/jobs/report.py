"""`job=report`: write tables, pages and figures that compare finished runs."""

from pathlib import Path
from typing import Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo_bench import report as reports


def report(cfg: DictConfig) -> None:
    """Write the tables over all runs below `runs` to the files of `output`, and print them."""
    settings, outputs, built, origin = check(cfg)
    reports.write_files(outputs, built, origin, settings["title"])
    # Print last, since a closed pipe (`| head`) ends the process.
    reports.show(built, Console(emoji=False))


def check(
    cfg: DictConfig,
) -> tuple[dict[str, Any], list[Path], list[reports.Report], reports.Origin]:
    """Return the settings, the files to write, and what they will say."""
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    outputs = reports.checked_outputs(settings["output"])
    if "wandb" in (settings.get("logger") or {}):
        raise ValueError("logger=wandb is for job=train: leave it out")
    overrides = HydraConfig.get().overrides.task if HydraConfig.initialized() else None
    command = "" if overrides is None else reports.typed(overrides)
    return settings, outputs, *reports.build_tables(settings, command)
