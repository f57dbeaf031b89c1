"""Check every setting before anything is read or written: its type, range and choices.

`elmo_bench/config/settings.py` has the types; the arguments of a class, also of a user's, have them
in its signature. A setting that repeats another one (`fit.patience` is the task's by default) is
reported once, under the key that defines its value.
"""

import inspect
import os
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

import yaml
from hydra._internal.utils import _locate
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import ValidationError

from elmo_bench.files import File, Folder
from elmo_bench.runs import below, is_baseline, leaves

from .advice import unknown_key
from .inputs import overridden
from .settings import JOBS, WITHOUT_A_MODEL, Run, Section, is_section, types, without_null
from .types import fits, may_be, shown

MISSING = "???"
OPTIONAL = ("recipe", "recipe/paper", "head")  # groups with an option that may be absent
OURS = ("elmo_bench.", "tasks.", "torch.optim.lr_scheduler.")  # modules with exact type hints
SLOW = ("pytorch_lightning.",)  # to import; it checks its settings itself
HYDRAS = ("_target_", "_partial_", "_convert_", "_recursive_", "_args_")
# Settings that are not arguments.
ABOUT = {"encoder": ("name", "dir"), "schedule": ("name",), "job": ("name",)}


class Fault(NamedTuple):
    """A wrong setting: its dotted key, value and type, or what else is wrong with it."""

    key: str
    value: Any
    hint: Any = None
    reason: str = ""


class Check(Callback):
    """Hydra's callback before a run: a command with a wrong setting ends with a few lines and
    writes no file. `--dry-run` ends here, too.
    """

    def __init__(self) -> None:
        self.is_done = False

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        _end_if_wrong(config)
        self.is_done = True
        expand_home(config)
        if config.dry_run:
            lines = [*dry_run_lines([config]), "The settings are valid; nothing was run."]
            sys.stdout.write("\n".join(lines) + "\n")
            sys.exit()
        try:
            Path(config.hydra.run.dir).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            sys.exit(
                f"{error.filename}: {error.strerror}; choose another folder with outputs_dir=FOLDER"
            )

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        expand_home(config)

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """For sweeps with other launchers, whose runs do not trigger `on_run_start`."""
        if not self.is_done:
            _end_if_wrong(config)


def expand_home(cfg: DictConfig) -> None:
    """Expand a ~ at the beginning of a job's files and folders; all others are expanded by what
    reads them.
    """
    job = JOBS.get(str(OmegaConf.select(cfg, "job.name")), Run)
    own = dict.fromkeys(("outputs_dir", "run_dir", "hydra.run.dir", "hydra.sweep.dir"), Folder)
    for key, hint in (types(job) | own).items():
        value = OmegaConf.select(cfg, key, throw_on_resolution_failure=False)
        if "~" in str(value) and {File, Folder} & {hint, *get_args(hint)}:
            home = os.path.expanduser  # unlike Path's, it leaves a name such as ~mine as it is
            whole = home(value) if isinstance(value, str) else [*map(home, value)]
            OmegaConf.update(cfg, key, whole)


def dry_run_lines(configs: Sequence[DictConfig]) -> list[str]:
    """Return lines on what runs would read, keep and take; exits if something cannot be read."""
    from elmo_bench.config import dry_run  # imports torch

    try:
        return dry_run.lines(configs)
    except Exception as error:  # Hydra would only warn, and continue
        is_said = isinstance(error, ValueError | OSError | ImportError)
        sys.exit(str(error) if is_said else f"{type(error).__name__}: {error}")


def _end_if_wrong(config: DictConfig) -> None:
    """Exit if a setting is wrong; Hydra would turn an exception of a callback into a warning."""
    try:
        wrong = faults(config)
    except Exception as error:
        wrong = [f"the settings cannot be checked: {type(error).__name__}: {error}"]
    if wrong:
        sys.exit("\n".join(wrong))


def faults(cfg: DictConfig) -> list[str]:
    """Return one line for each missing or wrong setting: what came, and what it must be."""
    wrong = [*_unknown_options(cfg)]
    try:
        raw, resolved = _plain(cfg)
    except OmegaConfBaseException as error:
        return [*wrong, f"{error.full_key}: {str(error).partition(chr(10))[0]}"]
    job = str(OmegaConf.select(cfg, "job.name"))
    given = overridden(cfg)
    section = JOBS.get(job, Run)
    hints = types(section)
    missing = [key for key, value in leaves(raw) if value == MISSING and key in hints]
    found = [Fault(key, MISSING, hints[key]) for key in missing]
    found += _of_section(section, resolved)
    if job not in JOBS:  # a user's, which has settings of its own
        found = [fault for fault in found if fault.hint is not None or "." in fault.key]
    wrong += [*_in_words(found, raw, given), *_for_another(resolved, job)]
    wrong = wrong or [*_epochs(resolved, given)]
    if not wrong:  # classes are slow to import
        parts = {key.partition(".")[0] for key in given} if job in WITHOUT_A_MODEL else resolved
        classes = {part: node for part, node in resolved.items() if part in parts}
        wrong = _in_words(_of_classes(classes), raw, given)
    if not wrong and job == "train":
        task = resolved["task"]
        wrong = [*_not_adaptable(resolved), *_no_input(resolved), *_unknown_monitor(task)]
    return wrong or [*_no_folder(cfg)]


