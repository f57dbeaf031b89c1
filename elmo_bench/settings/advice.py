"""Advice on wrong commands, in place of Hydra's: its `+` makes a setting that nothing reads."""

import difflib
import os
import re
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from errno import EACCES, EPERM, EROFS
from pathlib import Path
from subprocess import CalledProcessError
from typing import Any

from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.types import Quote, QuotedString
from hydra.errors import CompactHydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import OmegaConf
from yaml import MarkedYAMLError

from elmo_bench import COMMAND, CONF
from elmo_bench.runs import below, key_of, leaves
from elmo_bench.terminal import listed, plain

from .hydra_private import REPORTERS, get_args_parser

# What a person can mend; any other exception is a defect, with a traceback.
MENDABLE = (
    *(ValueError, OSError, FloatingPointError, ImportError, MemoryError, CompactHydraException),
    CalledProcessError,  # of a command that has said why
    MarkedYAMLError,  # of a user's config
)

# What other programs call a setting or a group.
ELSEWHERE = {"epochs": "max_epochs", "learning_rate": "lr", "output_dir": "outputs_dir"}
ELSEWHERE |= {"dataset": "data", "model": "encoder", "layers": "mix"}
ELSEWHERE |= dict.fromkeys(("valid", "validation", "val"), "dev")
# Of several settings of one name, the one meant most often comes first.
ORDER = ("pretrain", "fit", "task.optimizer", "elmo", "vocab", "embed", "rnn", "task", "encoder")
REFUSED = re.compile(r"Could not (?:override|delete from config\.) '([^']+)'")
# Hydra has one text for a,b, and one for choice(a,b) and the like.
SEVERAL = re.compile(
    r"(?:Ambiguous value for argument|Sweep parameters) '(.+)'(?: requires --multirun|(\n|$))"
)
# Options of Hydra with which no run starts.
QUERIES = ("--cfg", "-c", "--info", "-i", "--shell-completion", "-sc", "--hydra-help")
NO_OPTION = re.compile(r"Could not find '([^']+)'\s+Available options in [^\n]+((?:\n\t.+)*)")
# A key of a YAML, or a group in its defaults list.
ENTRY = re.compile(r"(?:  - (?:optional |override )*/?)?([\w/]+):")


def before(arguments: Sequence[str]) -> list[str]:
    """Return advice for arguments without a key, groups that are null, and unknown options."""
    for each in arguments:
        if "\r" in each:
            said = f"{plain(each)} has a carriage return: a script with Windows line ends"
            return [f"{said}; mend it with sed -i 's/\\r$//' SCRIPT"]
    wrong = [f"{each} has no key: write KEY{each}" for each in arguments if each.startswith("=")]
    for each in arguments:
        group, _, chosen = each.lstrip("+").partition("=")
        if "null" in chosen.split(",") and group and (CONF / group).is_dir():
            wrong.append(f"{each}: in place of null, a group without an option has []: {group}=[]")
    options = [*get_args_parser()._option_string_actions, "--dry-run", "--download-only"]
    near = [each for each in options if each != "--run"]  # which nobody needs
    given = {each: each.partition("=")[0] for each in arguments if each.startswith("--")}
    return wrong + [
        f"{argument}: there is no such option; settings are KEY=VALUE, without dashes"
        f"{_or_rather(name, near) if not _is_key(name[2:]) else f': {name[2:]}=VALUE'}"
        for argument, name in given.items()
        if not any(option.startswith(name) for option in options)
    ]


def _is_key(name: str) -> bool:
    """Whether a word is a setting of some job, or a group of options."""
    from .schema import JOBS, keys  # slow to import

    return (CONF / name).is_dir() or any(name in keys(section) for section in JOBS.values())


def _or_rather(name: str, options: Collection[str], before: str = "") -> str:
    """Return a question about the nearest option; empty if none is near."""
    near = difflib.get_close_matches(name, options, n=1)
    return f"; did you mean {before}{near[0]}?" if near else ""


def unknown_option(group: str, name: str, options: Collection[str]) -> str:
    """Return advice for an option that a group does not have; it may mean one in a subfolder, or,
    in place of an encoder, a folder or a name on the hub.
    """
    if group == "encoder" and (advice := _own_encoder(name)):
        return advice
    files = [path.relative_to(CONF / group) for path in (CONF / group).glob("*/*.yaml")]
    near = _or_rather(name, [*options, *(f"{each.with_suffix('')}" for each in files)], f"{group}=")
    return f"{group}={name}, but it must be {listed(sorted(options), 'or')}{near}"


