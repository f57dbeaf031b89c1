"""Made-up runs."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from elmo_bench.runs import Run


def a_run(task: dict[str, Any] | None = None, folder: Path = Path(), **more: Any) -> Run:
    """A run of a task without a file; `more` has its other fields, the config beside the task too."""
    config = {"task": {"name": "ner", "monitor": "f1"} | (task or {})} | more.pop("config", {})
    return Run(**{"folder": folder, "config": config, "seed": 1} | more)


def write_run(folder: Path, metrics: Mapping[str, float], config: Any = (), **more: Any) -> None:
    """Write a run's result.json or, without metrics, run.json; `more` has its other fields."""
    usual = {"task": {"name": "ner", "monitor": "f1"}, "encoder": {"name": "mini"}}
    config = usual | {"elmo": {"mix": "all"}, "seed": 1} | dict(config)
    folder.mkdir(parents=True, exist_ok=True)
    content = {"task": config["task"]["name"], "seed": config["seed"]}
    content |= {"metrics": metrics, "config": config} | more
    (folder / ("result.json" if metrics else "run.json")).write_text(json.dumps(content))


def write_failed(folder: Path, config: Any = (), **more: Any) -> None:
    """Write what a run leaves for which memory was too small."""
    write_run(folder, {}, config, inputs={}, started="then", **more)
    (folder / "error.txt").write_text("Traceback (most recent call last):\n  f\nMemoryError: x\n")


def change(folder: Path, how: Callable[[Any], object]) -> None:
    """Change what a finished run's result.json holds."""
    path = folder / "result.json"
    content = json.loads(path.read_text())
    how(content)
    path.write_text(json.dumps(content))
