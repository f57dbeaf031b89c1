"""Advice on commands that Hydra refuses, in place of Hydra's: a `+` makes a setting that nothing
reads.
"""

import difflib
import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from typing import Any

from hydra._internal import hydra as hydras_own
from hydra._internal import utils
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import CompactHydraException, OverrideParseException
from hydra.types import RunMode
from omegaconf import OmegaConf

from elmo_bench import CONF
from elmo_bench.runs import leaves

# What other programs call a setting of a run.
ELSEWHERE = {
    "epochs": "fit.max_epochs",
    "learning_rate": "task.optimizer.lr",
    "lr": "task.optimizer.lr",
    "output_dir": "outputs_dir",
    "layers": "elmo.mix",
}
# Settings of version 0.2, and what to write instead; {} is the value.
RENAMED = {
    "results": "experiment={}",
    "job=keep": "job=archive",
    "elmo.finetune": "finetune=full",
    "elmo.lr": "finetune.lr={}",
    "elmo.lr_decay": "finetune.lr_decay={}",
    "elmo.unfreeze": "finetune={}",
    "elmo.lora": "finetune=lora finetune.rank={}",
    "elmo.cache": "store.mode={}",
    "elmo.cache_dtype": "store.dtype={}",
    "cache.max_bytes": "store.max_bytes={}",
}
# Of several settings of one name, the one meant most often comes first.
ORDER = ("pretrain", "fit", "task.optimizer", "elmo", "vocab", "embed", "rnn", "task", "encoder")
OPTIONS: Sequence[str] = (
    *("cfg", "config-dir", "config-name", "config-path", "dry-run", "experimental-rerun", "help"),
    *("hydra-help", "info", "multirun", "package", "resolve", "run", "shell-completion", "version"),
)
REFUSED = re.compile(r"Could not (?:override|delete from config\.) '([^']+)'")


def before(arguments: Sequence[str]) -> list[str]:
    """Return advice for arguments without a key and for unknown options."""
    no_key = [each for each in arguments if each.startswith("=")]
    advice = [f"{each} has no key: write KEY=VALUE" for each in no_key]
    for argument in arguments:
        name, _, value = argument.removeprefix("--").partition("=")
        if argument.startswith("--") and not any(option.startswith(name) for option in OPTIONS):
            from .settings import types  # slow to import

            close = difflib.get_close_matches(name, OPTIONS, n=1, cutoff=0.8)
            near = nearest(name.replace("-", "_"), types())
            example = f": {near}={value or 'VALUE'}" if near else "; --help says how to list them"
            advice.append(
                f"{argument}: did you mean --{close[0]}?"
                if close
                else f"{argument}: settings are KEY=VALUE, without dashes{example}"
            )
    return advice


def settings_of_job(name: str) -> str:
    """Return what conf/job says of a job and of its settings, for `job=NAME --help`."""
    path = CONF / "job" / f"{name}.yaml"
    if not path.is_file():
        names = ", ".join(sorted(each.stem for each in path.parent.glob("*.yaml")))
        return f"job={name}, but it must be one of {names}"
    section, lines = "", []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith((" ", "#")):
            section = line.partition(":")[0]
        if section not in ("defaults", "job", "run_dir", "hydra") and "@package" not in line:
            lines.append(line)
    if not section or not any(line[:1].isalpha() for line in lines):
        lines.append("It has no settings of its own; --help lists those of all jobs.")
    return "\n".join(lines)


def explain_errors() -> None:
    """Have Hydra end with our message, in a few lines, where a person can mend an error."""
    for module in (utils, hydras_own):
        module.run_and_report = _reported  # type: ignore[assignment, attr-defined]


def _reported(work: Any) -> Any:
    """Do the work. Ends with a message for a wrong command and for a file or folder that cannot be
    written; any other exception is a defect, with a traceback.
    """
    try:
        return work()
    except (CompactHydraException, OSError) as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        sys.exit(message(error, sys.argv[1:]))


def message(error: Exception, arguments: Sequence[str]) -> str:
    """Return what a person is told of an error of Hydra's, or of the system, for a command."""
    said = str(error).strip()
    if not isinstance(error, CompactHydraException):
        name = getattr(error, "filename", None)
        return f"{name}: {error.strerror}" if name else said  # type: ignore[attr-defined]
    if isinstance(error, OverrideParseException):
        return _of_grammar(error.override)
    if refused := REFUSED.search(said):
        return unknown_key(refused[1], _value(refused[1], arguments), _keys(arguments))
    if several := re.match(r"Ambiguous value for argument '(.+)'", said):
        return f"{several[1]} is several values: -m makes a run of each, and [a,b] is a list"
    if repeated := re.match(r"Could not append to config. An item is already at '(.+)'", said):
        return (
            f"{repeated[1]} exists: write {repeated[1]}={_value(repeated[1], arguments)}, without +"
        )
    for argument in set(arguments) & RENAMED.keys():
        return f"{argument} has a new name: write {RENAMED[argument]}"
    said = re.sub(r"\s*Available options in '[^']*':\s*", "; the options are ", said)
    said = said.partition("\nConfig search path")[0]
    return re.sub(r"\n\t", ", ", said).removeprefix("In 'config': ").strip()