def _own_encoder(name: str) -> str:
    """Return how to give what is a folder, a file, or may be a name on the hub, as an encoder."""
    path = Path(name).expanduser()
    said = f"encoder={name} is no option of conf/encoder"
    if path.is_file():
        return f"{said}; vectors of a file are encoder=static encoder.vectors={name}"
    if path.is_dir() and [*path.glob("*options.json")]:
        return f"{said}; a folder with a biLM is encoder=files encoder.dir={name}"
    if path.is_dir() or "-" in name or "/" in name:
        what = "a folder with a model" if path.is_dir() else "a model of the hub"
        return f"{said}; {what} is encoder=transformer encoder.model={name}"
    return ""


def help_of_job(name: str) -> str:
    """Return what a job does, and its settings with their comments, for `job=NAME --help`."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in (CONF / "job").glob("*.yaml")}
    if name not in files:
        return unknown_option("job", name, files)
    own = files[name]
    about = [line[2:] for line in own.splitlines() if line.startswith("# ") and "@" not in line]
    settings, end = _settings(own), ["All other settings: python run.py job=train --help"]
    if name == "train":
        settings, end = _settings((CONF / "config.yaml").read_text(encoding="utf-8")), []
    for parent in files.keys() & {*re.findall(r"^  - (\w+)$", own, re.M)}:
        settings = _settings(files[parent]) | settings
    if "???" in str(settings):
        end.insert(0, "??? stands for a value that must be given.")
    text = "\n".join([f"job={name}", *about, "", *settings.values(), "", *end]).rstrip()
    return text.replace("python run.py", shlex.join(COMMAND))


def _settings(text: str) -> dict[str, str]:
    """Return the lines of each setting of a YAML file, and of each option that has a comment."""
    lines: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        if entry := ENTRY.match(line):
            is_hidden = entry[1] in ("hydra", "job", "defaults") and line.endswith(":")
            key = "" if is_hidden or not (" #" in line or line.endswith(":")) else entry[0]
            if indent := entry.start(1):
                option, _, comment = line[indent:].partition("#")
                line = f"{option.rstrip():<27} #{comment}"
        elif line.startswith("#"):
            key = ""
        if key and line and not line.lstrip().startswith("_"):
            lines[key] = f"{lines[key]}\n{line}" if key in lines else line
    return lines


def as_sweep(arguments: Sequence[str]) -> list[str]:
    """Return a command's arguments, with -m in front if it is a sweep. argparse has the option only
    before or after all settings; and `job=card` and the options of `sweep` make a command a sweep,
    by `hydra.mode`, which Hydra 1.4 reads only from the command line.

    >>> as_sweep(["seed=1,2", "-m"]), as_sweep(["sweep=seeds"]), as_sweep(["sweep=[]"])
    (['-m', 'seed=1,2'], ['-m', 'sweep=seeds'], ['sweep=[]'])
    """
    others = [each for each in arguments if each not in ("-m", "--multirun")]
    is_query = any(each.partition("=")[0] in QUERIES for each in arguments)
    sweeps = [each.partition("=")[2] for each in others if each.startswith("sweep=")]
    has_sweep = bool(sweeps) and sweeps[-1] not in ("", "[]", "null")
    has_mode = any(each.lstrip("+").startswith("hydra.mode=") for each in others)
    is_sweep = len(others) < len(arguments)
    if (has_sweep or "job=card" in others) and not (is_query or has_mode):
        is_sweep = True
    return ["-m", *others] if is_sweep else others


class SetAsideError(Exception):
    """A sweep's command, rewritten: Hydra first composes it without the swept options, to which a
    setting may belong; now the sweeper gets this setting.
    """

    def __init__(self, arguments: list[str]) -> None:
        super().__init__(*arguments)
        self.arguments = arguments


def refused_key(error: Exception) -> str:
    """Return the key of a setting that the chosen options do not have; empty for other errors."""
    refused = REFUSED.search(str(error))
    return refused[1] if refused else ""


def set_aside(arguments: Sequence[str], key: str) -> list[str]:
    """Return a sweep's arguments with the setting `key` as one of the sweeper's own; empty if no
    argument sets it, or the command is not a sweep.

    >>> set_aside(["-m", "encoder=none,files", "encoder.dir=a b", "seed=1"], "encoder.dir")
    ['-m', 'encoder=none,files', "++hydra.sweeper.params={encoder.dir:'a b'}", 'seed=1']
    """
    if not ({"-m", "--multirun"} & {*arguments}):
        return []
    moved = [each for each in arguments if each.partition("=")[0] == key and "=" in each]
    if not moved:
        return []
    value = QuotedString(moved[-1].partition("=")[2], Quote.single).with_quotes()
    own = f"++hydra.sweeper.params={{{key}:{value}}}"
    return [own if each == moved[-1] else each for each in arguments if each not in moved[:-1]]


def explain_errors() -> None:
    """Have Hydra end with our message, in a few lines, where a person can mend an error."""
    for module in REPORTERS:
        module.run_and_report = _reported  # type: ignore[attr-defined]


def _reported(work: Any) -> Any:
    """Do the work; what is `MENDABLE` ends with a message."""
    try:
        return work()
    except MENDABLE as error:
        if rewritten := set_aside(sys.argv[1:], refused_key(error)):
            raise SetAsideError(rewritten) from error
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        sys.exit(message(error, sys.argv[1:]))


def message(error: Exception, arguments: Sequence[str]) -> str:
    """Return what a person is told of an error of Hydra's, or of the system, for a command."""
    said = str(error).strip() or type(error).__name__  # Python's MemoryError says nothing
    if isinstance(error, OverrideParseException):
        return _of_grammar(error.override, arguments)
    if isinstance(error, MarkedYAMLError) and (mark := error.problem_mark or error.context_mark):
        where = f"{mark.name}:{mark.line + 1}: column {mark.column + 1}"
        if "\\t" in str(error.problem):
            return f"{where}: a tab, but YAML takes no tabs: indent with spaces"
        return f"{where}: {error.problem or error.context}"
    if several := SEVERAL.search(said):
        key, _, value = several[1].partition("=")
        said = f"{several[1]} has several values: add -m, which runs one after the other"
        is_list_of_values = several[2] is not None and not (CONF / key).is_dir()
        return f"{said}; a single list is {key}=[{value}]" if is_list_of_values else said
    if refused := refused_key(error):
        given = dict(each.lstrip("+~").split("=", 1) for each in arguments if "=" in each)
        lines = [unknown_key(refused, given.get(refused) or "VALUE", _keys(arguments, refused))]
        rest = [each for each in arguments if key_of(each) != refused]
        return "\n".join([*lines, *_others(rest)])
    if absent := NO_OPTION.search(said):
        path = absent[1]
        keys = [each.lstrip("+~").partition("=")[0] for each in arguments]
        group = next((key for key in keys if path.startswith(f"{key}/")), path.rpartition("/")[0])
        return unknown_option(group, path[len(group) + 1 :], absent[2].split())
    said = said.partition("\nConfig search path")[0]
    return said.removeprefix("In 'config': ").strip()


