"""What a run leaves: `result.json`, with the versions and the commit of its code."""

import importlib.metadata
import math
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from elmo_bench import IS_CLONE, __version__
from elmo_bench.files import write_json

from .read import ENDED, Run, read_run
from .resume import about, now

PACKAGES = ("torch", "pytorch-lightning", "hydra-core")


def write_result(
    cfg: DictConfig,
    measured: Mapping[str, Any],
    choices: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Run:
    """Write `result.json`, completely or not at all, and return the run: its config, versions and
    commit, and what it has `measured`, by fields of `Run`.

    `choices` are the options of the config groups. Identity and start are those that `begin` wrote,
    and so are the inputs unless they are given. Raises FloatingPointError for a metric that is not
    finite, since nothing could read the file.
    """
    for name, value in measured["metrics"].items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} is {value}, but a score in {ENDED} must be finite: see the metric's code"
            )
    content = {
        "task": cfg.task.name,
        "seed": cfg.seed,
        **measured,
        "choices": dict(choices or {}),
        **about(cfg),
        **({"inputs": dict(inputs)} if inputs is not None else {}),
        "finished": now(),
        **code(),
    }
    write_json(path := Path(cfg.run_dir, ENDED), content)
    return read_run(path)


def code() -> dict[str, Any]:
    """Return the `versions` and the `commit` of the code."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    versions["elmo-bench"] = __version__
    return {"versions": versions, "commit": _commit()}


def _commit() -> str | None:
    """Return the code's commit, with a + if it has changes; None outside a checkout."""
    if not IS_CLONE:  # the packages may be installed inside another project's clone
        return None
    command = "git --no-optional-locks describe --always --abbrev=40 --dirty=+ --exclude=*"
    here, quiet = Path(__file__).parent, subprocess.DEVNULL
    try:
        return subprocess.check_output(
            command.split(), cwd=here, stderr=quiet, text=True, timeout=10
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return None
