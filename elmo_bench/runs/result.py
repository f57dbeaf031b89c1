"""What a run leaves: `result.json`, with the versions and the commit of its code."""

import dataclasses
import importlib.metadata
import math
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from elmo_bench import IS_CLONE, __version__
from elmo_bench.files import write_json

from .read import ENDED, Mix, Overlap
from .resume import about, now

PACKAGES = ("torch", "pytorch-lightning", "hydra-core")


@dataclasses.dataclass(frozen=True)
class Result:
    """The results of one run; metrics are fractions of 1."""

    task: str
    seed: int
    metrics: dict[str, float]
    mix: dict[str, Mix]  # by place
    parameters: dict[str, int]
    seconds: dict[str, float]
    epochs: int
    examples_per_second: float
    device: str
    overlap: Overlap = dataclasses.field(default_factory=dict)


def write_result(
    result: Result,
    cfg: DictConfig,
    choices: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> None:
    """Write `result.json`, completely or not at all: metrics, config, versions and commit.

    `choices` are the options of the config groups. Identity and start are those that `begin` wrote,
    and so are the inputs unless they are given. Raises FloatingPointError for a metric that is not
    finite, since nothing could read the file.
    """
    for name, value in result.metrics.items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} is {value}, but a score in {ENDED} must be finite: see the metric's code"
            )
    content = dataclasses.asdict(result) | {
        "choices": dict(choices or {}),
        **about(cfg),
        **({"inputs": dict(inputs)} if inputs is not None else {}),
        "finished": now(),
        **code(),
    }
    write_json(Path(cfg.run_dir, ENDED), content)


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