def _others(arguments: Sequence[str]) -> list[str]:
    """Return what else is wrong with a command, one of whose settings was refused."""
    from .check import faults  # which imports this

    own = [each for each in arguments if not each.startswith("-")]
    try:
        loader = GlobalHydra.instance().config_loader()
        return faults(loader.load_configuration("config", own, RunMode.RUN))
    except CompactHydraException as error:
        is_refused = bool(refused_key(error))
        return message(error, own).splitlines() if is_refused else []


def _of_grammar(override: str, arguments: Sequence[str] = ()) -> str:
    """Return advice for an argument that Hydra's grammar does not have."""
    key, is_setting, value = override.partition("=")
    if is_setting and override.endswith(",") and override in arguments:
        parts = list[str]()
        for each in arguments[arguments.index(override) :]:
            parts.append(each)
            if not each.endswith(","):
                break
        if len(parts) > 1:
            said = f"{' '.join(parts)} has a space after the comma, where the shell parts it"
            return f"{said}: write {shlex.quote(''.join(parts))}"
    if not is_setting:
        groups = sorted(path.parent.name for path in CONF.glob("*/*.yaml") if path.stem == override)
        options = [f"{group}={override}" for group in groups if group != "tune"]
        return f"{override} has no value: write {listed(options or [f'{override}=VALUE'], 'or')}"
    quotes = ('"', "'") if "'" not in value else ("'", '"')
    quoted = f"{quotes[1]}{key}={quotes[0]}{value}{quotes[0]}{quotes[1]}"
    return (
        f"{override} cannot be read: a list is [a,b], a mapping {{a:1,b:2}}, and a value with "
        "characters such as ~ ( ; é stands in quotation marks, which the shell must leave: "
        f"{quoted}"
    )


