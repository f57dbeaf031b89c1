"""What a run leaves: `result.json`."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path

from omegaconf import DictConfig

from elmo_bench.files import write_json

from .code import code
from .read import ENDED, Mix, Overlap
from .resume import about, now


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
