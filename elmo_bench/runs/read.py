"""Read the runs in folders: `result.json`, where every value must have the expected type, and the
`run.json` of those that have no result.
"""

import logging
import re
from collections.abc import Hashable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypedDict, get_type_hints

from annotated_types import Ge
from pydantic import TypeAdapter, ValidationError

from elmo_bench.files import find_files, is_taken, read_json

from .identity import NOT_IDENTITY, acting, below, idle, leaves

log = logging.getLogger(__name__)

BEGUN, ENDED = "run.json", "result.json"
INPUTS = "inputs."  # prefix of the hash of a file that the run read
SHORT = 12  # hexadecimal digits shown of a hash
# Keys that name files: a user may name others, such as a part of a training set. And what these
# files are among the inputs.
FILES = {f"data.files.{split}": f"data.{split}" for split in ("train", "dev", "test")} | {
    key: key for key in ("vocab.vectors", "encoder.options", "encoder.weights")
}
ERROR = "error.txt"  # the traceback that a failed run leaves
# The exception of a traceback, behind its lines of code; its message may have lines of any kind.
# A worker's traceback stands within that of its parent.
RAISED = re.compile(
    r"^(?:Original )?Traceback \(most recent call last\):\n(?: .*\n)*([\w.]+.*)", re.MULTILINE
)
GIVE = "give a folder that contains the result.json of runs"
WITHOUT: dict[str, Any] = {"mix": {}, "epochs": 0}  # results of job=evaluate have neither
COST = {"seconds": ("training", "total"), "parameters": ("trainable", "frozen")}


Count = Annotated[int, Ge(0)]


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


@dataclass(frozen=True, eq=False)
class Run:
    """A run: what its `result.json` says or, if it has none, its `run.json`.

    Args:
        folder: where the run is.
        config: the resolved config.
        settings: the same by dotted key, `elmo.mix`, with lists as tuples, and the first digits of
            the hash of each file that the run read, `inputs.data.train`.
        acting: the keys of settings that affect figures.
        idle: the keys that have no effect, given the values of others.
        groups: the options of the config groups.
        seed: the random seed.
        metrics: figures as fractions of 1, by split and name, `test/f1`.
        mix: what the mix of each place has learned.
        parameters: the numbers of trained and frozen ones.
        seconds: the time of the training, of the encoder, and in all.
        epochs: their number; 0 for a run of job=evaluate.
        examples_per_second: the speed of the training.
        device: the name of the processor.
        inputs: the hash of each file that the run read.
        versions: of the packages.
        commit: of the code.
        identity: a hash of acting settings and inputs.
        started: the time, in ISO format.
        finished: the time, in ISO format.
        reason: why a run has no result.

    """

    folder: Path
    config: dict[str, Any]
    settings: dict[str, Hashable]
    acting: set[str]
    idle: set[str]
    groups: dict[str, Any] = field(default_factory=dict)
    seed: Count = 0
    metrics: dict[str, float] = field(default_factory=dict)
    mix: dict[str, Mix] = field(default_factory=dict)
    parameters: dict[str, Count] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    epochs: Count = 0
    examples_per_second: float = 0.0
    device: str = ""
    inputs: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    commit: str | None = None
    identity: str = ""
    started: str = ""
    finished: str = ""
    reason: str = ""

    @property
    def task(self) -> str:
        """The name of the task."""
        return str(self.config["task"]["name"])


DERIVED = ("folder", "settings", "acting", "idle", "groups", "mix")  # others are in a file as here
TYPES: dict[str, TypeAdapter[Any]] = {
    key: TypeAdapter(kind)
    for key, kind in get_type_hints(Run, include_extras=True).items()
    if key not in DERIVED
} | {"mix": TypeAdapter(dict[str, dict[str, list[float] | float]])}
# Groups of the config that must be objects, and the keys that they must have.
GROUPS = {
    **dict.fromkeys(("data", "vocab", "schedule", "published", "fit"), ()),
    "elmo": ("mix",),
    "encoder": ("name",),
}


def collect(folders: Iterable[str | Path]) -> list[Run]:
    """Return every finished run in or below the folders, in the order of their paths.

    Raises FileNotFoundError if a folder does not exist or contains no run, or if no run of all
    folders has a result, and ValueError for a damaged file.
    """
    paths_given, runs = [*map(Path, folders)], list[Run]()
    for folder in paths_given:
        paths = find_files(folder, ENDED)
        if not paths and not find_files(folder, BEGUN):
            why = "no finished run in or below it" if folder.is_dir() else "no such folder"
            raise FileNotFoundError(f"runs={folder}: {why}; {GIVE}")
        runs += map(read_run, paths)
    if paths_given and not runs:
        raise FileNotFoundError(f"runs={','.join(map(str, paths_given))}: no finished run; {GIVE}")
    return runs


def failures(folders: Iterable[str | Path], runs: Iterable[Run]) -> list[Run]:
    """Return the runs in or below the folders that began and have no result, with the reason: the
    name of the exception, if there is one.

    Runs that were repeated are left out: their identity is among those of the finished `runs`.
    """
    finished = {run.identity for run in runs}
    failed: dict[str, Run] = {}
    for path in (path for folder in folders for path in find_files(folder, BEGUN)):
        if (path.parent / ENDED).exists():
            continue
        try:
            run = read_run(path)
        except (OSError, ValueError) as error:
            log.warning("ignored: %s", error)
        else:
            if run.identity not in finished:
                failed.setdefault(run.identity, run)
    return [*failed.values()]


