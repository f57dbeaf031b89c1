"""Logging to Weights & Biases that never prompts, hangs or fails a run: online if it is configured
and reachable, otherwise offline.
"""

import hashlib
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


def logger(*, save_dir: str, init_timeout: int, **settings: Any) -> Any:
    """Return Lightning's WandbLogger: in the mode of WANDB_MODE, else online, else offline.

    A resumed run continues its W&B run, whose id derives from the `run.json` in `save_dir`. Offline
    runs are stored in `save_dir`; `wandb sync` uploads them later. Only the first of several
    processes has a W&B run.
    """
    import wandb
    from pytorch_lightning.loggers import WandbLogger
    from pytorch_lightning.loggers.logger import DummyLogger

    from .log import is_first

    if not is_first():
        return DummyLogger()
    options = settings | {"dir": save_dir, "settings": wandb.Settings(init_timeout=init_timeout)}
    if (begun := Path(save_dir, "run.json")).is_file():  # identity and start of our run
        options |= {"id": hashlib.sha256(begun.read_bytes()).hexdigest()[:16], "resume": "allow"}
    errors = wandb.errors.CommError, wandb.errors.AuthenticationError, wandb.errors.UsageError
    mode: Any = os.environ.get("WANDB_MODE")
    try:
        if mode is None:
            mode = "online" if wandb.login(prompt=False, verify=False) else "offline"
        run = wandb.init(mode=mode, **options)
    except errors as error:
        log.warning("wandb: offline, since online failed: %s", str(error).splitlines()[0])
        run = wandb.init(mode="offline", **options)
    return WandbLogger(experiment=run, save_dir=save_dir)


@contextmanager
def ending(is_used: bool) -> Iterator[None]:
    """End the W&B run, if one is used, with the body, so that the next run of a sweep gets its own;
    it failed if the body raises.
    """
    exit_code = 1
    try:
        yield
        exit_code = 0
    finally:
        if is_used:
            import wandb

            wandb.finish(exit_code=exit_code)
