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

from elmo_bench import COMMAND, CONF, INTERNAL
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
NO_OPTION = re.compile(r"Could not find '([^']+)'(?:\s+Available options in [^\n]+((?:\n\t.+)*))?")
# A key of a YAML, or a group in its defaults list.
ENTRY = re.compile(r"(?:  - (?:optional |override )*/?)?([\w/]+):")


def before(arguments: Sequence[str]) -> list[str]:
    """Return advice for arguments without a key, groups that are null, and unknown options."""
    for each in arguments:
        if "\r" in each:
            return [
                f"{plain(each)} has a carriage return: a script with Windows line ends; "
                "mend it with sed -i 's/\\r$//' SCRIPT"
            ]
    wrong = [f"{each} has no key: write KEY{each}" for each in arguments if each.startswith("=")]
    for each in arguments:
        group, _, chosen = each.lstrip("+").partition("=")
        if "null" in chosen.split(",") and group and (CONF / group).is_dir():
            wrong.append(f"{each}: in place of null, a group without an option has []: {group}=[]")
    wrong.extend(_unknown_dashed(arguments))
    return wrong


def _unknown_dashed(arguments: Sequence[str]) -> Iterator[str]:
    """Yield advice for each argument with two dashes that is no option of a command."""
    options = list(get_args_parser()._option_string_actions)
    options += ["--dry-run", "--download-only"]
    likely = [option for option in options if option != "--run"]  # which nobody needs
    for argument in dict.fromkeys(arguments):
        name = argument.partition("=")[0]
        if not argument.startswith("--") or any(option.startswith(name) for option in options):
            continue
        key = name.removeprefix("--")
        advice = f": {key}=VALUE" if _is_key(key) else _or_rather(name, likely)
        yield (
            f"{argument}: there is no such option; settings are KEY=VALUE, without dashes{advice}"
        )


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
    advice = _own_encoder(name) if group == "encoder" else ""
    if advice:
        return advice
    of_results = CONF.parent / "results" / "conf"  # in a clone
    if (of_results / group / f"{name}.yaml").is_file():
        return f"{group}={name} is of RESULTS.md: add --config-dir {of_results}"
    names = list(options)
    for path in sorted((CONF / group).glob("*/*.yaml")):
        if path.parent.name not in INTERNAL:
            names.append(path.relative_to(CONF / group).with_suffix("").as_posix())
    if group == "encoder":
        # roberta_base is another model of the hub, and no misspelt bert_base.
        is_misspelt = "bert_base".startswith(name) or bool(
            difflib.get_close_matches(name, ["bert_base"], cutoff=0.9)
        )
        likely = [each for each in names if each != "bert_base" or is_misspelt]
        near = _or_rather(name, likely, "encoder=")
        near = near or "; a model of the hub is encoder=transformer encoder.model=ID"
    else:
        near = _or_rather(name, names, f"{group}=")
    return f"{group}={name}, but it must be {listed(sorted(options) or names, 'or')}{near}"


def _own_encoder(name: str) -> str:
    """Return how to give what is a folder, a file, or may be a name on the hub, as an encoder."""
    path = Path(name).expanduser()
    if path.is_file():
        return (
            f"encoder={name} is no option of conf/encoder; vectors of a file are "
            f"encoder=static encoder.vectors={name}"
        )
    if path.is_dir() and any(path.glob("*options.json")):
        return (
            f"encoder={name} is no option of conf/encoder; a folder with a biLM is "
            f"encoder=files encoder.dir={name}"
        )
    if path.is_dir() or "-" in name or "/" in name:
        what = "a folder with a model" if path.is_dir() else "a model of the hub"
        return (
            f"encoder={name} is no option of conf/encoder; {what} is "
            f"encoder=transformer encoder.model={name}"
        )
    return ""


def help_of_job(name: str) -> str:
    """Return what a job does, and its settings with their comments, for `job=NAME --help`."""
    files = {path.stem: path.read_text(encoding="utf-8") for path in (CONF / "job").glob("*.yaml")}
    if name not in files:
        return unknown_option("job", name, files)
    own = files[name]
    about = [line[2:] for line in own.splitlines() if line.startswith("# ") and "@" not in line]
    settings = _settings(own)
    end = ["All other settings: python run.py job=train --help"]
    if name == "train":
        settings = _settings((CONF / "config.yaml").read_text(encoding="utf-8"))
        end = []
    for parent in re.findall(r"^  - (\w+)$", own, re.M):  # of the defaults list
        if parent in files:
            settings = _settings(files[parent]) | settings
    if "???" in str(settings):
        end.insert(0, "??? stands for a value that must be given.")
    lines = [f"job={name}"] + about + [""] + list(settings.values()) + [""] + end
    return "\n".join(lines).rstrip().replace("python run.py", shlex.join(COMMAND))


