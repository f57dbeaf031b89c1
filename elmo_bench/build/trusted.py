"""What a config in a file from elsewhere (a checkpoint, a result) may name: plain data, our tasks,
corpora of conf/data, paths of this machine. Errors begin with `source`, such as checkpoint=FILE.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from elmo_bench import CONF
from elmo_bench.settings import inputs

ADDRESS = re.compile(r"\w+://|//|\\\\")
# Of a corpus: texts that no job reads, and how training split it; other jobs read whole files.
ABOUT = ("option", "origin", "note", "folds", "fold")
# Limits of a config.
DEPTH = 20
NODES = 10_000
ADVICE = "give data=NAME and the settings that it needs"
TASK = {  # types of values: our modules, and parts of file names
    "data": (r"tasks(\.\w+)+", "module of tasks.*"),
    "name": (r"\w[\w-]*", "name of a task"),
    "suffix": (r"(?!.*\.\.)[.\w-]+", "suffix of a file name"),
}


def check_plain(node: Any, source: str) -> None:
    """Raise ValueError unless `node` is plain data within size limits and free of `${...}`."""
    for number, (key, value) in enumerate(nodes(node)):
        where = f"{source}: its config{key[:200]}"
        if number > NODES or key.count(".") > DEPTH:
            raise ValueError(f"{where}: more than {NODES} values, or nested more than {DEPTH} deep")
        if isinstance(value, str) and ("${" in value or value == "???"):
            raise ValueError(f"{where} refers to {value[:200]!r}, but it may refer to nothing")
        if not isinstance(value, dict | list | str | int | float | None):
            raise ValueError(
                f"{where} contains a {type(value).__name__}, but it may only contain plain settings"
            )
        if isinstance(value, dict) and not all(isinstance(name, str) for name in value):
            raise ValueError(f"{where} has a key that is not a string")


def nodes(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value at any depth, and each name in a mapping, with its dotted key."""
    yield key, node
    if isinstance(node, dict):
        for name, value in node.items():
            yield key, name
            yield from nodes(value, f"{key}.{name}")
    elif isinstance(node, list):
        for value in node:
            yield from nodes(value, f"{key}.")


def check_task(task: Mapping[str, Any], source: str) -> None:
    """Raise ValueError for a task that names a module of others, or a file elsewhere.

    >>> check_task({"data": "tasks.ner.data", "name": "ner-de", "suffix": ".pred-en.tsv"}, "")
    """
    for key, (form, kind) in TASK.items():
        value = str(task.get(key))
        if not re.fullmatch(form, value):
            raise ValueError(f"{source}: its config sets task.{key}={value}, which is not a {kind}")


def local_path(file: Any, source: str) -> Path:
    """Return the path of a config's file. Raises ValueError if it is not a local one."""
    if not isinstance(file, str) or ADDRESS.match(file):
        raise ValueError(f"{source} names {file!r}, but a file must be a local path")
    return Path(file).expanduser()


def options(group: str) -> dict[str, dict[str, Any]]:
    """Return the options of a group in conf/, not interpolated, with what they inherit from others
    of the group.
    """
    folder = CONF / group
    return {file.stem: _option(folder, file.stem) for file in sorted(folder.glob("*.yaml"))}


def _option(folder: Path, name: str) -> dict[str, Any]:
    option = cast(dict, OmegaConf.to_container(OmegaConf.load(folder / f"{name}.yaml")))
    for parent in option.pop("defaults", ()):
        if isinstance(parent, str) and parent != "_self_":
            option = _option(folder, parent.partition("@")[0]) | option
    return option


def corpus(cfg: DictConfig, stored: Any, source: str) -> DictConfig:
    """Return the config of a corpus, given the resolved `data` of a run with its `option` in
    conf/data, on which it is based: only numbers, the name and the paths of files are taken.

    Files from the command line take precedence.
    """
    of_run = stored if isinstance(stored, dict) else {}
    name, data = _corpus_option(of_run, source)
    for key, value in of_run.items():
        is_setting = isinstance(value, str | int | float) and key not in ABOUT
        if not is_setting or data.get(key) == value:
            continue
        is_number = key in data and {type(value), type(data[key])} <= {int, float, type(None)}
        if not is_number and not (key == "name" and isinstance(value, str)):
            raise ValueError(f"{source} was trained with data={name} data.{key}={value}: {ADVICE}")
        data[key] = value
    files = of_run.get("files", {})
    if not isinstance(files, dict):
        raise ValueError(f"{source}: its config.data.files must map splits to paths")
    given: Any = OmegaConf.to_container(cfg.data)
    for split in inputs.SPLITS:
        file = given["files"].get(split) or files.get(split, data["files"].get(split))
        if file:
            data["files"][split] = str(local_path(file, source))
    columns = data.get("columns") or {}
    columns_of_run = of_run.get("columns") or {}
    for key in columns_of_run.keys() - columns.keys():
        value = columns_of_run[key]
        if value is not None:
            raise ValueError(
                f"{source} was trained with data={name} data.columns.{key}={value}: {ADVICE}"
            )
    data["columns"] = {key: columns_of_run.get(key, value) for key, value in columns.items()}
    return OmegaConf.create(data)


def _corpus_option(of_run: Mapping[str, Any], source: str) -> tuple[str, dict[str, Any]]:
    """Return the name and the content of the option in conf/data that a run's `data` is based on.

    Raises ValueError if there is none.
    """
    by_name = options("data")
    name = str(of_run.get("option"))
    if name in by_name and "files" not in by_name[name]:  # data=paper, which chooses another
        name = str(of_run.get("name"))
    data = by_name.get(name, {})
    if "files" not in data:
        raise ValueError(
            f"{source} was trained on data={name}, which is not an option of conf/data: {ADVICE}"
        )
    return name, data
