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
from elmo_bench.runs import below, leaves

# What other programs call a setting of a run.
ELSEWHERE = {"epochs": "max_epochs", "learning_rate": "lr", "output_dir": "outputs_dir"}
# Of several settings of one name, the one meant most often comes first.
ORDER = ("pretrain", "fit", "task.optimizer", "elmo", "vocab", "embed", "rnn", "task", "encoder")
REFUSED = re.compile(r"Could not (?:override|delete from config\.) '([^']+)'")


def before(arguments: Sequence[str]) -> list[str]:
    """Return advice for arguments without a key, and for options that Hydra does not have."""
    keyless = [f"{each} has no key: write KEY{each}" for each in arguments if each.startswith("=")]
    options = [*utils.get_args_parser()._option_string_actions, "--dry-run", "--download-only"]
    given = {each: each.partition("=")[0] for each in arguments if each.startswith("--")}
    return keyless + [
        f"{argument}: there is no such option; settings are KEY=VALUE, without dashes"
        for argument, name in given.items()
        if not any(option.startswith(name) for option in options)
    ]


def settings_of_job(name: str) -> str:
    """Return the file of a job, which explains its settings, for `job=NAME --help`."""
    path = CONF / "job" / f"{name}.yaml"
    if not path.is_file():
        names = ", ".join(sorted(each.stem for each in path.parent.glob("*.yaml")))
        return f"job={name}, but it must be one of {names}"
    return path.read_text(encoding="utf-8").rstrip()


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
    if isinstance(error, OverrideParseException):
        return _of_grammar(error.override)
    if refused := REFUSED.search(said):
        given = dict(each.lstrip("+~").split("=", 1) for each in arguments if "=" in each)
        value = given.get(refused[1]) or "VALUE"
        return unknown_key(refused[1], value, _keys(arguments, refused[1]))
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


def unknown_key(key: str, value: str, known: Collection[str]) -> str:
    """Return advice for a key that is none of those known, and maybe one of a job or an option."""
    known = [each for each in known if each != key]
    is_nested = any(each.endswith(f".{key}") for each in known)
    if not is_nested and (places := [*_places(key)]):
        return f"{key} is a setting of {' or '.join(places[:3])}: add that to the command"
    near = nearest(key, known)
    advice = f"did you mean {near}={value}?" if near else "--help says how to list all settings"
    return f"there is no setting {key}; {advice}"


def _places(key: str) -> Iterator[str]:
    """Yield the jobs and options that have a key; first the options that leave its value open."""
    from .settings import JOBS, keys  # slow to import

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
    known = [each for each in known if not each.startswith("hydra.") and "._" not in each]
    by_name: dict[str, list[str]] = {}
    for each in known:
        by_name.setdefault(each.rpartition(".")[2], []).append(each)

    def rank(other: str) -> tuple[bool, int]:
        section = other.rpartition(".")[0]
        place = ORDER.index(section) if section in ORDER else len(ORDER)
        return not ("." in key and other.endswith(f".{key}")), place

    name = key.rpartition(".")[2]
    name = name if name in by_name else ELSEWHERE.get(name, name)
    if near := difflib.get_close_matches(name, by_name, n=1, cutoff=0.75):
        same = by_name[near[0]] + by_name.get(ELSEWHERE.get(near[0], ""), [])
        return min(same, key=rank)
    return next(iter(difflib.get_close_matches(key, known, n=1, cutoff=0.75)), None)
