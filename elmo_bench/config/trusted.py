"""What a config in a file from elsewhere (a checkpoint, a result) may name: plain data, our tasks,
corpora of conf/data, paths of this machine. Errors begin with `source`, such as checkpoint=FILE.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from omegaconf import DictConfig, OmegaConf

from elmo_bench import CONF

from . import inputs

ADDRESS = re.compile(r"\w+://|//|\\\\")
DEPTH, NODES = 20, 10_000  # limits of a config
NUMBER = 100_000  # largest setting of a corpus, such as the stories of a generated one
TASK = {  # types of values: our modules, and parts of file names
    "data": (r"tasks(\.\w+)+", "module of tasks.*"),
    "name": (r"\w[\w-]*", "name of a task"),
    "suffix": (r"(?!.*\.\.)[.\w-]+", "suffix of a file name"),
}


def check_plain(node: Any, source: str) -> None:
    """Raise ValueError for what is not plain data of a reasonable size, at any depth, and for texts
    with references.
    """
    left = NODES

    def check(node: Any, key: str, depth: int) -> None:
        nonlocal left
        left -= 1
        where = f"{source}: its config{key[:200]}"
        if left < 0 or depth > DEPTH:
            raise ValueError(f"{where}: more than {NODES} values, or nested more than {DEPTH} deep")
        if isinstance(node, dict):
            for name, value in node.items():
                if not isinstance(name, str):
                    raise ValueError(f"{where} has a key that is not a string")
                check(name, key, depth)
                check(value, f"{key}.{name}", depth + 1)
        elif isinstance(node, list):
            for value in node:
                check(value, key, depth + 1)
        elif isinstance(node, str):
            if "${" in node or node == "???":
                raise ValueError(f"{where} refers to {node[:200]!r}, but it may refer to nothing")
        elif not isinstance(node, int | float | None):
            raise ValueError(
                f"{where} contains a {type(node).__name__}, but it may only contain plain settings"
            )

    check(node, "", 0)


def check_task(task: Mapping[str, Any], source: str) -> None:
    """Raise ValueError for a task that names a module of others, or a file elsewhere."""
    for key, (form, kind) in TASK.items():
        if not re.fullmatch(form, value := str(task.get(key))):
            raise ValueError(f"{source}: its config sets task.{key}={value}, which is not a {kind}")


def places(file: Any, cfg: DictConfig, source: str) -> list[Path]:
    """Return the possible paths of a config's file, in the working folder and below data_dir.

    Existing files come first. Raises ValueError if the file is not a local path.
    """
    if not isinstance(file, str) or ADDRESS.match(file):
        raise ValueError(f"{source} names {file!r}, but a file must be a local path")
    folders, path = (Path(), Path(cfg.data_dir).expanduser()), Path(file).expanduser()
    paths = [folder / path for folder in folders]
    return sorted(paths, key=lambda path: not path.is_file())


def options(group: str) -> dict[str, dict[str, Any]]:
    """Return the options of a group in conf/, not interpolated."""
    files = sorted((CONF / group).glob("*.yaml"))
    return {file.stem: cast(dict, OmegaConf.to_container(OmegaConf.load(file))) for file in files}


def described(data: Mapping[str, Any], option: str) -> dict[str, Any]:
    """Return a description of a corpus from its resolved config, from which `corpus` restores it.

    It has the option in conf/data, plain settings and the paths of files.
    """
    plain = {
        key: value
        for key, value in data.items()
        if isinstance(value, str | int | float) and key != "origin"
    }
    paths = {split: data["files"].get(split) for split in inputs.SPLITS}
    files = {split: path for split, path in paths.items() if isinstance(path, str)}
    if "files" not in options("data").get(option, data):  # data=paper, which chooses another
        option = data["name"]
    return plain | {"option": option, "name": data["name"], "files": files}


def corpus(cfg: DictConfig, stored: Any, source: str) -> DictConfig:
    """Return the config of a `described` corpus, based on its option in conf/data.

    Numbers and existing files are taken from the description; files from the command line take
    precedence.
    """
    name = stored.get("option") if isinstance(stored, dict) else None
    if not isinstance(stored, dict) or not isinstance(name, str):
        raise ValueError(f"{source} does not say which corpus it was trained on: give data=NAME")
    known, advice = options("data"), "give data=NAME and the settings that it needs"
    if name not in known or "files" not in known[name]:
        raise ValueError(
            f"{source} was trained on data={name}, which is not an option of conf/data: {advice}"
        )
    data = known[name]
    data.pop("defaults", None)
    for key, value in stored.items():
        if key not in ("option", "files") and data.get(key) != value:
            is_number = type(value) is type(data.get(key)) is int and abs(value) <= NUMBER
            if not is_number and not (key == "name" and isinstance(value, str)):
                raise ValueError(
                    f"{source} was trained with data={name} data.{key}={value}: {advice}"
                )
            data[key] = value
    files = stored.get("files") or {}
    if not isinstance(files, dict):
        raise ValueError(f"{source}: its config.data.files must map splits to paths")
    for split, file in files.items():
        if split in inputs.SPLITS and data["files"].get(split) != file:
            present = [
                place
                for plain in places(file, cfg, source)
                for place in (plain, Path(f"{plain}.gz"))
                if place.is_file()
            ]
            if not present and split == cfg.get("split"):
                came = f"data={name} data.files.{split}={file}, which does not exist here"
                raise ValueError(f"{source} was trained with {came}: {advice}")
            data["files"][split] = str(present[0].absolute()) if present else None
    given: Any = OmegaConf.to_container(cfg.data)
    data["files"] |= {key: value for key, value in given["files"].items() if value is not None}
    return OmegaConf.create(data | {"labels": given.get("labels")})
