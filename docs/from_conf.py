"""The reference of settings, made from the comments of conf/ when the pages are built.

A page says `<!-- conf: config -->` for conf/config.yaml, `<!-- conf: job -->` for a heading and the
settings of each file of conf/job/, and `<!-- conf: encoder task -->` for several such groups.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from elmo_bench.config.settings import JOBS, Run, types
from elmo_bench.config.types import may_be

CONF = Path(__file__).parents[1] / "conf"
MARK = re.compile(r"^<!-- conf: (.+) -->$", re.M)
LINE = re.compile(r"( *)(?:- )?([\w.@/-]+(?: [\w/]+)?): *(.*)")
HIDDEN = {"defaults", "hydra", "_target_", "_partial_", "_convert_", "_recursive_"}
HIDDEN |= {"downloads", "origin", "published", "override"}
HIDDEN_IN = {"task": ("data", "title", "suffix", "monitor_title"), "job": ("run_dir",)}
COMMAND = re.compile(r"python run\.py .+?(?=$|\. |; )")


class Setting(NamedTuple):
    key: str
    value: str
    comment: str


class Options(NamedTuple):
    """What a YAML file says: its first comment, and its settings."""

    about: list[str]
    settings: list[Setting]


def fill(app: Any, name: str, source: list[str]) -> None:
    """Sphinx calls this for each page before it is read."""
    if MARK.search(source[0]):
        source[0] = MARK.sub(lambda mark: "\n".join(text(mark[1].split())), source[0])


def text(groups: list[str]) -> Iterator[str]:
    """Markdown for conf/config.yaml or for groups of conf/."""
    for group in groups:
        if group == "config":
            yield from _config()
            continue
        yield f"\n## {group}\n" if len(groups) > 1 else ""
        for path in sorted(CONF.glob(f"{group}/*.yaml")):
            options = read(path.read_text(encoding="utf-8"))
            yield f"\n{'###' if len(groups) > 1 else '##'} `{group}={path.stem}`\n"
            yield from options.about
            prefix = "" if _is_global(path) or group == "job" else f"{group}."
            hints = types(JOBS.get(_job(path), Run))
            hidden = ("name", *HIDDEN_IN.get(group, ()))
            shown = [
                each
                for each in options.settings
                if each.key not in hidden and (each.comment or "${" not in each.value)
            ]
            yield from _listed([each._replace(key=prefix + each.key) for each in shown], hints)


def _config() -> Iterator[str]:
    content = (CONF / "config.yaml").read_text(encoding="utf-8")
    yield "\n## Groups\n"
    yield from _listed(read(content, "defaults").settings, {})
    parts: dict[str, list[Setting]] = {}
    for setting in read(content).settings:
        is_part = "." in setting.key or not setting.value
        parts.setdefault(setting.key.partition(".")[0] if is_part else "", []).append(setting)
    for part, settings in parts.items():
        yield f"\n## {part or 'General'}\n"
        yield from (_escaped(each.comment) for each in settings if each.key == part)
        yield from _listed([each for each in settings if each.key != part], types())


def _is_global(path: Path) -> bool:
    return "@package _global_" in path.read_text(encoding="utf-8")


def _job(path: Path) -> str:
    """The name of a job, under which `elmo_bench/config/settings.py` has its types."""
    name = re.search(r"^job:\n  name: (\w+)", path.read_text(encoding="utf-8"), re.M)
    return name[1] if name else ""


def read(content: str, part: str = "") -> Options:
    """The settings of a YAML file with their comments, those below `part` alone if it is given.

    A comment goes on in the lines below it that hold nothing else.
    """
    about: list[str] = []
    rows: list[Setting] = []
    above: list[tuple[int, str]] = []  # indentations and keys of the mappings that a line lies in
    is_first = True
    for line in content.splitlines():
        bare, comment = _parted(line)
        if not bare.strip():
            if comment and is_first and not comment.startswith("@package"):
                line = COMMAND.sub(lambda command: f"`{command[0]}`", comment)
                is_command = line.startswith("`python") and line.endswith("`")
                about.append(f"\n{line}\n" if is_command else _escaped(line))
            elif comment and rows and (not part or above[:1] == [(0, part)]):
                last = rows[-1]
                rows[-1] = last._replace(comment=f"{last.comment} {comment}".strip())
            continue
        is_first = False
        if not (match := LINE.fullmatch(bare)):
            continue
        indent, key, value = len(match[1]), match[2], match[3].strip()
        while above and above[-1][0] >= indent:
            above.pop()
        path = [name for _, name in above] + [key]
        above.append((indent, key))
        if part:
            if path[0] == part and len(path) == 2:
                name = key.removeprefix("optional ").removeprefix("override ")
                rows.append(Setting(name, value, comment))
        elif not HIDDEN & {*path} and (comment or (value and not value.startswith("{_target_"))):
            rows.append(Setting(".".join(path), value, comment))
    return Options(about, rows)


def _parted(line: str) -> tuple[str, str]:
    """What stands before a comment, and the comment."""
    bare, mark, comment = f" {line}".partition(" #")
    return bare.removeprefix(" ").rstrip(), comment.strip() if mark else ""


def _escaped(words: str) -> str:
    """Text as it stands, in Markdown, but for what has backticks already."""
    parts = re.split(r"(`[^`]+`)", re.sub(" +", " ", words))
    parts[::2] = [re.sub(r"([\\`*_<>\[\]$|~{}])", r"\\\1", part) for part in parts[::2]]
    return "".join(parts)


def _listed(settings: list[Setting], hints: dict[str, Any]) -> Iterator[str]:
    """A list of terms: a setting, its default, what it means and what it may be."""
    for key, value, comment in settings:
        yield f"\n`{key}`" + (f" = `` {value} ``" if value and value != "???" else "")
        said = [_escaped(comment)] if comment else []
        if value == "???":
            said.append("It has no default: give it.")
        if key in hints:
            said.append(f"*({_escaped(may_be(hints[key]))})*")
        yield f": {' '.join(said) or '–'}"
