"""The settings of the chosen options, for `job=train task=classify encoder=transformer --help`."""

import re
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.errors import CompactHydraException
from omegaconf import OmegaConf

from elmo_bench import CONF
from elmo_bench.runs import leaves

from .advice import message
from .hydra_private import OF_VERSION
from .types import shown

GROUPS = ("task", "data", "encoder", "finetune", "embed", "rnn", "schedule", "trainer")
KEY = re.compile(r"( *)([\w.-]+): *(.*)")
# What describes an option, or is for other options to refer to.
HIDDEN = {"downloads", "origin", "note", "tasks", "read", "published", "data", "suffix"}
HIDDEN |= {"title", "monitor_title", "by_gold", "gold", "gold_without", "esim", "optimizer"}
WIDTH = 100
INDENT = 36


def of_options(arguments: Sequence[str]) -> list[str]:
    """Return a section for the option of each group that a command chooses, or that is the default:
    its settings with their values and comments. Of several options, each has one.
    """
    given = dict(each.split("=", 1) for each in arguments if "=" in each)
    values: dict[str, list[str]] = {}  # the chosen options of each group
    for group, value in given.items():
        if group != "job" and (CONF / group).is_dir() and not value.startswith("["):
            values[group] = value.split(",")
    last = {group: options[-1] for group, options in values.items()}
    commands = list[dict[str, str]]()  # one for each option but the last; then the last of all
    for group in GROUPS:
        commands += [last | {group: option} for option in values.get(group, ())[:-1]]
    commands.append(last)
    folders = _folders(arguments)
    sections = dict[str, list[str]]()
    for options in commands:
        try:
            config = _composed(options, folders)
        except CompactHydraException as error:
            return ["", message(error, arguments)]
        content: Any = OmegaConf.to_container(config)
        choices = config.hydra.runtime.choices
        for group in GROUPS:
            title = f"{group}={choices.get(group)}"
            if isinstance(content.get(group), dict) and title not in sections:
                option = str(choices[group])
                comments = _comments(group, option, folders)
                sections[title] = list(_section(group, content[group], comments))
                if group == "task":
                    sections[title] += _of_other_sections(option, content, comments, folders)
    lines = list[str]()
    for title in sorted(sections, key=lambda title: GROUPS.index(title.partition("=")[0])):
        if sections[title]:
            lines += ["", title]
            lines += sections[title]
    return lines


def _folders(arguments: Sequence[str]) -> list[Path]:
    """Return the folders of options: ours, and those of --config-dir."""
    text = " ".join(arguments)
    folders = [CONF]
    for folder in re.findall(r"(?:--config-dir|-cd)[ =](\S+)", text):
        folders.append(Path(folder))
    return folders


def _composed(options: dict[str, str], folders: Sequence[Path]) -> Any:
    """Return the config of a command with these options of groups."""
    settings = [f"{group}={option}" for group, option in options.items()]
    if len(folders) > 1:
        addresses = ",".join(f"file://{folder.absolute()}" for folder in folders[1:])
        settings.append(f"hydra.searchpath=[{addresses}]")
    with initialize_config_dir(str(CONF), **OF_VERSION):
        return compose("config", settings, return_hydra_config=True)


def _section(group: str, node: dict[str, Any], comments: dict[str, str]) -> Iterator[str]:
    """Yield a line, or several, for each setting."""
    for key, value in leaves(node, f"{group}."):
        parts = key.split(".")[1:]
        is_hidden = any(part.startswith("_") or part in HIDDEN for part in parts[:-1])
        is_hidden = is_hidden or parts[-1].startswith("_") or parts[-1] in HIDDEN
        is_name = parts == ["name"] and group != "data"
        comment = comments.get(key, "")
        is_reference = not comment and "${" in str(value)  # another setting changes it
        is_own = group not in ("task", "encoder") or comment or "model" in parts[:-1]
        if is_hidden or is_name or is_reference or not is_own:
            continue
        setting = f"{key}={shown(value)}"
        if not comment:
            yield setting
            continue
        if len(setting) >= INDENT:
            yield setting
            setting = ""
        lines = textwrap.wrap(comment, WIDTH - INDENT - 2, break_on_hyphens=False)
        yield f"{setting:<{INDENT}}# {lines[0]}"
        for line in lines[1:]:
            yield f"{'':<{INDENT}}# {line}"


def _of_other_sections(
    task: str, content: dict[str, Any], comments: dict[str, str], folders: Sequence[Path]
) -> Iterator[str]:
    """Yield a line, or several, for each setting of `fit` and `elmo` that a task's file has."""
    path = _file("task", task, folders)
    of_file: Any = OmegaConf.to_container(OmegaConf.load(path)) if path else {}
    for section in ("fit", "elmo"):
        values = {key: content[section][key] for key in of_file.get(section, {})}
        yield from _section(section, values, comments)


def _comments(
    group: str, option: str, folders: Sequence[Path], package: str = ""
) -> dict[str, str]:
    """Return the comments of an option's file and of those that its defaults list names, by key;
    `package` is the section of its settings if that is not the group.
    """
    path = _file(group, option, folders)
    if path is None:
        return {}
    text = path.read_text(encoding="utf-8")
    content: Any = OmegaConf.to_container(OmegaConf.load(path))
    comments = dict[str, str]()
    for entry in content.get("defaults", ()):
        if isinstance(entry, str) and entry != "_self_":
            included, _, place = entry.partition("@")
            other, _, name = f"{group}/{included}".rpartition("/")
            here = group if place == "_here_" else ""
            comments |= _comments(other.partition("//")[2] or other, name, folders, here)
    prefix = "" if "@package _global_" in text else f"{package or group}."
    return comments | _of_lines(text.splitlines(), prefix)


def _file(group: str, option: str, folders: Sequence[Path]) -> Path | None:
    """Return the file of an option; None if it is in none of the folders."""
    for folder in folders:
        path = folder / group / f"{option}.yaml"
        if path.is_file():
            return path
    return None


def _of_lines(lines: Sequence[str], prefix: str) -> dict[str, str]:
    """Return the comment to the right of each key, with the lines below that continue it."""
    above: list[tuple[int, str]] = []  # indent and name of the keys that the line is below
    comments = dict[str, str]()
    key = ""
    for line in lines:
        entry = KEY.match(line)
        if entry:
            spaces, name, rest = entry.groups()
            indent = len(spaces)
            above = [each for each in above if each[0] < indent]
            above.append((indent, name))
            key = prefix + ".".join(name for _, name in above)
            if rest.startswith("# "):
                comments[key] = rest[2:].strip()
            elif " # " in rest:
                comments[key] = rest.rpartition(" # ")[2].strip()
        elif key in comments and line.strip().startswith("# ") and line.startswith(" "):
            comments[key] += f" {line.strip()[2:]}"
        else:
            key = ""
    return comments
