"""Read runs: `result.json`, whose values must have their types, and `run.json` without it."""

import logging
import math
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from reprlib import repr as shown
from typing import Annotated, Any, get_type_hints

from annotated_types import MaxLen, MinLen
from pydantic import AfterValidator, ConfigDict, NonNegativeInt, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic reads no other before Python 3.12

from elmo_bench.files import find_files, is_taken, read_json
from elmo_bench.terminal import not_a_folder

from .identity import (
    NOT_IDENTITY,
    acting,
    below,
    drawn_space,
    leaves,
    without_effect,
    written_alike,
)

log = logging.getLogger(__name__)

BEGUN = "run.json"
ENDED = "result.json"
INPUTS = "inputs."  # prefix of the hash of a file that the run read
SHORT = 12  # hexadecimal digits shown of a hash
# Keys that name files, of which a user may name others, and what these are among the inputs.
FILES = {
    "data.files.train": "data.train",
    "data.files.dev": "data.dev",
    "data.files.test": "data.test",
    "vocab.vectors": "vocab.vectors",
    "encoder.options": "encoder.options",
    "encoder.weights": "encoder.weights",
    "encoder.model": "encoder.model.safetensors",
    "encoder.adapter": "encoder.adapter_model.safetensors",
}
RUNNING = "is running"  # the reason of a run that has not ended yet
ERROR = "error.txt"  # the traceback that a failed run leaves
REPLACED = "replaced"  # in a run's folder: the finished run that it replaces
# The exception of a traceback; a worker's traceback stands within that of its parent.
RAISED = re.compile(
    r"^(?:Original )?Traceback \(most recent call last\):\n(?: .*\n)*([\w.]+.*)", re.MULTILINE
)
STANDS = {  # where examples of dev and test stand, too
    "training": "also stand in training",
    "text": "also stand in text.files.train",
    "n-grams": "have 13 words in a row that text.files.train has, too",
}
GIVE = "give a folder that contains the result.json of runs"
# Kind -> split -> the examples counted, and all.
Overlap = dict[str, dict[str, Annotated[list[NonNegativeInt], MinLen(2), MaxLen(2)]]]


class Mix(TypedDict):
    """What the mix at a place has learned; lists are in the order of `layers`."""

    layers: list[int]
    shares: list[float]  # s_j
    gamma: float
    norms: list[float]  # mean norm of each layer on dev; empty if it was not measured


def _softmax(mix: Mix) -> Mix:
    if not len(mix["layers"]) == len(mix["shares"]) == len(mix["norms"] or mix["layers"]):
        raise ValueError("its lists must be as long as each other")
    if min(mix["shares"], default=0) < 0 or not math.isclose(sum(mix["shares"]), 1, abs_tol=1e-3):
        raise ValueError("its shares must be from 0 to 1 and add up to 1")
    return mix


LearnedMix = Annotated[Mix, AfterValidator(_softmax)]


@dataclass(frozen=True, eq=False)
class Run:
    """A run: what its `result.json` says or, if it has none, its `run.json`."""

    folder: Path
    config: dict[str, Any]
    choices: dict[str, Any] = field(default_factory=dict)  # the options of the config groups
    seed: NonNegativeInt = 0
    metrics: dict[str, float] = field(default_factory=dict)  # fractions of 1, `test/f1`
    mix: dict[str, LearnedMix] = field(default_factory=dict)
    parameters: dict[str, NonNegativeInt] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)  # of training, encoder, and in all
    epochs: NonNegativeInt = 0  # of training; the best may be an earlier one
    examples_per_second: float = 0.0
    device: str = ""
    overlap: Overlap = field(default_factory=dict)
    examples: dict[str, NonNegativeInt] = field(default_factory=dict)  # of each split that was read
    cautions: dict[str, str] = field(default_factory=dict)  # warnings, by what they are about
    inputs: dict[str, str] = field(default_factory=dict)  # the hash of each file
    versions: dict[str, str] = field(default_factory=dict)  # of the packages
    commit: str | None = None
    identity: str = ""
    started: str = ""  # in ISO format
    finished: str = ""
    reason: str = ""  # why it has no result

    @property
    def task(self) -> str:
        """The name of the task."""
        return str(self.config["task"]["name"])

    @property
    def is_baseline(self) -> bool:
        """Whether it reads no layers, because of its encoder or its mix."""
        return "none" in (self.settings.get("encoder.name"), self.settings.get("elmo.mix"))

    @property
    def trial(self) -> int | None:
        """The number of the draw that a run of `sweep=tune` tries; None for all others."""
        return self.config.get("trial") if self.tune else None

    @property
    def tune(self) -> dict[str, str]:
        """The space of each key that was drawn, in runs of `sweep=tune`."""
        return drawn_space(self.config)

    @cached_property
    def settings(self) -> dict[str, Hashable]:
        """The config by dotted key, `elmo.mix`, with lists as tuples, and the first digits of the
        hash of each file that the run read, `inputs.data.train`.
        """
        return {key: frozen(value) for key, value in leaves(self._measured)} | self._hashes

    @cached_property
    def acting(self) -> set[str]:
        """The keys of `settings` that affect scores, and the spaces of those that were drawn."""
        keys = set(acting(self._measured))
        keys.update(self._hashes)
        keys.update(FILES.keys() & self.settings.keys())
        return keys

    @cached_property
    def without_effect(self) -> set[str]:
        """The keys of `settings` that no value could give an effect, given those of others."""
        without = tuple(without_effect(self._measured))
        return {key for key in self.settings if below(key, without)}

    @property
    def _hashes(self) -> dict[str, str]:
        return {f"{INPUTS}{name}": digest[:SHORT] for name, digest in self.inputs.items()}

    @cached_property
    def _measured(self) -> dict[str, Any]:
        """The config with equal settings written in one way, and with the corpus of training, which
        results of job=evaluate have themselves.
        """
        config = written_alike(self.config)
        return {"trained_on": corpus_of(config.get("data") or {})} | config


