"""The Hydra application: a config names a job, and the job runs it. `elmo-bench --help` tells the
rest.
"""

import errno
import shlex
import sys
from functools import partial
from pathlib import Path
from string import Template

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import CompactHydraException
from hydra.types import RunMode
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from elmo_bench import signals
from elmo_bench.failure import leaves_error
from elmo_bench.installation import COMMAND, CONF

# What a stopped job keeps: the setting of its folder, a name, and how to continue.
KEPT = {
    "train": ("run_dir", "/last.ckpt", "the same command with resume=true"),
    "pretrain": ("out", "/last.ckpt", "the same command"),
    "embed": ("output", ".part", "the same command"),
}


@hydra.main(version_base="1.3", config_path=str(CONF), config_name="config")
def main(cfg: DictConfig) -> object:
    """Run the chosen job; what a user can mend is said in a sentence, the whole story goes to the
    run's error.txt.
    """
    if cfg.get("dry_run"):  # only in sweeps with another launcher than ours
        return None
    signals.advise(partial(what_goes_on, cfg))
    failure = Path(cfg.run_dir, "error.txt") if cfg.run_dir else None
    try:
        with leaves_error(cfg.run_dir):
            job = instantiate({key: value for key, value in cfg.job.items() if key != "name"})
            from elmo_bench.config.settings import WITHOUT_A_MODEL  # already imported by Hydra

            if cfg.job.get("name") not in WITHOUT_A_MODEL:
                from elmo_bench.config import process  # imports torch

                process.prepare(tf32=cfg.tf32, deterministic=bool(cfg.trainer.deterministic))
            return job(cfg)
    except Exception as error:
        if is_out_of_memory(error):
            error = MemoryError(f"too little memory: {str(error).partition(chr(10))[0]}")
        if isinstance(error, ValueError | OSError | FloatingPointError | ImportError | MemoryError):
            from elmo_bench.files import plain_lines

            has_details = failure and failure.is_file() and failure.stat().st_size
            details = f"\n(details: {cfg.run_dir}/error.txt)" if has_details else ""
            message = plain_lines(f"{error}{disk_advice(error, cfg)}{details}")
            if HydraConfig.initialized() and HydraConfig.get().mode == RunMode.RUN:
                sys.exit(message)
            raise CompactHydraException(message) from error  # a sweep in one process goes on
        raise


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error means out of memory; torch has several exceptions for it."""
    phrases = ("out of memory", "can't allocate memory", "Cannot allocate memory")
    is_torchs = isinstance(error, RuntimeError) and any(words in str(error) for words in phrases)
    return is_torchs or isinstance(error, MemoryError)


def disk_advice(error: Exception, cfg: DictConfig) -> str:
    """Return advice for a full disk or a folder that cannot be written to."""
    if not isinstance(error, OSError):
        return ""
    cache = str(Path(cfg.cache_dir).expanduser())
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f": make room; the run writes to {cfg.run_dir or 'no folder'} and {cache}"
    if error.errno in (errno.EROFS, errno.EACCES) and str(error.filename).startswith(cache):
        return f": cache_dir={cfg.cache_dir} cannot be written to; cache_dir=FOLDER takes another"
    return ""


def what_goes_on(cfg: DictConfig) -> str:
    """Return what the job has kept so far, and how to continue."""
    if job := KEPT.get(cfg.job.get("name")):
        key, name, command = job
        if (path := Path(f"{OmegaConf.select(cfg, key)}{name}")).is_file():
            return f"{path} is kept, and {command} goes on from there"
    return "it has kept nothing to go on from; the same command begins anew"


def help_text() -> str:
    """Return Hydra's text of `--help`; Hydra spends most of its time listing the same folders."""
    groups: dict[str, list[str]] = {}
    for path in sorted(CONF.glob("*/**/*.yaml")):
        groups.setdefault(path.parent.relative_to(CONF).as_posix(), []).append(path.stem)
    lines = [
        f"{group}: {', '.join(groups[group])}\n"
        for group in sorted(groups)
        if not group.startswith("hydra")
    ]
    template = OmegaConf.load(CONF / "config.yaml").hydra.help.template
    template = template.replace("python run.py", shlex.join(COMMAND))
    return Template(template).substitute(APP_CONFIG_GROUPS="".join(lines))