def no_cache(error: Exception, cfg: Any) -> str:
    """Return a clause on `cache_dir` if nothing can be written there, and an error is of that."""
    if not isinstance(error, OSError) or error.errno not in (EACCES, EPERM, EROFS):
        return ""
    cache = Path(cfg.cache_dir).expanduser().absolute()
    there = next(each for each in (cache, *cache.parents) if each.exists())
    refused = Path(str(error.filename or "/")).absolute()
    is_of_cache = refused in (cache, *cache.parents[:-1]) or cache in refused.parents
    if os.access(there, os.W_OK) and not is_of_cache:
        return ""
    return (
        f"; nothing can be written to cache_dir={cache}: set cache_dir=FOLDER, or for all commands "
        "the variable ELMO_BENCH_CACHE=FOLDER"
    )


def unknown_key(key: str, value: str, known: Collection[str]) -> str:
    """Return advice for a key that is none of those known, and maybe one of a job or an option."""
    known = [each for each in known if each != key]
    if "." not in key:
        known += [path.name for path in CONF.iterdir() if path.is_dir() and path.name != "hydra"]
    is_nested = any(each.endswith(f".{key}") for each in known)
    if not is_nested and (places := [*_places(key)]):
        return f"{key} is a setting of {' or '.join(places[:3])}: add that to the command"
    near = nearest(key, known)
    advice = f"did you mean {near}={value}?" if near else "job=train --help describes all settings"
    return f"there is no setting {key}; {advice}"


def _places(key: str) -> Iterator[str]:
    """Yield the jobs and options that have a key; first the options that leave its value open."""
    from .schema import JOBS, keys  # slow to import

    for job, section in JOBS.items():
        if any(below(each, (key,)) or below(key, (each,)) for each in keys(section) - keys()):
            yield f"job={job}"
    group, _, rest = key.partition(".")
    values: dict[str, Any] = {}
    for path in sorted({*(CONF / group).glob("*.yaml")} - {CONF / group / "none.yaml"}):
        node: Any = OmegaConf.to_container(OmegaConf.load(path))
        values |= {f"{group}={path.stem}": each for name, each in leaves(node) if name == rest}
    yield from ([name for name, each in values.items() if each in (None, "???")] or values)


def _keys(arguments: Sequence[str], refused: str) -> list[str]:
    """Return the keys of the config with a command's groups, but for those of a sweep, which Hydra
    leaves out in MULTIRUN.
    """
    groups = {each: each.lstrip("+~").partition("=")[0] for each in arguments}
    chosen = [each for each, key in groups.items() if key != refused and (CONF / key).is_dir()]
    loader = GlobalHydra.instance().config_loader()
    config = loader.load_configuration("config", chosen, RunMode.MULTIRUN)
    settings: Any = OmegaConf.to_container(config)
    return [key for key, _ in leaves(settings)]


def nearest(key: str, known: Collection[str]) -> str | None:
    """Return the setting that someone who writes `key` means; None if none is near.

    >>> nearest("batch_size", ["adapt.batch_size", "fit.batch_size", "seed"])
    'fit.batch_size'
    >>> nearest("task.dropuot", ["seed", "elmo.dropout"])
    'elmo.dropout'
    """
    of_hydra = key.startswith("hydra.")
    known = [each for each in known if each.startswith("hydra.") == of_hydra]
    known = [each for each in known if "._" not in each and not each.startswith("tune.")]
    by_name: dict[str, list[str]] = {}
    for each in known:
        by_name.setdefault(each.rpartition(".")[2], []).append(each)

    own, _, name = key.rpartition(".")

    def rank(other: str) -> tuple[bool, bool, int]:
        section = other.rpartition(".")[0]
        place = ORDER.index(section) if section in ORDER else len(ORDER)
        return section != own, not ("." in key and other.endswith(f".{key}")), place

    siblings = [each.rpartition(".")[2] for each in known if own and each.rpartition(".")[0] == own]
    if beside := difflib.get_close_matches(name, siblings, n=1, cutoff=0.75):
        return f"{own}.{beside[0]}"
    name = name if name in by_name else ELSEWHERE.get(name, name)
    if near := difflib.get_close_matches(name, by_name, n=1, cutoff=0.75):
        same = by_name[near[0]] + by_name.get(ELSEWHERE.get(near[0], ""), [])
        return min(same, key=rank)
    return next(iter(difflib.get_close_matches(key, known, n=1, cutoff=0.75)), None)
