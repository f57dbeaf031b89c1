"""Logging to Weights & Biases that never prompts, hangs or fails a run: online if it is configured
and reachable, otherwise offline.
"""

import hashlib
import inspect
import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)
# Most characters that W&B takes. Of tags and the project it says so at once, of others only online.
TAG = 64
LONGEST = {"group": 128, "name": 128, "job_type": 64}
OURS = ("save_dir", "init_timeout")  # arguments of `logger` that it does not pass on as they are


def logger(*, save_dir: str, init_timeout: int, **settings: Any) -> Any:
    """Return Lightning's WandbLogger: in the mode of WANDB_MODE, else online, else offline.

    A resumed run continues its W&B run, whose id derives from the `run.json` in `save_dir`. Offline
    runs are stored in `save_dir`; `wandb sync` uploads them later. Only the first of several
    processes has a W&B run. If W&B cannot even begin offline, a warning says so, and nothing is
    logged to it.
    """
    import wandb
    from pytorch_lightning.loggers import WandbLogger
    from pytorch_lightning.loggers.logger import DummyLogger

    from .log import is_first

    if not is_first():
        return DummyLogger()
    options = shortened(settings) | {"dir": save_dir}
    begun = Path(save_dir, "run.json")  # identity and start of our run
    if begun.is_file():
        options["id"] = hashlib.sha256(begun.read_bytes()).hexdigest()[:16]
        options["resume"] = "allow"
    errors = (wandb.Error, ValueError, OSError)  # pydantic's ValidationError is a ValueError
    try:
        try:
            mode: Any = os.environ.get("WANDB_MODE")
            if mode is None:
                mode = "online" if wandb.login(prompt=False, verify=False) else "offline"
            run = wandb.init(
                mode=mode, settings=wandb.Settings(init_timeout=init_timeout), **options
            )
        except errors as error:
            log.warning("wandb: offline, since online failed: %s", reason(error))
            # Settings are changed by init, so each has its own.
            offline = wandb.Settings(init_timeout=init_timeout)
            run = wandb.init(mode="offline", settings=offline, **options)
    except errors as error:
        log.warning(
            "wandb: this run is not logged to it, since it fails offline, too: %s", reason(error)
        )
        return DummyLogger()
    return WandbLogger(experiment=run, save_dir=save_dir)


def refused(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each of the settings of `logger.wandb`, and of W&B's environment variables,
    that W&B refuses: what came, and why.
    """
    import wandb

    arguments = inspect.signature(wandb.init).parameters
    for name, value in shortened(settings).items():
        if name.startswith("_") or name in OURS:
            continue
        if name not in arguments:
            yield f"logger.wandb.{name}={settings[name]}, but wandb.init has no such argument"
            continue
        field = name if name in wandb.Settings.model_fields else f"run_{name}"
        if field in wandb.Settings.model_fields and value is not None:
            try:
                wandb.Settings(**{field: value})
            except (wandb.Error, ValueError) as error:
                yield f"logger.wandb.{name}={settings[name]}: {reason(error)}"
    for name in list(os.environ):
        if not name.startswith("WANDB_"):
            continue
        try:
            wandb.Settings().update_from_env_vars({name: os.environ[name]})
        except (wandb.Error, ValueError) as error:
            shown = "..." if "KEY" in name or "TOKEN" in name else os.environ[name]  # secrets
            yield f"the environment variable {name}={shown}: {reason(error)}"


def shortened(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings of which no text is longer than W&B takes; both its ends are kept.

    >>> shortened({"tags": ["ner", None, "/data/" + 70 * "x"], "group": None})["tags"][1][:30]
    '/data/xxxxxxxxxxxxxx...xxxxxxx'
    """
    cut = dict(settings)
    for name, most in LONGEST.items():
        if settings.get(name):
            cut[name] = _cut(str(settings[name]), most)
    tags = settings.get("tags")
    if tags:
        several = [tags] if isinstance(tags, str) else tags
        distinct = dict.fromkeys(_cut(str(tag), TAG) for tag in several if tag)
        cut["tags"] = list(distinct)
    return cut


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    beginning = text[: most // 3 - 1]
    end = text[len(beginning) + len("...") - most :]
    return f"{beginning}...{end}"


def reason(error: Exception) -> str:
    """Return why W&B refuses something, in a line, without pydantic's words around it."""
    message = str(error)
    errors = getattr(error, "errors", None)  # pydantic's
    if callable(errors):
        message = errors()[0]["msg"].removeprefix("Value error, ")
    return (message or type(error).__name__).splitlines()[0]


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
