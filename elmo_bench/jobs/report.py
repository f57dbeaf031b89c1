"""`job=report`: write tables, pages and figures that compare finished runs."""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from elmo_bench import report as reports
from elmo_bench.settings.command import overrides


def report(cfg: DictConfig) -> None:
    """Write the tables over all runs below `runs` to the files of `output`, and print them."""
    outputs, built = prepare(cfg)
    given = overrides(cfg)
    reports.write_files(outputs, built, reports.typed(given) if given else "", cfg.title)
    # Print last, since a closed pipe (`| head`) ends the process.
    reports.show(built, Console(emoji=False))


def prepare(cfg: DictConfig) -> tuple[list[Path], list[reports.Report]]:
    """Return the files to write, and what they will say."""
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    outputs = reports.checked_outputs(settings["output"])
    return outputs, reports.build_tables(settings)
