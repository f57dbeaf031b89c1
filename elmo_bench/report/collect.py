"""`result.json` files, as runs leave them, and what tells the runs apart."""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

Run = dict[str, Any]

# What may differ between runs of one experiment: the seed, and where and how they ran.
INCIDENTAL = (
    *("seed", "run_dir", "outputs_dir", "data_dir", "cache_dir", "resume", "num_workers", "logger", "job", "trainer.accelerator"),
    *("data.files", "elmo.layers", "published", "task.published"),  # they follow from other keys
    *("elmo.options.folder", "elmo.weights.folder"),  # where downloads lie
)
FILES = ("data.files.train", "data.files.dev", "data.files.test")  # a user may name others, such as a part of a training set
NAMES = ("task.name", "data.name", "elmo.name")


def collect(folders: Iterable[str | Path]) -> list[Run]:
    """Every finished run at or below the folders, in the order of their paths.

    Raises FileNotFoundError where a folder does not exist or holds no result, ValueError for a damaged file.
    """
    runs = []
    for folder in folders:
        paths = sorted(Path(folder).rglob("result.json"))
        if not paths:
            raise FileNotFoundError(f"runs={folder}: no result.json at or below it")
        for path in paths:
            try:
                run = json.loads(path.read_text(encoding="utf-8"))
                _rename(run["config"]["elmo"])
                choices, written = dict(_leaves(run["config"])), path.stat().st_mtime
                runs.append(run | {"choices": choices, "folder": path.parent, "written": written})
            except (ValueError, KeyError, AttributeError, TypeError) as error:
                raise ValueError(f"{path}: not a result of elmo-bench: {error!r}") from error
    return runs


def _rename(elmo: dict[str, Any]) -> None:
    """Call the settings of an earlier version by today's names."""
    if "layer_norm" in elmo:
        elmo["norm"] = "batch" if elmo.pop("layer_norm") else "none"


def _leaves(node: dict[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """Dotted keys such as `elmo.mix`, and their values as text."""
    for key, value in node.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield prefix + key, as_text(value)


def as_text(value: object) -> str:
    """A config's value as a table shows it: `[0,1]`, `mini`, `None`."""
    return "[" + ",".join(map(str, value)) + "]" if isinstance(value, list | tuple) else str(value)


def number(text: str) -> float | None:
    """A config's value as a finite number, if it is one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def full_keys(runs: Sequence[Run], keys: Sequence[str], option: str) -> list[str]:
    """The dotted keys meant: `elmo` is short for `elmo.name`. Raises ValueError for one that no run has."""
    known = {key for run in runs for key in run["choices"]}
    full = [f"{key}.name" if f"{key}.name" in known else key for key in keys]
    if unknown := [key for key in full if key not in known]:
        raise ValueError(
            f"{option}={list(keys)}: no run's config has {unknown}; it has keys such as elmo, elmo.mix, task, data.size"
        )
    return full


def choice(run: Run, keys: Sequence[str]) -> tuple[str, ...]:
    """What a run's config says under dotted keys; "-" where it has no such key."""
    return tuple(run["choices"].get(key, "-") for key in keys)


def where(runs: Iterable[Run], values: Mapping[str, object]) -> list[Run]:
    """The runs whose config has these values under dotted keys."""

    def agrees(run: Run, key: str, wanted: str) -> bool:
        found = {run["choices"][name] for name in (key, f"{key}.name") if name in run["choices"]}
        value = number(wanted)
        return wanted in found or (value is not None and value in map(number, found))

    wanted = {key: as_text(value) for key, value in values.items()}
    return [run for run in runs if all(agrees(run, key, value) for key, value in wanted.items())]


def distinguishing(runs: Sequence[Run], given: Sequence[str]) -> list[str]:
    """The task, and the further config keys that tell apart runs which differ in more than their seed.

    A key that follows from those before it (a task's batch size, once the task is known) is left out.
    """
    keys = {key for run in runs for key in run["choices"] if key in FILES or not key.startswith(INCIDENTAL)}
    chosen = ["task.name"]
    for key in sorted(keys, key=lambda key: (key not in NAMES, not key.startswith("elmo."), key)):
        if varies(runs, [*given, *chosen], key):
            chosen.append(key)
    return [key for key in chosen if key not in given]


def varies(runs: Sequence[Run], known: Sequence[str], key: str) -> bool:
    """Whether runs that agree on the known keys differ in another."""
    return len({choice(run, known) for run in runs}) < len({choice(run, [*known, key]) for run in runs})