# The types of the values in `result.json` and `run.json`. None: it may be missing.
TYPES: dict[str, Any] = {
    "config.data": dict | None,
    "config.vocab": dict | None,
    "config.schedule": dict | None,
    "config.published": dict | None,
    "config.fit": dict | None,
    "config.finetune": dict | None,
    "config.store": dict | None,
    "config.tune": dict | None,
    "config.task.optimizer": dict | None,
    "config.task.name": str,
    "config.fit.max_epochs": int | None,
    "config.fit.patience": int | None,
    "config.trial": NonNegativeInt | None,
}
TYPES |= {key: kind | None for key, kind in get_type_hints(Run, include_extras=True).items()}
del TYPES["folder"]
RESULT = {"config.task.monitor": str, "metrics": dict[str, float], "seed": NonNegativeInt}
BEGINNING = {"identity": str}
IN_GROUPS: dict[str, dict[str, Any]] = {  # of a config that has the group
    "encoder": {"config.encoder.name": str},
    "elmo": {"config.elmo.mix": str | int | list},
}
TRAINED = {  # a result of job=evaluate has no epochs
    "examples_per_second": float,
    "device": str,
    "seconds.training": float,
    "seconds.total": float,
    "parameters.trainable": int,
    "parameters.frozen": int,
}


def flat_mix(mix: Mapping[str, Mix]) -> dict[str, float]:
    """Name each number of a run's mixes, for data frames: `elmo/input/s0`, `elmo/input/gamma`."""
    figures: dict[str, float] = {}
    for place, learned in mix.items():
        for name, values in (("s", learned["shares"]), ("norm", learned["norms"])):
            pairs = zip(learned["layers"], values, strict=False)
            figures |= {f"elmo/{place}/{name}{layer}": value for layer, value in pairs}
        figures[f"elmo/{place}/gamma"] = learned["gamma"]
    return figures


def overlap_lines(overlap: Overlap, of: str | None = None) -> list[str]:
    """Return a sentence for each count, above 0, of examples that stand elsewhere, too: of all
    splits, or `of` one.

    >>> overlap_lines({"training": {"dev": [16, 1043], "test": [0, 900]}})
    ['16 of 1,043 dev examples (1.5 %) also stand in training']
    """
    lines: list[str] = []
    for kind, words in STANDS.items():
        for split, (count, total) in overlap.get(kind, {}).items():
            if 0 < count <= total and of in (None, split):
                percent = f"{100 * count / total:.1f} %"
                lines.append(f"{count:,} of {total:,} {split} examples ({percent}) {words}")
    return lines