def faults_of(cfg: DictConfig, parts: Collection[str]) -> list[str]:
    """Like `faults`, for some parts of a resolved config, such as "elmo"; what only references read
    is not known to be read, and no fault.
    """
    raw, resolved = _plain(cfg)
    chosen = {part: resolved[part] for part in parts}
    found = [*_of_section(Run, chosen), *_of_classes(chosen)]
    known = [each for each in found if each.hint is not None or each.reason]
    return _in_words([each for each in known if each.key.partition(".")[0] in parts], raw, ())


def _of_section(section: type[Section], values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the settings that are wrong or unknown, with their types."""
    try:
        section.model_validate(values)
    except ValidationError as error:
        for location in dict.fromkeys(each["loc"] for each in error.errors()):
            path, hint = _located(section, location)
            node = reduce(lambda node, name: node[name], path[:-1], values)
            if hint is not None or "_target_" not in node:  # else it is an argument
                yield Fault(".".join(path), node.get(path[-1], MISSING), hint)


def _located(section: type[Section], location: Sequence[str | int]) -> tuple[list[str], Any]:
    """Return the path of the setting in which pydantic has found an error, and its type; None if
    its section has no such setting.
    """
    hint: Any = section
    path: list[str] = []
    for name in map(str, location):
        inner = without_null(hint)
        if is_section(inner):
            hint = get_type_hints(inner, include_extras=True).get(name)
        elif get_origin(inner) is dict:
            hint = get_args(inner)[1]
        else:  # an alternative of the type, or an item of a list
            break
        path.append(name)
    return path, hint


def _in_words(found: Iterable[Fault], raw: Mapping[str, Any], given: Collection[str]) -> list[str]:
    """Return the messages for wrong settings, only once for a value that several settings repeat.

    A task's settings for its own `embed` and `rnn` are ignored if others are chosen.
    """
    lines: dict[str, str] = {}
    for fault in found:
        key = _origin(fault.key, raw)
        came = f"{key}={shown(fault.value)}"
        if fault.reason and key.startswith(("embed.", "rnn.")) and key not in given:
            continue
        if fault.reason:
            lines.setdefault(key, f"{came}, {fault.reason}")
        elif fault.value == MISSING:
            lines.setdefault(key, f"{key} is missing: set {key}=VALUE, {may_be(fault.hint)}")
        elif fault.hint is None and not _is_read(key, raw):
            others = [each for each, _ in leaves(raw) if not below(each, (key,))]
            lines.setdefault(key, unknown_key(key, shown(fault.value), others))
        elif fault.hint is not None:
            if key in types() and fits(fault.value, types()[key]):  # wrong where it is repeated
                key, came = fault.key, f"{fault.key}={shown(fault.value)}"
            advice = _quoted(key, fault)
            lines.setdefault(key, f"{came}, but it must be {may_be(fault.hint)}{advice}")
    return [*lines.values()]


def _is_read(key: str, raw: Mapping[str, Any]) -> bool:
    """Whether another setting repeats this one."""
    return bool(re.search(rf"\$\{{(oc\.select:)?{re.escape(key)}\b", str(raw)))


def _quoted(key: str, setting: Fault) -> str:
    """Return advice for a number in place of a name."""
    is_number = type(setting.value) in (int, float) and fits(str(setting.value), setting.hint)
    return f"; quote a name that is a number: {key}=\"'{setting.value}'\"" if is_number else ""


def _plain(cfg: DictConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the config without Hydra's own part, raw and resolved."""
    content = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    OmegaConf.set_struct(content, False)
    raw: Any = OmegaConf.to_container(content)
    if "${hydra:" in str(raw.get("run_dir")):  # unknown until Hydra has created the folder
        content.run_dir = "."
    resolved: Any = OmegaConf.to_container(content, resolve=True)
    for split in ("train", "dev", "test") if OmegaConf.select(content, "task.read") else ():
        if isinstance(options := resolved["task"]["read"].get(split), dict):
            options["_target_"] = f"{resolved['task']['data']}.read"
    return raw, resolved


def _unknown_options(cfg: DictConfig) -> Iterator[str]:
    """Yield a message for each unknown option that Hydra would silently ignore."""
    sources = cfg.hydra.runtime.config_sources if "hydra" in cfg else []
    paths = [source.path for source in sources if source.provider not in ("hydra", "schema")]
    folders = [Path(path.removeprefix("file://")) for path in paths]
    for group, value in overridden(cfg).items():
        # Only Hydra knows the contents of a package.
        if group not in OPTIONAL or not all(map(Path.is_dir, folders)):
            continue
        chosen = yaml.safe_load(value)
        names = {path.stem for folder in folders for path in (folder / group).glob("*.yaml")}
        for name in chosen if isinstance(chosen, list) else [chosen]:
            if name is not None and name not in names:
                options = ", ".join(sorted(names))
                yield f"{group}={name}, but it must be {options}; ~{group} removes the group"


def _for_another(config: Mapping[str, Any], job: str) -> Iterator[str]:
    """Yield a message for a corpus that is not of the task."""
    data, task = config.get("data") or {}, config.get("task") or {}
    tasks: Any = data.get("tasks") if isinstance(data, dict) else None
    is_read = job in ("train", "evaluate", "adapt") and isinstance(tasks, list)
    if is_read and task.get("name") not in tasks:
        yield (
            f"data={data.get('name')} is a corpus of task={' or task='.join(map(str, tasks))}, not "
            f"of task={task.get('name')}; data.tasks=[{task.get('name')}] says that it is, too"
        )


def _epochs(config: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:
    """Yield a message for a number of epochs that schedules do not know of."""
    trainer = config["trainer"]
    if "trainer.max_epochs" in given and "limit_train_batches" not in trainer:
        epochs = shown(trainer["max_epochs"])
        yield f"trainer.max_epochs={epochs} repeats a setting: write fit.max_epochs={epochs}"


def _no_folder(cfg: DictConfig) -> Iterator[str]:
    """Yield a message for a folder whose path is taken by a file."""
    for key in ("outputs_dir", "cache_dir", "hydra.run.dir"):
        path = Path(OmegaConf.select(cfg, key) or ".").expanduser()
        present = next((part for part in (path, *path.parents) if part.exists()), None)
        if present and not present.is_dir():
            yield f"{key}={path}, but {present} is a file: give a folder, which may be new"
            return  # the others are below it


def _not_adaptable(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for an encoder that is to be adapted but is no pretrained biLM."""
    encoder = config["encoder"]
    is_bilm = {"options", "weights"} <= encoder.keys() and encoder.get("pretrained", True)
    if config["elmo"]["adapt"] and not is_baseline(config) and not is_bilm:
        yield (
            f"elmo.adapt=true, but encoder={encoder['name']} is no pretrained biLM: "
            "elmo.adapt=false reads it as it is"
        )


def _no_input(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for a baseline without word representations."""
    embed, has_vectors = config["embed"], config["vocab"]["vectors"]
    has_words = has_vectors or embed["word_dim"] or "char_dim" in embed
    if is_baseline(config) and not has_words:
        yield "embed.word_dim=0 without an encoder: the task has no input; set one of them"


def _unknown_monitor(task: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message if the task monitors neither a metric of its own nor that of a label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics warns of compute() before update()
        try:
            settings = {key: each for key, each in task["metric"].items() if key not in HYDRAS}
            names = [*_locate(task["metric"]["_target_"])((), **settings).compute()]
        except Exception:  # a metric that cannot compute before an update
            return
    if task["monitor"] not in names and "/" not in task["monitor"]:
        yield f"task.monitor={task['monitor']}, but it must be {', '.join(names)}"


def _of_classes(node: Mapping[str, Any], prefix: str = "") -> Iterator[Fault]:
    """Yield the arguments, at or below a node, that are wrong or that their class does not have."""
    target = str(node.get("_target_", ""))
    own = {*node} - {*HYDRAS, *ABOUT.get(prefix.partition(".")[0], ())}
    arguments: dict[str, Any] = {"**": Any}
    if target and own and not target.startswith(SLOW):
        try:
            arguments = _arguments(target)
        except Exception as error:  # importing a user's module may raise any error
            cause = str(error.__cause__ or error).partition("\n")[0]
            reason = f"but it cannot be imported: {cause}"
            yield Fault(f"{prefix}_target_", target, reason=reason)
    for name, value in node.items():
        key, hint = f"{prefix}{name}", arguments.get(name)
        if name in HYDRAS:
            continue
        if "**" not in arguments and name in own - {*arguments} and value is not None:
            reason = f"but the arguments of {target} are {', '.join(arguments)}"
            yield Fault(key, value, reason=reason)
        elif isinstance(value, dict) and (hint is None or "_target_" in value):
            yield from _of_classes(value, f"{key}.")
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            for number, each in enumerate(value):
                yield from _of_classes(each, f"{key}.{number}.") if isinstance(each, dict) else ()
        elif hint is not None and (value == MISSING or not fits(value, hint)):
            yield Fault(key, value, hint)


@cache
def _arguments(target: str) -> dict[str, Any]:
    """Return the arguments of a `_target_` and their types; ** if it accepts others.

    Types are checked only for our own classes: others may accept more than their hints say.
    """
    called = _locate(target)
    try:
        signature = inspect.signature(called, eval_str=True)
    except NameError:  # hints only for type checkers
        signature = inspect.signature(called)
    is_ours = target.startswith(OURS)
    return {
        "**" if each.kind is each.VAR_KEYWORD else each.name: each.annotation if is_ours else Any
        for each in signature.parameters.values()
    }


def _origin(key: str, raw: Any) -> str:
    """Return the key whose value this one repeats, or the key itself."""
    node: Any = raw
    for name in key.split("."):
        if not isinstance(node, dict) or name not in node:
            return key
        node = node[name]
    repeated = re.fullmatch(r"\$\{([\w.]+)\}", node) if isinstance(node, str) else None
    return _origin(repeated[1], raw) if repeated else key
