"""Write the reference of settings and of the Python API into the pages of docs/: `make reference`.

What stands between a mark and `<!-- end -->` is made from comments of conf/ and from docstrings:

    <!-- conf: config -->           conf/config.yaml
    <!-- conf: job -->              a heading and the settings of each file of conf/job/
    <!-- conf: encoder task -->     of several groups: a line for each file
    <!-- api: elmo_bench.encode --> signatures and docstrings, by dotted names

`--check` writes nothing, and fails if a page is not up to date.
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from pydoc import locate
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from elmo_bench import INTERNAL
from elmo_bench.bounds import Number
from elmo_bench.settings.schema import JOBS, Run, Section
from elmo_bench.settings.types import shown as written

DOCS = Path(__file__).parent
CONF = DOCS.parent / "conf"
BLOCK = re.compile(r"^(<!-- (conf|api): ([^>]+) -->)$.*?^(<!-- end -->)$", re.M | re.S)
LINE = re.compile(r"( *)(?:- )?([\w.@/-]+(?: [\w/]+)?): *(.*)")
HIDDEN = {"defaults", "hydra", "_target_", "_partial_", "_convert_", "_recursive_"}
HIDDEN |= {"downloads", "origin", "published", "override"}
HIDDEN_IN = {"task": ("data", "title", "suffix", "monitor_title"), "job": ("run_dir", "job.name")}
COMMAND = re.compile(r"python run\.py .+?(?=$|\. |; )")
SECTION = re.compile(r"(Args|Returns|Yields|Raises):")


def main(check: bool) -> None:
    """Write, or check, the marked blocks of each page."""
    for path in sorted(DOCS.glob("*.md")):
        old = path.read_text(encoding="utf-8")
        if (new := filled(old)) == old:
            continue
        if check:
            sys.exit(f"docs/{path.name} is not up to date: run `make reference`")
        path.write_text(new, encoding="utf-8")


def filled(page: str) -> str:
    """Return a page with its marked blocks made again."""

    def made(mark: re.Match[str]) -> str:
        maker = conf if mark[2] == "conf" else api
        lines = "\n".join(maker(mark[3].split())).strip("\n")
        return "\n\n".join((mark[1], re.sub(r"\n{3,}", "\n\n", lines), mark[4]))

    return BLOCK.sub(made, page)


def api(names: list[str]) -> Iterator[str]:
    """Markdown for functions, classes and methods, by their dotted names."""
    for name in names:
        thing: Any = locate(name)
        source = textwrap.dedent(inspect.getsource(thing))
        (node,) = ast.parse(source).body
        yield f"\n### `{name}`\n"
        yield from ("```python", *_signature(node, source.splitlines()), "```\n")
        yield from _documented(inspect.getdoc(thing) or "")


def _signature(node: Any, lines: list[str]) -> Iterator[str]:
    """The lines of a function's head, or of a class, its fields and the head of its `__init__`."""
    yield from lines[node.lineno - 1 : node.body[0].lineno - 1]
    for part in node.body if isinstance(node, ast.ClassDef) else ():
        if isinstance(part, ast.AnnAssign):
            yield from lines[part.lineno - 1 : part.end_lineno]
        elif isinstance(part, ast.FunctionDef) and part.name == "__init__":
            yield from lines[part.lineno - 1 : part.body[0].lineno - 1]


def _documented(doc: str) -> Iterator[str]:
    """A docstring as Markdown: examples become code, `Args:` and the like lists."""
    for block in doc.split("\n\n"):
        first, _, rest = block.partition("\n")
        if block.startswith((">>>", "    ")):
            yield f"```python\n{textwrap.dedent(block)}\n```\n"
        elif SECTION.fullmatch(first):
            entries = textwrap.dedent(rest)
            if first != "Returns:":
                entries = re.sub(r"^(\S+): ", r"- `\1`: ", entries, flags=re.M)
            yield f"{first}\n\n{entries}\n"
        else:
            yield f"{block.replace('::', ':')}\n"


class Setting(NamedTuple):
    key: str
    value: str
    comment: str


class Options(NamedTuple):
    """What a YAML file says: its first comment, and its settings."""

    about: list[str]
    settings: list[Setting]


def conf(groups: list[str]) -> Iterator[str]:
    """Markdown for conf/config.yaml or for groups of conf/."""
    if groups == ["config"]:
        yield from _config()
    elif len(groups) == 1:
        for path in sorted(CONF.glob(f"{groups[0]}/*.yaml")):
            yield from _settings_of(path, groups[0])
    else:
        for group in groups:
            yield f"\n## {group}\n"
            for path in sorted((CONF / group).rglob("*.yaml")):
                relative = path.relative_to(CONF / group)
                if not INTERNAL.isdisjoint(relative.parent.parts):
                    continue
                option = relative.with_suffix("").as_posix()
                about = " ".join(read(path.read_text(encoding="utf-8")).about)
                link = f"[`{group}={option}`](../conf/{group}/{option}.yaml)"
                if about:
                    yield f"- {link}: {' '.join(about.split())}"