def _settings(text: str) -> dict[str, str]:
    """Return the lines of each setting of a YAML file, and of each option that has a comment."""
    lines: dict[str, str] = {}
    key = ""
    for line in text.splitlines():
        entry = ENTRY.match(line)
        if entry:
            is_hidden = entry[1] in ("hydra", "job", "defaults") and line.endswith(":")
            has_comment = " #" in line or line.endswith(":")
            key = entry[0] if has_comment and not is_hidden else ""
            indent = entry.start(1)
            if indent:
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
    if is_sweep:
        others.insert(0, "-m")
    return others


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
    >>> set_aside(["-m", "a.b=1", "a.b=1"], "a.b")
    ['-m', "++hydra.sweeper.params={a.b:'1'}"]
    """
    if "-m" not in arguments and "--multirun" not in arguments:
        return []
    places: list[int] = []
    for place, each in enumerate(arguments):
        if each.startswith(f"{key}="):
            places.append(place)
    if not places:
        return []
    last = places[-1]  # which decides, as for Hydra
    value = QuotedString(arguments[last].partition("=")[2], Quote.single).with_quotes()
    rewritten = list[str]()
    for place, each in enumerate(arguments):
        if place == last:
            rewritten.append(f"++hydra.sweeper.params={{{key}:{value}}}")
        elif place not in places:
            rewritten.append(each)
    return rewritten


def explain_errors() -> None:
    """Have Hydra end with our message, in a few lines, where a person can mend an error."""
    for module in REPORTERS:
        module.run_and_report = _reported  # type: ignore[attr-defined]


def _reported(work: Any) -> Any:
    """Do the work; what is `MENDABLE` ends with a message."""
    try:
        return work()
    except MENDABLE as error:
        rewritten = set_aside(sys.argv[1:], refused_key(error))
        if rewritten:
            raise SetAsideError(rewritten) from error
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        sys.exit(message(error, sys.argv[1:]))


def message(error: Exception, arguments: Sequence[str]) -> str:
    """Return what a person is told of an error of Hydra's, or of the system, for a command."""
    if isinstance(error, OverrideParseException):
        return _of_grammar(error.override, arguments)
    if isinstance(error, MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        if mark:
            return _of_yaml(error, mark)
    text = str(error).strip() or type(error).__name__  # Python's MemoryError says nothing
    several = SEVERAL.search(text)
    if several:
        return _of_several_values(several[1], is_plain_list=several[2] is not None)
    refused = refused_key(error)
    if refused:
        return _of_refused(refused, arguments)
    absent = NO_OPTION.search(text)
    if absent:
        return _of_absent(absent[1], (absent[2] or "").split(), arguments)
    text = text.partition("\nConfig search path")[0]
    return text.removeprefix("In 'config': ").strip()


def _of_yaml(error: MarkedYAMLError, mark: Any) -> str:
    """Return where a YAML of a user cannot be read, and why."""
    where = f"{mark.name}:{mark.line + 1}: column {mark.column + 1}"
    if "\\t" in str(error.problem):
        return f"{where}: a tab, but YAML takes no tabs: indent with spaces"
    return f"{where}: {error.problem or error.context}"


def _of_several_values(setting: str, *, is_plain_list: bool) -> str:
    """Return advice for KEY=a,b, or KEY=choice(a,b) and the like, in a command of one run."""
    key, _, value = setting.partition("=")
    message = f"{setting} has several values: add -m, which runs one after the other"
    if is_plain_list and not (CONF / key).is_dir():
        message += f"; a single list is {key}=[{value}]"
    return message


def _of_refused(key: str, arguments: Sequence[str]) -> str:
    """Return advice for a setting that the chosen options do not have, and what else is wrong."""
    values = dict(each.lstrip("+~").split("=", 1) for each in arguments if "=" in each)
    lines = [unknown_key(key, values.get(key) or "VALUE", _keys(arguments, key))]
    lines += _others([each for each in arguments if key_of(each) != key])
    return "\n".join(lines)


def _of_absent(path: str, options: Collection[str], arguments: Sequence[str]) -> str:
    """Return advice for GROUP/NAME, an option that its group does not have."""
    group = path.rpartition("/")[0]
    for each in arguments:
        key = each.lstrip("+~").partition("=")[0]
        if path.startswith(f"{key}/"):
            group = key
            break
    return unknown_option(group, path.removeprefix(f"{group}/"), options)


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
        words = _until_no_comma(arguments[arguments.index(override) :])
        if len(words) > 1:
            return (
                f"{' '.join(words)} has a space after the comma, where the shell parts it: "
                f"write {shlex.quote(''.join(words))}"
            )
    if not is_setting:
        settings = list[str]()
        for path in sorted(CONF.glob("*/*.yaml")):
            group = path.parent.name
            if path.stem == override:
                settings.append(f"{group}={override}")
        return f"{override} has no value: write {listed(settings or [f'{override}=VALUE'], 'or')}"
    inner = '"' if "'" not in value else "'"
    outer = "'" if inner == '"' else '"'
    return (
        f"{override} cannot be read: a list is [a,b], a mapping {{a:1,b:2}}, and a value with "
        "characters such as ~ ( ; é stands in quotation marks, which the shell must leave: "
        f"{outer}{key}={inner}{value}{inner}{outer}"
    )


def _until_no_comma(arguments: Sequence[str]) -> list[str]:
    """Return the first arguments, up to one that does not end in a comma.

    >>> _until_no_comma(["seed=1,", "2,", "3", "task=ner"])
    ['seed=1,', '2,', '3']
    """
    words = list[str]()
    for each in arguments:
        words.append(each)
        if not each.endswith(","):
            break
    return words


def no_cache(error: Exception, cfg: Any) -> str:
    """Return a clause on `cache_dir` if nothing can be written there, and an error is of that."""
    if not isinstance(error, OSError) or error.errno not in (EACCES, EPERM, EROFS):
        return ""
    cache = Path(cfg.cache_dir).expanduser().absolute()
    nearest_existing = next(each for each in (cache, *cache.parents) if each.exists())
    refused = Path(str(error.filename or "/")).absolute()
    is_of_cache = refused in (cache, *cache.parents[:-1]) or cache in refused.parents
    if os.access(nearest_existing, os.W_OK) and not is_of_cache:
        return ""
    return (
        f"; nothing can be written to cache_dir={cache}: set cache_dir=FOLDER, or for all commands "
        "the variable ELMO_BENCH_CACHE=FOLDER"
    )


def unknown_key(key: str, value: str, keys: Collection[str]) -> str:
    """Return advice for a key that is not among `keys`, and maybe one of a job or an option."""
    others = [each for each in keys if each != key]
    if "." not in key:
        others += [path.name for path in CONF.iterdir() if path.is_dir() and path.name != "hydra"]
    is_nested = any(each.endswith(f".{key}") for each in others)
    owners = [] if is_nested else list(_owners(key))
    if owners:
        return f"{key} is a setting of {' or '.join(owners[:3])}: add that to the command"
    near = nearest(key, others)
    advice = f"did you mean {near}={value}?" if near else "job=train --help describes all settings"
    return f"there is no setting {key}; {advice}"


def _owners(key: str) -> Iterator[str]:
    """Yield the jobs and options that have a key. If some options leave its value open, the others
    are left out.
    """
    from .schema import JOBS, keys  # slow to import

    for job, section in JOBS.items():
        of_job = keys(section) - keys()
        if any(below(each, (key,)) or below(key, (each,)) for each in of_job):
            yield f"job={job}"
    group, _, rest = key.partition(".")
    values: dict[str, Any] = {}
    for path in sorted((CONF / group).glob("*.yaml")):
        if path.stem == "none":
            continue
        node: Any = OmegaConf.to_container(OmegaConf.load(path))
        for name, value in leaves(node):
            if name == rest:
                values[f"{group}={path.stem}"] = value
    still_open = [option for option, value in values.items() if value in (None, "???")]
    yield from still_open or values


def _keys(arguments: Sequence[str], refused: str) -> list[str]:
    """Return the keys of the config with a command's groups, but for those of a sweep, which Hydra
    leaves out in MULTIRUN.
    """
    chosen = list[str]()
    for each in dict.fromkeys(arguments):
        key = each.lstrip("+~").partition("=")[0]
        if key != refused and (CONF / key).is_dir():
            chosen.append(each)
    loader = GlobalHydra.instance().config_loader()
    config = loader.load_configuration("config", chosen, RunMode.MULTIRUN)
    settings: Any = OmegaConf.to_container(config)
    return list(dict(leaves(settings)))


def nearest(key: str, keys: Collection[str]) -> str | None:
    """Return the setting that someone who writes `key` means; None if none is near.

    >>> nearest("batch_size", ["adapt.batch_size", "fit.batch_size", "seed"])
    'fit.batch_size'
    >>> nearest("task.dropuot", ["seed", "elmo.dropout"])
    'elmo.dropout'
    """
    is_of_hydra = key.startswith("hydra.")
    own, _, name = key.rpartition(".")
    candidates = list[str]()
    siblings = list[str]()  # names of the settings of the same section
    by_name: dict[str, list[str]] = {}
    for each in keys:
        is_hidden = "._" in each or each.startswith("tune.")
        if each.startswith("hydra.") != is_of_hydra or is_hidden:
            continue
        candidates.append(each)
        section, _, last = each.rpartition(".")
        by_name.setdefault(last, []).append(each)
        if own and section == own:
            siblings.append(last)

    def rank(other: str) -> tuple[bool, bool, int]:
        section = other.rpartition(".")[0]
        order = ORDER.index(section) if section in ORDER else len(ORDER)
        has_whole_key = "." in key and other.endswith(f".{key}")
        return section != own, not has_whole_key, order

    sibling = _closest(name, siblings)
    if sibling:
        return f"{own}.{sibling}"
    same_name = _closest(name if name in by_name else ELSEWHERE.get(name, name), by_name)
    if same_name:
        same = by_name[same_name] + by_name.get(ELSEWHERE.get(same_name, ""), [])
        return min(same, key=rank)
    return _closest(key, candidates)


def _closest(word: str, words: Collection[str]) -> str | None:
    matches = difflib.get_close_matches(word, words, n=1, cutoff=0.75)
    return matches[0] if matches else None
