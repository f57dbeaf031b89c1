"""Logging to Weights & Biases that never prompts, hangs or fails a run: online if it is configured
and reachable, otherwise offline.
"""

import hashlib
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


def check_installed() -> None:
    """Raise ValueError without the package wandb."""
    if find_spec("wandb") is None:
        raise ValueError("logger=wandb needs the package wandb, which is not installed")


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
    mode: Any
    mode, reason = os.environ.get("WANDB_MODE"), "WANDB_MODE says so"
    options = settings | {"dir": save_dir, "settings": wandb.Settings(init_timeout=init_timeout)}
    if (begun := Path(save_dir, "run.json")).is_file():  # identity and start of our run
        options |= {"id": hashlib.sha256(begun.read_bytes()).hexdigest()[:16], "resume": "allow"}
    try:
        if mode is None:
            known = wandb.login(prompt=False, verify=False)
            mode, reason = (
                ("online", "it is configured") if known else ("offline", "no key is configured")
            )
        run = wandb.init(mode=mode, **options)
    except (
        wandb.errors.CommError,
        wandb.errors.AuthenticationError,
        wandb.errors.UsageError,
    ) as error:
        mode, reason = "offline", f"online failed: {str(error).splitlines()[0]}"
        run = wandb.init(mode=mode, **options)
    log.info("wandb: %s (%s)", mode, reason)
    return WandbLogger(experiment=run, save_dir=save_dir)


def keep(files: Sequence[Path], **settings: Any) -> None:
    """Upload a report's files as the artifact `report` of a new W&B run, which shows its page."""
    import wandb

    run = logger(**settings).experiment
    artifact = wandb.Artifact("report", "report")
    for path in files:
        artifact.add_file(str(path))
        if path.suffix == ".html":
            run.log({"report": wandb.Html(path.read_text(encoding="utf-8"), inject=False)})
    run.log_artifact(artifact)
    finish()


@contextmanager
def ending(is_used: bool) -> Iterator[None]:
    """End the W&B run, if one is used, with the body, as failed if that raises."""
    try:
        yield
    except BaseException:
        if is_used:
            finish(1)
        raise
    if is_used:
        finish(0)


def finish(exit_code: int = 0) -> None:
    """End the W&B run, so that the next one of a sweep gets its own; it failed where the exit code
    is not 0.
    """
    import wandb

    wandb.finish(exit_code=exit_code)