def _settings_of(path: Path, group: str) -> Iterator[str]:
    """A heading, what an option is, and its settings."""
    options = read(path.read_text(encoding="utf-8"))
    yield f"\n## `{group}={path.stem}`\n"
    yield from (*options.about, "")
    prefix = "" if _is_global(path) or group == "job" else f"{group}."
    hints = types(JOBS.get(_job(path), Run))
    hidden = ("name", *HIDDEN_IN.get(group, ()))
    shown = []
    for setting in options.settings:
        if setting.key not in hidden and (setting.comment or "${" not in setting.value):
            shown.append(setting._replace(key=prefix + setting.key))
    yield from _listed(shown, hints)


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
    """The name of a job, under which `elmo_bench.settings.schema.py` has its types."""
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
    """A list: a setting, its default, what it means and what it may be."""
    for key, value, comment in settings:
        default = f" = `{value}`" if value and value != "???" else ""
        said = [_escaped(comment)] if comment else []
        if value == "???":
            said.append("It has no default: give it.")
        if key in hints and hints[key] is not Any:
            said.append(f"*({_escaped(may_be(hints[key]))})*")
        yield f"- `{key}`{default}{':' if said else ''} {' '.join(said)}".rstrip()


@cache
def types(section: type[Section] = Run) -> dict[str, Any]:
    """Return the type of each setting of a section and of those below it, by its dotted key."""
    return dict(_types(section))


def _types(section: type[Section], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, hint in get_type_hints(section, include_extras=True).items():
        if is_section(hint := without_null(hint)):
            yield from _types(hint, f"{prefix}{name}.")
        elif name in section.model_fields:
            yield f"{prefix}{name}", hint


def without_null(hint: Any) -> Any:
    """Return the section, or the sections by name, of a setting that may also be null; any other
    type as it is.
    """
    first, *_ = *get_args(hint), None
    is_union = get_origin(hint) in (Union, UnionType)
    return first if is_union and (is_section(first) or get_origin(first) is dict) else hint


def is_section(hint: Any) -> bool:
    return isinstance(hint, type) and issubclass(hint, Section)


def may_be(hint: Any) -> str:
    """Describe the valid values of a type in words.

    >>> from elmo_bench.bounds import Dropout
    >>> may_be(Dropout | None), may_be(bool | Literal["auto"]), may_be(list[Number])
    ('a number from 0 to less than 1 or null', 'true, false or auto', 'a list of numbers')
    """
    *others, last = _alternatives(hint)
    comma = "," if any("," in each for each in others) else ""
    return f"{', '.join(others)}{comma} or {last}" if others else last


def _alternatives(hint: Any) -> list[str]:
    """Return the alternatives of a type."""
    if hint in NAMES:
        return NAMES[hint]
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return [words for part in arguments for words in _alternatives(part)]
    if origin is Literal:
        return [written(value) for value in arguments]
    if origin is Annotated:
        base, *metadata = arguments
        if said := [text for text in metadata if isinstance(text, str)]:
            return said
        return [_range(_alternatives(base)[0], metadata)]
    if origin is dict or (isinstance(hint, type) and issubclass(hint, BaseModel)):
        return NAMES[dict]
    if origin is not None and arguments:  # lists and other sequences
        return [f"a list of {_plural(may_be(arguments[0]))}"]
    return [getattr(hint, "__name__", str(hint))]


NAMES: dict[Any, list[str]] = {
    int: ["an integer"],
    float: ["a number"],
    Number: ["a number"],
    bool: ["true", "false"],
    str: ["a string"],
    Path: ["a path"],
    type(None): ["null"],
    None: ["null"],
    dict: ["{KEY:VALUE}"],
    list: ["a list"],
}


def _range(kind: str, bounds: Collection[Any]) -> str:
    """Describe a kind of number with its bounds; the length of a list is not mentioned."""
    names = ("ge", "gt", "le", "lt")
    given = {name: getattr(each, name) for each in bounds for name in names if hasattr(each, name)}
    match given:
        case {"ge": low, "lt": high}:
            return f"{kind} from {low} to less than {high}"
        case {"ge": low, "le": high}:
            return f"{kind} from {low} to {high}"
        case {"gt": low, "le": high}:
            return f"{kind} greater than {low} and at most {high}"
        case {"gt": low, "lt": high}:
            return f"{kind} greater than {low} and less than {high}"
        case {"ge": low}:
            return f"{kind}, {low} or more"
        case {"gt": low}:
            return f"{kind} greater than {low}"
    return kind


def _plural(words: str) -> str:
    for one in ("an integer", "a number", "a string", "a file", "a folder"):
        words = words.replace(one, f"{one.partition(' ')[2]}s")
    return words


if __name__ == "__main__":
    main(check="--check" in sys.argv)
