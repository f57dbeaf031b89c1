"""What a run leaves: `result.json` at its end, or `error.txt`."""

import dataclasses
import importlib.metadata
import math
import subprocess
import time
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench import IS_CLONE, __version__
from elmo_bench.files import read_json, signals, write_json, write_text

from .read import BEGUN, ENDED, ERROR, Mix

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


@contextmanager
def leaves_error(run_dir: str | None) -> Iterator[None]:
    """Make the folder of a run, and write the traceback of an exception to its error.txt.

    An earlier run's error.txt goes. That of another process of this run stays: of several processes
    the first that fails says why.
    """
    started, path = time.time(), Path(run_dir, ERROR) if run_dir else None
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_mtime < started:
            path.unlink(missing_ok=True)
    try:
        yield
    except Exception:
        signals.outlive_parent()
        if path and path.parent.is_dir() and not path.exists():
            # The disk is full, say: what failed is told all the same.
            with suppress(OSError):
                write_text(path, traceback.format_exc())
        raise


def about(cfg: DictConfig) -> dict[str, Any]:
    """Return what `resume.begin` wrote about a run (identity, inputs, start), and its config."""
    return read_or_empty(Path(cfg.run_dir, BEGUN)) | {
        "config": OmegaConf.to_container(cfg, resolve=True)
    }


def write_result(
    result: Result,
    cfg: DictConfig,
    choices: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> None:
    """Write `result.json`, completely or not at all: the metrics, the config, the versions and the
    commit.

    `choices` are the options of the config groups. Identity and start are those that `begin` wrote,
    and so are the inputs unless they are given. Raises FloatingPointError for a metric that is not
    finite, since nothing could read the file.
    """
    for name, value in result.metrics.items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} is {value}, but a figure in {ENDED} must be finite: see the metric's code"
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


def read_or_empty(path: Path) -> dict[str, Any]:
    """Return a JSON object; an empty one if the file is missing or damaged."""
    try:
        content: dict[str, Any] = read_json(path)
    except (OSError, ValueError):
        return {}
    return content


def now() -> str:
    return datetime.now(UTC).isoformat()


def _commit() -> str | None:
    """Return the commit of the code, with a + if there are uncommitted changes; None outside a
    checkout.
    """
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