def collect(folders: Sequence[str | Path]) -> list[Run]:
    """Return the finished runs in or below the folders, in the order of their paths; of those with
    one identity, such as copies, the one that finished first.

    Raises FileNotFoundError if there is none, or none that has begun in one of the folders, and
    ValueError for a damaged file.
    """
    paths = list[Path]()
    for folder in map(Path, folders):
        finished = run_files(folder, ENDED)
        if not finished and not run_files(folder, BEGUN):
            why = "no finished run in or below it" if folder.is_dir() else not_a_folder(folder)
            raise FileNotFoundError(f"runs={folder}: {why}; {GIVE}")
        paths += finished
    if folders and not paths:
        raise FileNotFoundError(f"runs={','.join(map(str, folders))}: no finished run; {GIVE}")
    runs = [read_run(path) for path in paths]
    first: dict[str, Run] = {}
    for run in sorted(runs, key=lambda run: run.finished):
        first.setdefault(run.identity, run)
    return [run for run in runs if not run.identity or first[run.identity] is run]


def failures(folders: Iterable[str | Path], runs: Iterable[Run]) -> list[Run]:
    """Return the first run of each identity, in or below the folders, that has begun and is not
    among the finished `runs`, with the reason.
    """
    finished = {run.identity for run in runs}
    failed: dict[str, Run] = {}
    for run in readable(folders, BEGUN):
        if run.identity not in finished:
            failed.setdefault(run.identity, run)
    return list(failed.values())


def readable(folders: Iterable[str | Path], name: str) -> Iterator[Run]:
    """Yield the finished runs (ENDED), or those without a result (BEGUN), in or below the folders,
    of which one may be below another. Damaged files are named in the log.
    """
    paths: list[Path] = []
    for folder in folders:
        paths += run_files(folder, name)
    for path in dict.fromkeys(paths):
        if name == BEGUN and (path.parent / ENDED).exists():
            continue
        try:
            yield read_run(path)
        except (OSError, ValueError) as error:
            log.warning("ignored: %s", error)


def run_files(folder: str | Path, name: str) -> list[Path]:
    """Return the files of this name of the runs in or below a folder, but not of those that another
    run has replaced.
    """
    return [path for path in find_files(folder, name) if not is_replaced(path.parent)]


def is_replaced(folder: Path) -> bool:
    """Whether this is the `replaced/` of a finished run, or the beginning or the rest of one."""
    above = folder.absolute().parent
    is_scratch = above.name.startswith(f".{REPLACED}-")
    return folder.name == REPLACED and (is_scratch or (above / ENDED).exists())


def read_run(path: Path) -> Run:
    """Return the run of a `result.json`, or of the `run.json` of a run without a result.

    Raises OSError if it cannot be read, and ValueError, with the file and key, if it is invalid.
    """
    content = read_json(path)
    is_finished = path.name == ENDED
    source = f"{path}: not a result of elmo-bench"
    check_types(content, TYPES | (RESULT if is_finished else BEGINNING), source)
    for group in IN_GROUPS.keys() & content["config"].keys():
        check_types(content, IN_GROUPS[group], source)
    if content.get("epochs"):
        check_types(content, TRAINED, source)
    content["folder"] = path.parent
    if not is_finished:
        content["reason"] = _reason(path.parent, content.get("reason") or "did not end")
    fields: dict[str, Any] = {}
    for name in Run.__dataclass_fields__:
        if content.get(name) is not None:
            fields[name] = content[name]
    return Run(**fields)


def check_types(content: Mapping[str, Any], types: Mapping[str, Any], source: str) -> None:
    """Raise ValueError, with `source` and the dotted key, for a value of another type; one that is
    missing counts as None.
    """
    for key, kind in types.items():
        value: Any = content
        for name in key.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        try:
            _adapter(kind).validate_python(value)
        except ValidationError as error:
            first = error.errors()[0]
            inside = first["loc"] if isinstance(value, dict | list) else ()
            place = ".".join(map(str, (key, *inside)))
            raise ValueError(
                f"{source}: {place} is {shown(first['input'])}: {first['msg']}"
            ) from error


@cache
def _adapter(kind: Any) -> Any:  # a TypeAdapter, a type that beartype does not know
    return TypeAdapter(kind, config=ConfigDict(strict=True, arbitrary_types_allowed=True))


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
    error = folder / ERROR
    if error.is_file():
        name = failure_sentence(error).partition(":")[0]
        return name.rpartition(".")[2] or "failed"
    with suppress(OSError):  # fails for folders of another machine or user
        if is_taken(folder / "run"):
            return RUNNING
    return said


def failure_sentence(error: Path) -> str:
    """Return a traceback's exception with the first line of its message; empty without one."""
    raised = RAISED.findall(error.read_text(encoding="utf-8", errors="replace"))
    return raised[-1] if raised else ""
