"""Made-up runs."""

from pathlib import Path
from typing import Any

from elmo_bench.runs import Run, frozen, leaves


def a_run(task: dict[str, Any] | None = None, folder: Path = Path(), **more: Any) -> Run:
    """A run of a task without a file; `more` has its other fields, the config beside the task too."""
    config = {"task": {"name": "ner", "monitor": "f1"} | (task or {})} | more.pop("config", {})
    settings = {key: frozen(value) for key, value in leaves(config)}
    return Run(
        **{
            "folder": folder,
            "config": config,
            "settings": settings,
            "acting": set(),
            "idle": set(),
            "seed": 1,
        }
        | more
    )
