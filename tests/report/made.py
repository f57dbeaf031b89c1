"""Made-up runs."""

from pathlib import Path
from typing import Any

from elmo_bench.runs import Run


def a_run(task: dict[str, Any] | None = None, folder: Path = Path(), **more: Any) -> Run:
    """A run of a task without a file; `more` has its other fields, the config beside the task too."""
    config = {"task": {"name": "ner", "monitor": "f1"} | (task or {})} | more.pop("config", {})
    return Run(**{"folder": folder, "config": config, "seed": 1} | more)
