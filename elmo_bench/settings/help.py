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
HIDDEN |= {"title", "monitor_title", "by_gold", "gold", "gold_without", "elmo", "optimizer"}
WIDTH, INDENT = 100, 36


def of_options(arguments: Sequence[str]) -> list[str]:
    """Return a section for the option of each group that a command chooses, or that is the default:
    its settings with their values and comments. Of several options, each has one.
    """
    given = dict(each.split("=", 1) for each in arguments if "=" in each)
    chosen = {group: value for group, value in given.items() if (CONF / group).is_dir()}
    chosen.pop("job", None)
    whole = {group: value.split(",") for group, value in chosen.items() if value[:1] != "["}
    single = {group: values[-1] for group, values in whole.items()}
    sections = dict[str, list[str]]()
    several = [single | {group: value} for group in GROUPS for value in whole.get(group, ())[:-1]]
    folders = _folders(arguments)
    for options in (*several, single):
        try:
            config = _composed(options, folders)
        except CompactHydraException as error:
            return ["", message(error, arguments)]
        content: Any = OmegaConf.to_container(config)
        choices = config.hydra.runtime.choices
        for group in GROUPS:
            title = f"{group}={choices.get(group)}"
            if isinstance(content.get(group), dict) and title not in sections:
                comments = _comments(group, str(choices[group]), folders)
                sections[title] = [*_section(group, content[group], comments)]
    order = sorted(sections, key=lambda title: GROUPS.index(title.partition("=")[0]))
    return [line for title in order if sections[title] for line in ("", title, *sections[title])]


def _folders(arguments: Sequence[str]) -> list[Path]:
    """Return the folders of options: ours, and those of --config-dir."""
    text = " ".join(arguments)
    return [CONF, *map(Path, re.findall(r"(?:--config-dir|-cd)[ =](\S+)", text))]


def _composed(options: dict[str, str], folders: Sequence[Path]) -> Any:
    own = [f"file://{folder.absolute()}" for folder in folders[1:]]
    path = [f"hydra.searchpath=[{','.join(own)}]"] if own else []
    with initialize_config_dir(str(CONF), **OF_VERSION):
        given = [f"{group}={value}" for group, value in options.items()]
        return compose("config", [*given, *path], return_hydra_config=True)


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
        yield from (f"{'':<{INDENT}}# {line}" for line in lines[1:])


def _comments(group: str, option: str, folders: Sequence[Path]) -> dict[str, str]:
    """Return the comments of an option's file and of those that its defaults list names, by key."""
    paths = [folder / group / f"{option}.yaml" for folder in folders]
    path = next(filter(Path.is_file, paths), None)
    if path is None:
        return {}
    text = path.read_text(encoding="utf-8")
    content: Any = OmegaConf.to_container(OmegaConf.load(path))
    comments = dict[str, str]()
    for entry in content.get("defaults", ()):
        if isinstance(entry, str) and entry != "_self_":
            other, _, name = f"{group}/{entry}".rpartition("/")
            comments |= _comments(other.partition("//")[2] or other, name, folders)
    prefix = "" if "@package _global_" in text else f"{group}."
    return comments | _of_lines(text.splitlines(), prefix)


def _of_lines(lines: Sequence[str], prefix: str) -> dict[str, str]:
    """Return the comment to the right of each key, with the lines below that continue it."""
    above: list[tuple[int, str]] = []  # indent and name of the keys that the line is below
    comments, key = dict[str, str](), ""
    for line in lines:
        if entry := KEY.match(line):
            indent, name, rest = len(entry[1]), entry[2], entry[3]
            above = [each for each in above if each[0] < indent]
            above.append((indent, name))
            key = prefix + ".".join(name for _, name in above)
            _, mark, comment = rest.rpartition(" # ") if " # " in rest else ("", "", "")
            if rest.startswith("# "):
                mark, comment = "#", rest[2:]
            if mark:
                comments[key] = comment.strip()
        elif key in comments and line.strip().startswith("# ") and line.startswith(" "):
            comments[key] += f" {line.strip()[2:]}"
        else:
            key = ""
    return comments