def _of_grammar(override: str) -> str:
    """Return advice for an argument that Hydra's grammar does not have."""
    key, is_setting, value = override.partition("=")
    if not is_setting:
        return f"{override} has no value: write {override}=VALUE"
    quotes = ('"', "'") if "'" not in value else ("'", '"')
    quoted = f"{quotes[1]}{key}={quotes[0]}{value}{quotes[0]}{quotes[1]}"
    return (
        f"{override} cannot be read: a list is [a,b], a mapping {{a:1,b:2}}, and a value with "
        "characters such as ~ ( ; é stands in quotation marks, which the shell must leave: "
        f"{quoted}"
    )


def _value(key: str, arguments: Sequence[str]) -> str:
    """Return the value that a command gives a key."""
    given = (argument.lstrip("+~").partition("=") for argument in arguments)
    return next((value for name, _, value in given if name == key and value), "VALUE")


def unknown_key(key: str, value: str, keys: Collection[str]) -> str:
    """Return advice for a key that is none of these, and maybe one of some jobs."""
    from .settings import JOBS, own_keys  # slow to import

    if key in RENAMED:
        return f"{key} has a new name: write {RENAMED[key].format(value)}"
    group, _, rest = key.partition(".")
    keys = [each for each in keys if each != key]
    is_nested = any(each.endswith(f".{key}") for each in keys)
    if rest and not is_nested and (options := [*_options_with(group, rest)]):
        which = " or ".join(f"{group}={option}" for option in options[:3])
        return f"{key} is a setting of {which}: add that to the command"
    is_here = any(each.startswith(f"{group}.") for each in keys)
    of_jobs = [
        job
        for job, own in ((job, own_keys(job)) for job in JOBS)
        if key in own or (not is_here and any(each.startswith(f"{group}.") for each in own))
    ]
    if of_jobs:
        return f"{key} is for job={' or job='.join(of_jobs)}: add that to the command"
    near = nearest(key, keys)
    advice = f"did you mean {near}={value}?" if near else "--help says how to list all settings"
    return f"there is no setting {key}; {advice}"


def _options_with(group: str, key: str) -> Iterator[str]:
    """Yield the options of a group that have a key, or only those that leave its value open."""
    values: dict[str, Any] = {}
    for path in sorted({*(CONF / group).glob("*.yaml")} - {CONF / group / "none.yaml"}):
        node: Any = OmegaConf.to_container(OmegaConf.load(path))
        for name in key.split("."):
            node = node.get(name, path) if isinstance(node, dict) else path
        if node is not path:
            values[path.stem] = node
    yield from ([name for name, value in values.items() if value in (None, "???")] or values)


def _keys(arguments: Sequence[str]) -> list[str]:
    """Return the keys of the config with a command's groups, or else of the default one."""
    groups = [each for each in arguments if (CONF / each.lstrip("+~").partition("=")[0]).is_dir()]
    loader = GlobalHydra.instance().config_loader()
    try:
        config = loader.load_configuration("config", groups, RunMode.RUN)
    except CompactHydraException:
        config = loader.load_configuration("config", [], RunMode.RUN)
    settings: Any = OmegaConf.to_container(config)
    return [key for key, _ in leaves(settings)]


def nearest(key: str, keys: Collection[str]) -> str | None:
    """Return the setting that someone who writes `key` means; None if none is near.

    >>> nearest("batch_size", ["adapt.batch_size", "fit.batch_size", "seed"])
    'fit.batch_size'
    """

    def rank(other: str) -> int:
        return ORDER.index(head) if (head := other.rpartition(".")[0]) in ORDER else len(ORDER)

    keys = [each for each in keys if not each.startswith("hydra.") and "._" not in each]
    if key in ELSEWHERE and ELSEWHERE[key] in keys and f"pretrain.{key}" not in keys:
        return ELSEWHERE[key]
    if same := sorted((each for each in keys if f".{each}".endswith(f".{key}")), key=rank):
        return same[0]
    if near := difflib.get_close_matches(key, keys, n=1, cutoff=0.75):
        return near[0]
    by_last_word = {each.rpartition(".")[2]: each for each in sorted(keys, key=rank, reverse=True)}
    near = difflib.get_close_matches(key.rpartition(".")[2], by_last_word, n=1, cutoff=0.75)
    return by_last_word[near[0]] if near else None
