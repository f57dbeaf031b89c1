"""Read and check `result.json`: every value must have the expected type."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypedDict

from elmo_bench.files import read_json

# Defaults: a result of job=evaluate has no epochs.
WITHOUT: dict[str, Any] = {"mix": {}, "epochs": 0}
COST = {"seconds": ("training", "total"), "parameters": ("trainable", "frozen")}


class Mix(TypedDict):
    """What the mix at a place has learned; lists are in the order of `layers`."""

    layers: list[int]
    shares: list[float]  # s_j
    gamma: float
    norms: list[float]  # mean norm of each layer on dev; empty if it was not measured


def flat_mix(mix: Mapping[str, Mix]) -> dict[str, float]:
    """Name each number of a run's mixes, for curves and data frames: `elmo/input/s0` and so on,
    `elmo/input/gamma`, `elmo/input/norm0`.
    """
    figures: dict[str, float] = {}
    for place, learned in mix.items():
        for name, values in (("s", learned["shares"]), ("norm", learned["norms"])):
            figures |= {
                f"elmo/{place}/{name}{layer}": value
                for layer, value in zip(learned["layers"], values, strict=False)
            }
        figures[f"elmo/{place}/gamma"] = learned["gamma"]
    return figures


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count(value: Any) -> bool:
    return _number(value) and isinstance(value, int) and value >= 0


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _object(value: Any) -> bool:
    return isinstance(value, dict)


def _all(kind: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _object(value) and all(map(kind, value.values()))


def _mix(value: Any) -> bool:
    if not _object(value) or value.keys() != Mix.__annotations__.keys():
        return False
    lists = [value[name] for name in ("layers", "shares", "norms")]
    if not all(isinstance(each, list) and all(map(_number, each)) for each in lists):
        return False
    layers, shares, norms = map(len, lists)
    return (
        all(map(_count, value["layers"]))
        and layers == shares
        and norms in (0, layers)
        and _number(value["gamma"])
    )


# Kind -> (its description, a test for it).
KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "task": ("text", _text),
    "metrics": ("an object of numbers", _all(_number)),
    "mix": ("for each place an object of layers, shares, gamma and norms", _all(_mix)),
    "parameters": ("an object of counts", _all(_count)),
    "seconds": ("an object of numbers", _all(_number)),
    "epochs": ("a count", _count),
    "examples_per_second": ("a number", _number),
    "device": ("text", _text),
    "config": ("an object", _object),
    "seed": ("a count", _count),
    "choices": ("an object", _object),
    "inputs": ("an object of texts", _all(_text)),
    "versions": ("an object of texts", _all(_text)),
    "identity": ("text", _text),
    "finished": ("text", _text),
    "commit": ("text or null", lambda value: value is None or _text(value)),
}
# Groups of the config that are checked.
GROUPS = ("task", "data", "elmo", "encoder", "vocab", "schedule", "published", "fit")
LENGTH = ("max_epochs", "patience")


def read_result(path: Path) -> dict[str, Any]:
    """Read a `result.json`.

    Raises OSError if it cannot be read, and ValueError, with the file and key, if metrics or config
    are missing or a value has a wrong type.
    """
    content: dict[str, Any] = WITHOUT | read_json(path)
    needed = {"metrics", "config", "seed"}
    if content["epochs"]:
        needed |= {"examples_per_second", "device", *COST}
    _check(path, content, needed)
    config = content["config"]
    for key in ("monitor", "name"):
        if not _text(value := (config.get("task") or {}).get(key)):
            _refuse(path, f"config.task.{key}", value, "text")
    for group, key in (("elmo", "mix"), ("encoder", "name")):
        if key not in (config.get(group, {key: None}) or {}):
            _refuse(path, f"config.{group}", config[group], f"an object that has {key}")
    for key, value in (config.get("fit") or {}).items():
        if key in LENGTH and not _count(value):
            _refuse(path, f"config.fit.{key}", value, "a count")
    for key, parts in COST.items():
        if content["epochs"] and (missing := {*parts} - content[key].keys()):
            _refuse(path, key, sorted(content[key]), f"an object that has {', '.join(missing)} too")
    return content


def read_begun(path: Path) -> dict[str, Any]:
    """Read the `run.json` of a run without a result.

    Raises OSError if it cannot be read, and ValueError, with the file and key, if it is invalid.
    """
    content: dict[str, Any] = read_json(path)
    _check(path, content, {"identity", "config"})
    if not _text(name := (content["config"].get("task") or {}).get("name")):
        _refuse(path, "config.task.name", name, "text")
    return content


def _check(path: Path, content: dict[str, Any], needed: set[str]) -> None:
    """Raise ValueError for a value that is missing or has a wrong type."""
    for key, (kind, fits) in KINDS.items():
        if key not in content and key in needed:
            raise ValueError(f"{path}: not a result of elmo-bench: it lacks {key}, {kind}")
        if key in content and not fits(content[key]):
            _refuse(path, key, content[key], kind)
    config = content["config"]
    for group in GROUPS:
        if not isinstance(config.get(group) or {}, dict):
            _refuse(path, f"config.{group}", config[group], "an object")


def _refuse(path: Path, key: str, value: object, kind: str) -> None:
    raise ValueError(
        f"{path}: not a result of elmo-bench: {key} is {str(value)[:60]!r}, but it must be {kind}"
    )