def read_run(path: Path) -> Run:
    """Return the run of a `result.json`, or of the `run.json` of a run without a result.

    Raises OSError if it cannot be read, and ValueError, with the file and key, if it is invalid.
    """
    is_finished = path.name == ENDED
    content = read_result(path) if is_finished else _read_begun(path)
    if not is_finished:
        content["reason"] = _reason(path.parent, content.get("reason", "did not end"))
    try:
        return _run(path.parent, content)
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: not a result of elmo-bench: {error!r}") from error


def _run(folder: Path, content: dict[str, Any]) -> Run:
    known = {key: content[key] for key in Run.__dataclass_fields__ if key in content}
    known["groups"] = content.get("choices", {})
    # Results of job=evaluate have the corpus of training as `trained_on`.
    config = {"trained_on": corpus_of(content["config"].get("data", {}))} | content["config"]
    inputs = {
        f"{INPUTS}{name}": digest[:SHORT] for name, digest in content.get("inputs", {}).items()
    }
    settings = {key: frozen(value) for key, value in leaves(config)} | inputs
    without = tuple(idle(config))
    return Run(
        **known,
        folder=folder,
        settings=settings,
        acting={*acting(config), *inputs, *(FILES.keys() & settings.keys())},
        idle={key for key in settings if below(key, without)},
    )


def frozen(value: Any) -> Hashable:
    """Return a config's value with lists as tuples, so that it can be a key.

    >>> frozen([0, [1]]), frozen("mini")
    ((0, (1,)), 'mini')
    """
    if isinstance(value, list | tuple):
        return tuple(map(frozen, value))
    return str(value) if isinstance(value, dict) else value


def text(value: Hashable) -> str:
    """Return a setting as it is written on the command line.

    >>> text((0, 1)), text("mini"), text(None)
    ('[0,1]', 'mini', 'None')
    """
    return f"[{','.join(map(text, value))}]" if isinstance(value, tuple) else str(value)


def corpus_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a config says about a corpus, without its files and their origin."""
    return {key: value for key, value in data.items() if not below(f"data.{key}", NOT_IDENTITY)}


def _reason(folder: Path, said: str) -> str:
    """Return why a run has no result; `said` is what its archive says."""
    if (error := folder / ERROR).is_file():
        name = failure_sentence(error).partition(":")[0]
        return name.rpartition(".")[2] or "failed"
    with suppress(OSError):  # fails for folders of another machine or user
        if is_taken(folder / "run"):
            return "is running"
    return said


def failure_sentence(error: Path) -> str:
    """Return the exception at the end of a traceback and the first line of its message; empty if
    the file has no traceback.
    """
    raised = RAISED.findall(error.read_text(encoding="utf-8", errors="replace"))
    return raised[-1] if raised else ""


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
    if not isinstance(monitor := content["config"]["task"].get("monitor"), str):
        _refuse(path, "config.task.monitor", monitor, "it must be text")
    for key, value in (content["config"].get("fit") or {}).items():
        if key in ("max_epochs", "patience") and not isinstance(value, int):
            _refuse(path, f"config.fit.{key}", value, "it must be a count")
    for place, mix in content["mix"].items():
        if not _is_mix(mix):
            kind = f"it must have {', '.join(Mix.__annotations__)}, and lists that are as long"
            _refuse(path, f"mix.{place}", mix, kind)
    for key, parts in COST.items():
        if content["epochs"] and (missing := {*parts} - content[key].keys()):
            _refuse(path, key, sorted(content[key]), f"it must have {', '.join(missing)} too")
    return content


def _is_mix(mix: dict[str, Any]) -> bool:
    if mix.keys() != Mix.__annotations__.keys():
        return False
    layers, shares, norms = (mix[key] for key in ("layers", "shares", "norms"))
    are_lists = all(isinstance(each, list) for each in (layers, shares, norms))
    return are_lists and len(layers) == len(shares) == len(norms or layers)


def _read_begun(path: Path) -> dict[str, Any]:
    """Read the `run.json` of a run without a result."""
    content: dict[str, Any] = read_json(path)
    _check(path, content, {"identity", "config"})
    return content


def _check(path: Path, content: dict[str, Any], needed: set[str]) -> None:
    """Raise ValueError for a value that is missing or has a wrong type."""
    if missing := needed - content.keys():
        raise ValueError(
            f"{path}: not a result of elmo-bench: it lacks {', '.join(sorted(missing))}"
        )
    for key in (key for key in TYPES if key in content):
        try:
            TYPES[key].validate_python(content[key], strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            _refuse(path, ".".join(map(str, (key, *first["loc"]))), first["input"], first["msg"])
    config = content["config"]
    for group, keys in GROUPS.items():
        value = config.get(group) or {}
        if not isinstance(value, dict) or (group in config and {*keys} - value.keys()):
            having = f" that has {', '.join(keys)}" if keys else ""
            _refuse(path, f"config.{group}", config[group], f"it must be an object{having}")
    task = config.get("task")
    if not isinstance(task, dict) or not isinstance(task.get("name"), str):
        _refuse(path, "config.task", task, "it must be an object whose name is text")


def _refuse(path: Path, key: str, value: object, why: str) -> None:
    raise ValueError(f"{path}: not a result of elmo-bench: {key} is {str(value)[:60]!r}, but {why}")
