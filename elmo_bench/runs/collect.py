"""Collect the `result.json` files of runs, and find what distinguishes the runs."""

import logging
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from elmo_bench.files import found, is_taken

from .folder import BEGUN, ENDED
from .identity import ASIDE, acting, below, idle, leaves
from .read import read_begun, read_result

log = logging.getLogger(__name__)

Run = dict[str, Any]

# Keys that may differ between runs of an experiment, besides those without effect on figures.
WITHIN = ("seed", "job", "split", "encoder._target_", "inputs.checkpoint")
# Keys that name files: a user may name others, such as a part of a training set. And what these
# files are among the inputs.
FILES = {f"data.files.{split}": f"data.{split}" for split in ("train", "dev", "test")} | {
    key: key for key in ("vocab.vectors", "encoder.options", "encoder.weights")
}
ENCODER, MIX = "encoder.name", "elmo.mix"
NAMES = ("task.name", "data.name", ENCODER)
INPUTS = "inputs."  # prefix of the hash of a file that the run read
CORPUS = ("data", "trained_on", f"{INPUTS}data")  # keys that identify the corpus
SHORT = 12  # hexadecimal digits shown of a hash
ERROR = "error.txt"  # the traceback that a failed run leaves
# The exception of a traceback, behind its lines of code; its message may have lines of any kind.
# A worker's traceback stands within that of its parent.
RAISED = re.compile(
    r"^(?:Original )?Traceback \(most recent call last\):\n(?: .*\n)*([\w.]+.*)", re.MULTILINE
)
GIVE = "give a folder that contains the result.json of runs"


def collect(folders: Iterable[str | Path]) -> list[Run]:
    """Return every finished run in or below the folders, in the order of their paths.

    Raises FileNotFoundError if a folder does not exist or contains no run, or if no run of all
    folders has a result, and ValueError for a damaged file.
    """
    paths_given, runs = [*map(Path, folders)], list[Run]()
    for folder in paths_given:
        paths = found(folder, ENDED)
        if not paths and not found(folder, BEGUN):
            why = "no finished run in or below it" if folder.is_dir() else "no such folder"
            raise FileNotFoundError(f"runs={folder}: {why}; {GIVE}")
        runs += map(read_run, paths)
    if paths_given and not runs:
        raise FileNotFoundError(f"runs={','.join(map(str, paths_given))}: no finished run; {GIVE}")
    return runs


def read_run(path: Path) -> Run:
    """Return the run of a `result.json` with its `choices` (every key of the config, as text),
    which of them are `acting` and which `idle`, its folder and when it was `written`.
    """
    run = read_result(path)
    try:
        written = (
            datetime.fromisoformat(run["finished"]).timestamp()
            if "finished" in run
            else path.stat().st_mtime
        )
        return run | _settings(run) | {"folder": path.parent, "written": written}
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"{path}: not a result of elmo-bench: {error!r}") from error


def _settings(run: Run) -> Run:
    """Return what a run's config and inputs say about it."""
    inputs = {f"{INPUTS}{name}": digest[:SHORT] for name, digest in run.get("inputs", {}).items()}
    # Results of job=evaluate have the corpus of training as `trained_on`.
    config = {"trained_on": corpus_of(run["config"].get("data", {}))} | run["config"]
    choices = {key: as_text(value) for key, value in leaves(config)} | inputs
    return {
        "choices": choices,
        "acting": {*acting(config), *inputs, *(key for key in FILES if key in choices)},
        "idle": {key for key in choices if below(key, tuple(idle(config)))},
    }


def failures(folders: Iterable[str | Path], runs: Iterable[Run]) -> list[Run]:
    """Return the runs in or below the folders that began and have no result, each with its
    `choices`, its folder and the `reason`: the name of the exception,
    if there is one.

    Runs that were repeated are left out: their identity is among those of the finished `runs`.
    """
    finished = {run.get("identity") for run in runs}
    failed: dict[str, Run] = {}
    for path in (path for folder in folders for path in found(folder, BEGUN)):
        if (path.parent / ENDED).exists():
            continue
        try:
            run = {"reason": "did not end"} | read_begun(path)
            about = _settings(run) | {"folder": path.parent, "reason": _reason(path.parent, run)}
            if run["identity"] not in finished:
                failed.setdefault(run["identity"], run | about)
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            log.warning(
                "%s: ignored, since it is not a file that a run writes at its start: %r",
                path,
                error,
            )
    return [*failed.values()]


def failure_sentence(error: Path) -> str:
    """Return the exception at the end of a traceback and the first line of its message; empty if
    the file has no traceback.
    """
    raised = RAISED.findall(error.read_text(encoding="utf-8", errors="replace"))
    return raised[-1] if raised else ""


def _reason(folder: Path, run: Run) -> str:
    """Return why a run has no result."""
    if (error := folder / ERROR).is_file():
        name = failure_sentence(error).partition(":")[0]
        return name.rpartition(".")[2] or "failed"
    with suppress(OSError):  # fails for folders of another machine or user
        if is_taken(folder / "run"):
            return "is running"
    return str(run["reason"])


