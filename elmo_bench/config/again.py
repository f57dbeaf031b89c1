"""`resume=true` for a single run: continue an interrupted run, or reuse a finished one."""

import contextlib
import logging
import os
import shutil
import sys
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from elmo_bench.runs import finished, read_run, unfinished

from .inputs import same_run

log = logging.getLogger(__name__)
# Files of a run's folder before training, besides its log.
FIRST_FILES = (".hydra", "run.lock")


def continue_interrupted(cfg: DictConfig) -> None:
    """Continue an interrupted run of this identity below `outputs_dir`; in that case this function
    does not return.

    It deletes this command's new folder and runs the command again in that of the interrupted run.
    It does nothing if a finished run exists, or if the folder was chosen explicitly, as a sweep
    does for its runs and Lightning for the further processes of a run.
    """
    if _is_chosen(cfg) or same_run(cfg, finished(_folders(cfg))):
        return
    if unfinished_folder := same_run(cfg, unfinished(_folders(cfg))):
        log.info("continuing in %s", unfinished_folder)
        _delete_new(Path(cfg.run_dir))
        logging.shutdown()
        quoted = str(unfinished_folder.absolute()).replace("'", "\\'")
        command = [sys.executable, *sys.orig_argv[1:], f"hydra.run.dir='{quoted}'"]
        os.execv(sys.executable, command)


def finished_figures(cfg: DictConfig) -> dict[str, float] | None:
    """Return the metrics of a finished run of this identity, and log where it is."""
    if (folder := same_run(cfg, finished(_folders(cfg)))) is None:
        return None
    log.info("already finished: %s", folder / "result.json")
    if not _is_chosen(cfg):
        _delete_new(Path(cfg.run_dir))
    return read_run(folder / "result.json").metrics


def _folders(cfg: DictConfig) -> list[Path]:
    return [Path(cfg.run_dir if _is_chosen(cfg) else cfg.outputs_dir)]


def _is_chosen(cfg: DictConfig) -> bool:
    """Whether the run's folder is not the new one that each command has by default."""
    if not HydraConfig.initialized():
        return True
    hydra = HydraConfig.get()
    sets_folder = any(override.startswith("hydra.run.dir=") for override in hydra.overrides.hydra)
    return sets_folder or Path(cfg.run_dir) != Path(hydra.runtime.output_dir)


def _delete_new(folder: Path) -> None:
    """Delete the folder that this command made, and that of its day, if they are empty."""
    if all(path.name in FIRST_FILES or path.suffix == ".log" for path in folder.iterdir()):
        shutil.rmtree(folder)
        with contextlib.suppress(OSError):  # fails if other runs of that day remain
            folder.parent.rmdir()