def corpus_of(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a config says about a corpus, without its files and their origin."""
    return {key: value for key, value in data.items() if not below(f"data.{key}", ASIDE)}


def as_text(value: object) -> str:
    """Return a config's value as tables show it: `[0,1]`, `mini`, `None`."""
    return "[" + ",".join(map(str, value)) + "]" if isinstance(value, list | tuple) else str(value)


def number(text: str) -> float | None:
    """Return a config's value as a finite number, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def full_keys(runs: Sequence[Run], keys: Sequence[str], option: str) -> list[str]:
    """Return the full dotted keys: `encoder` is short for `encoder.name`. Raises ValueError for a
    key that no run has.
    """
    known_keys = {key for run in runs for key in run["choices"]}
    full = [f"{key}.name" if f"{key}.name" in known_keys else key for key in keys]
    if unknown := [key for key in full if key not in known_keys]:
        raise ValueError(
            f"{option}={list(keys)}: no run has {unknown} in its config; it has keys such "
            "as encoder, elmo.mix, task, data.size"
        )
    return full


def choice(run: Run, keys: Sequence[str]) -> tuple[str, ...]:
    """Return the values of a run's config under dotted keys; "-" for a key that the config lacks or
    that has no effect in this run.
    """
    return tuple("-" if key in run["idle"] else run["choices"].get(key, "-") for key in keys)


def where(
    runs: Iterable[Run],
    values: Mapping[str, object],
    *,
    with_baseline: bool = False,
    strict: bool = True,
) -> list[Run]:
    """Return the runs whose config has these values under dotted keys; `with_baseline` also returns
    runs without an encoder, whatever the conditions on the encoder and ELMo.

    A value may differ by corpus, {wikigold: 1, sst: 0.5}; a corpus that is missing there has no
    runs. `task` stands for the task's own value: elmo.l2=task is task.elmo.l2. Without `strict`, a
    key that a run lacks, or that has no effect in it, does not exclude the run.
    """

    def agrees(run: Run, key: str, value: object) -> bool:
        is_baseline = with_baseline and run["choices"].get(ENCODER) == "none"
        if is_baseline and below(key, ("encoder", "elmo")):
            return True
        names = [name for name in (key, f"{key}.name") if name in run["choices"]]
        if not strict and (not names or key in run["idle"]):
            return True
        if isinstance(value, Mapping):
            corpus = run["choices"].get("data.name")
            if corpus not in value:
                return False
            value = value[corpus]
        if value == "task":
            value = run["choices"].get(f"task.{key}", value)
        return any(equal(run["choices"][name], value) for name in names)

    return [run for run in runs if all(agrees(run, key, values[key]) for key in values)]


def equal(text: str, value: object) -> bool:
    """Whether a config's value, as tables show it, equals this one: 1 is 1.0.

    >>> equal("1.0", 1), equal("[0,1]", [0, 1]), equal("None", None)
    (True, True, True)
    """
    wanted = as_text(value)
    return text == wanted or (number(wanted) is not None and number(text) == number(wanted))


def distinguishing(runs: Sequence[Run], keys_given: Sequence[str]) -> list[str]:
    """Return the task and the further config keys that distinguish runs beyond their seed.

    A key that follows from those before it (a task's batch size, given the task) is left out. The
    last keys are hashes of the files that the runs read, such as `inputs.data.train`.
    """
    keys = {key for run in runs for key in run["acting"] if not below(key, WITHIN)}
    chosen = ["task.name"]
    for key in sorted(
        keys,
        key=lambda key: (
            key not in NAMES,
            not key.startswith("elmo."),
            key.startswith(INPUTS),
            key,
        ),
    ):
        if varies(runs, [*keys_given, *chosen], key):
            chosen.append(key)
    return [key for key in chosen if key not in keys_given]


def other_files(runs: Iterable[Run], known: Sequence[str]) -> str | None:
    """Return why runs cannot be compared: runs with equal known keys for task and corpus read
    different training, dev or test files. None if they can be compared.
    """
    keys = ["task.name", *(key for key in known if below(key, CORPUS))]
    hashes: dict[tuple[str, tuple[str, ...]], dict[str, list[Run]]] = defaultdict(dict)
    for run in runs:
        for name in (f"{INPUTS}data.{split}" for split in ("train", "dev", "test")):
            if digest := run["choices"].get(name):
                hashes[name, choice(run, keys)].setdefault(digest, []).append(run)
    for (name, values), several in hashes.items():
        if len(several) > 1:
            shown = ", ".join(
                f"{digest} in {group[0]['folder']} and {len(group) - 1} more"
                for digest, group in several.items()
            )
            return (
                f"{' '.join(values)}: runs on other data cannot be compared, but {name} is "
                f"{shown}; where={{{name}: {next(iter(several))}}} takes one, rows=[task,{name}] "
                "parts them"
            )
    return None


def varies(runs: Sequence[Run], known: Sequence[str], key: str) -> bool:
    """Whether runs with equal known keys differ in another key.

    A run in which the key has no effect does not count as different, nor does one of an earlier
    version without the hash of a file. For files, the content counts if its hash is known, not only
    the name.
    """
    if key.startswith(INPUTS):
        runs = [run for run in runs if key in run["choices"]]
    else:
        runs = [run for run in runs if key in run["acting"] or key not in run["choices"]]
    ways = [lambda run: choice(run, [key])]
    if key in FILES:
        ways.append(
            lambda run: choice(
                run, [f"{INPUTS}{FILES[key]}" if f"{INPUTS}{FILES[key]}" in run["choices"] else key]
            )
        )
    agreed = len({choice(run, known) for run in runs})
    return all(agreed < len({(choice(run, known), way(run)) for run in runs}) for way in ways)
