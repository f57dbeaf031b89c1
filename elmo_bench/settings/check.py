"""Check every setting before anything is read or written: its type, range and choices.

`elmo_bench/config/settings.py` has the types; the arguments of a class, also of a user's, have them
in its signature.
"""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import reduce
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from elmo_bench.runs import (
    below,
    is_baseline,
    leaves,
    reads_apart,
)
from elmo_bench.terminal import listed, not_a_folder, pip_install, plain
from elmo_bench.training import wandb_logger

from .advice import unknown_key, unknown_option
from .command import choices, composition, overridden
from .hydra_private import locate
from .inputs import SPLITS
from .schema import JOBS, WITHOUT_A_MODEL, Run, Section, keys
from .targets import allow
from .types import arguments, misfits, shown

OPTIONAL = ("recipe", "recipe/paper", "head")  # groups with an option that may be absent
TRANSFORMER = "elmo_bench.encoders.transformer.Transformer"
SLOW = ("pytorch_lightning.",)  # to import; it checks its settings itself
# Arguments of Lightning's Trainer that have a setting of their own.
OWN_SETTING = {"callbacks": "task.callbacks", "logger": "logger", "default_root_dir": "outputs_dir"}
# A task's defaults of settings: only these settings read them, by reference.
OF_FIT = ("batch_size", "batch_scores", "max_epochs", "patience")
DEFAULTS = {f"task.{key}": f"fit.{key}" for key in OF_FIT}
DEFAULTS |= {f"task.elmo.{key}": f"elmo.{key}" for key in ("at", "l2", "dropout", "norm")}
HYDRAS = ("_target_", "_partial_", "_convert_", "_recursive_", "_args_")
# Settings that are not arguments.
ABOUT = {"encoder": ("name", "dir"), "schedule": ("name",), "job": ("name",)}


class Fault(NamedTuple):
    """A wrong setting: its dotted key and value, the kind of the error (pydantic's; `argument` if a
    class does not have it) and a clause on what is wrong.
    """

    key: str
    value: Any
    kind: str
    reason: str = ""


def expand_home(cfg: DictConfig) -> None:
    """Expand a ~/ at the beginning of files and folders, which a shell leaves in quotes."""
    raw: Any = OmegaConf.to_container(cfg)
    for key, value in leaves(raw):
        whole = [*map(_at_home, value)] if isinstance(value, list) else _at_home(value)
        if whole != value:
            OmegaConf.update(cfg, key, whole)


def _at_home(value: Any) -> Any:
    return f"{Path.home()}{value[1:]}" if str(value).startswith("~/") else value


def check(config: DictConfig) -> None:
    """Raise ValueError, with a line for each setting that is wrong, or else for each package that
    is not installed.
    """
    if wrong := faults(config) or not_installed(config):
        raise ValueError("\n".join(wrong))


def faults(cfg: DictConfig) -> list[str]:
    """Return one line for each missing or wrong setting: what came, and what it must be."""
    wrong = [*_unknown_options(cfg), *_of_hydra(cfg)]
    try:
        raw, resolved = _plain(cfg, has_task="checkpoint" not in cfg)
    except OmegaConfBaseException as error:
        return [*wrong, f"{error.full_key}: {str(error).partition(chr(10))[0]}"]
    allow(resolved)
    job, given = str(OmegaConf.select(cfg, "job.name")), overridden(cfg)
    section = JOBS.get(job, Run)
    missing = [key for key, value in leaves(raw) if value == MISSING and key in keys(section)]
    found = [Fault(key, MISSING, "missing") for key in missing]
    for fault in _of_section(section, resolved):  # a user's job has settings of its own
        if job in JOBS or fault.kind != "extra_forbidden" or "." in fault.key:
            found.append(fault)
    if not (wrong := wrong + _in_words(found, raw, given)):  # classes are slow to import
        parts = {key.partition(".")[0] for key in given} if job in WITHOUT_A_MODEL else resolved
        classes = {part: node for part, node in resolved.items() if part in parts}
        wrong = _in_words(_of_classes(classes), raw, given)
    if not wrong and (of_wandb := (resolved.get("logger") or {}).get("wandb")):
        wrong = [*wandb_logger.refused(of_wandb)]
    return wrong or [*_together(resolved, job, given), *_overruled(cfg, raw, resolved)]


def not_installed(cfg: DictConfig) -> list[str]:
    """Return one line for each package that a run needs and that is not installed."""
    job = str(OmegaConf.select(cfg, "job.name"))
    if job not in JOBS or job in WITHOUT_A_MODEL:
        return []
    typed = f"encoder={choices(cfg).get('encoder', cfg.encoder.name)}"
    adapter, logger = cfg.encoder.get("adapter"), cfg.get("logger") or {}
    lines = list[str]()
    if not is_baseline(cfg) and job not in ("evaluate", "predict"):  # of a checkpoint
        is_transformer = cfg.encoder._target_ == TRANSFORMER
        if is_transformer and find_spec("transformers") is None:
            lines.append(f"{typed} needs the package transformers: {pip_install('transformers')}")
        elif is_transformer and adapter and find_spec("peft") is None:
            asked = f"encoder.adapter={adapter}"
            lines.append(f"{asked} needs the package peft: {pip_install('transformers')}")
        if cfg.finetune.name == "lora" and find_spec("peft") is None:
            lines.append(f"finetune=lora needs the package peft: {pip_install('transformers')}")
    if "tensorboard" in logger and not any(map(find_spec, ("tensorboard", "tensorboardX"))):
        lines.append(
            f"logger=tensorboard needs the package tensorboard: {pip_install('tensorboard')}"
        )
    return list(dict.fromkeys(lines))


def faults_of(cfg: DictConfig, parts: Collection[str]) -> list[str]:
    """Like `faults`, for some parts of a resolved config, such as "elmo"; what only references read
    is not known to be read, and no fault.
    """
    raw, resolved = _plain(cfg)
    chosen = {part: resolved[part] for part in parts}
    found = [*_of_section(Run, chosen), *_of_classes(chosen)]
    ours = [fault for fault in found if below(fault.key, tuple(parts))]
    wrong = _in_words([fault for fault in ours if fault.kind != "extra_forbidden"], raw, ())
    return [*wrong, *_of_corpus(resolved)]


def _plain(cfg: DictConfig, *, has_task: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the config without Hydra's own part, raw and resolved. Unless it `has_task`, which may
    be a checkpoint's, its columns are not checked.
    """
    content = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    OmegaConf.set_struct(content, False)
    raw: Any = OmegaConf.to_container(content)
    if "${hydra:" in str(raw.get("run_dir")):  # unknown until Hydra has created the folder
        content.run_dir = "."
    resolved: Any = OmegaConf.to_container(content, resolve=True)
    task = resolved.get("task") or {}
    of_corpus = (resolved.get("data") or {}).get("read")
    of_task = of_corpus.get(task.get("name")) if isinstance(of_corpus, dict) else None
    sides = [each for each in (task.get("read"), of_task) if isinstance(each, dict)]
    read = [each.get(split) for each in sides for split in SPLITS]
    for options in (*read, (resolved.get("data") or {}).get("columns") if has_task else None):
        if isinstance(options, dict):
            options["_target_"] = f"{task['data']}.read"
    return raw, resolved


def _of_section(section: type[Section], values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the settings that are wrong, missing or unknown."""
    for path, kind, reason in misfits(values, section):
        node = reduce(lambda node, name: node[name], path[:-1], values)
        if kind != "extra_forbidden" or "_target_" not in node:  # else it is an argument
            value = node.get(path[-1], MISSING)
            yield Fault(".".join(path), value, kind, f"but it must {reason}")


def _of_classes(node: Mapping[str, Any], prefix: str = "") -> Iterator[Fault]:
    """Yield the arguments, at or below a node, that are wrong or that their class does not have."""
    target = str(node.get("_target_", ""))
    own = {*node} - {*HYDRAS, *ABOUT.get(prefix.partition(".")[0], ())}
    known: dict[str, Any] = {"**": Any}
    if target and own and not target.startswith(SLOW):
        try:
            known = arguments(target)
        except Exception as error:  # importing a user's module may raise any error
            reason = f"but it cannot be imported: {error.__cause__ or error}".partition("\n")[0]
            yield Fault(f"{prefix}_target_", target, "import", reason)
    for name, value in node.items():
        key, hint = f"{prefix}{name}", known.get(name)
        if name in HYDRAS:
            continue
        if "**" not in known and name in own - {*known} and value is not None:
            reason = f"but the arguments of {target} are {', '.join(known)}"
            yield Fault(key, value, "argument", reason)
        elif isinstance(value, dict) and (hint is None or "_target_" in value):
            yield from _of_classes(value, f"{key}.")
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            for number, each in enumerate(value):
                yield from _of_classes(each, f"{key}.{number}.") if isinstance(each, dict) else ()
        elif hint is not None and value == MISSING:
            yield Fault(key, value, "missing")
        elif hint is not None and (wrong := misfits(value, hint)):
            yield Fault(key, value, wrong[0][1], f"but it must {wrong[0][2]}")


def _in_words(found: Iterable[Fault], raw: Mapping[str, Any], given: Collection[str]) -> list[str]:
    """Return a message for each wrong setting, once for a value that several settings repeat.

    A task's settings for its own `embed`, `rnn` and head are ignored if others are chosen.
    """
    lines: dict[str, str] = {}
    values = dict(leaves(raw))
    for fault in found:
        key, kind = fault.key, fault.kind
        is_read = _is_referenced(key, raw)
        is_anothers = key.startswith(("embed.", "rnn.", "task.model.")) and key not in given
        if not ((kind == "extra_forbidden" and is_read) or (kind == "argument" and is_anothers)):
            while repeated := re.fullmatch(r"\$\{([\w.]+)\}", str(values.get(key))):
                key = repeated[1]
            lines.setdefault(key, _message(fault, key, values))
    return [*lines.values()]


def _is_referenced(key: str, raw: Mapping[str, Any]) -> bool:
    return bool(re.search(rf"\$\{{(oc\.select:'?)?{re.escape(key)}\b", str(raw)))


def _message(fault: Fault, key: str, values: Mapping[str, Any]) -> str:
    """Return what is wrong with a setting whose value stands under a key."""
    value, reason = fault.value, fault.reason
    if value == MISSING:
        return f"{key} is missing: set {key}=VALUE"
    if fault.kind == "none_required" and isinstance(value, dict):  # +GROUP.KEY=VALUE
        return "\n".join(unknown_key(f"{key}.{k}", shown(v), values) for k, v in value.items())
    if fault.kind == "extra_forbidden":
        return unknown_key(key, shown(value), [each for each in values if not below(each, (key,))])
    if key != fault.key:
        reason = reason.replace("but it must", f"but {fault.key} must")
    if reason.endswith(" must be a list"):
        reason += f": {key}=[{shown(value)}]"
    if fault.kind == "string_type" and type(value) in (int, float):
        reason += f"; quote a name that is a number: {key}=\"'{value}'\""
    return f"{key}={shown(value)}, {reason}"


def applied_options(cfg: DictConfig) -> list[str]:
    """Return a line for each optional option that a run has without being asked for it, one for a
    recipe of its corpus and task that another replaces, and one if it reads texts apart that it was
    asked to read in one sequence.
    """
    given, chosen = overridden(cfg), choices(cfg)
    lines = [
        f"{group} {chosen[group]} applied; ~{group} leaves it out"
        for group in OPTIONAL
        if group not in given and chosen.get(group) in _options(cfg, group)
    ]
    lines += _replaced_recipe(cfg)
    if is_baseline(cfg):
        for key in ("finetune", "elmo.mix"):
            if given.get(key, "none") != "none":
                lines.append(f"{key}={given[key]} has no effect without layers: encoder=none")
    if reads_apart(cfg):
        lines.append(f"encoder={cfg.encoder.name} reads an example's texts apart: task.joint=false")
    return lines


def _replaced_recipe(cfg: DictConfig) -> Iterator[str]:
    """Yield a line for the recipe of a corpus and task that the command line replaces by others."""
    chosen = choices(cfg)
    own = f"{chosen.get('data')}_{chosen.get('task')}"
    if own not in _options(cfg, "recipe"):
        return
    given = yaml.safe_load(overridden(cfg).get("recipe", ""))  # ~recipe has none
    names = given if isinstance(given, list) else [given]
    if given and own not in names:
        replacing, both = ",".join(map(str, names)), ",".join(map(str, [own, *names]))
        yield f"recipe {own} is replaced by {replacing}; recipe=[{both}] applies both"


def _options(cfg: DictConfig, group: str) -> set[str]:
    """Return the names of a group's options; "*" beside a package, which only Hydra can list."""
    names = set[str]()
    for source in _sources(cfg):
        names |= {path.stem for path in Path(source.path, group).glob("*.yaml")}
        names |= {"*"} if source.schema == "pkg" else set()
    return names


def _option(cfg: DictConfig, group: str, name: str) -> dict[str, Any]:
    """Return the values of an option that refers to no other; none if its file is not found."""
    paths = (Path(source.path, group, f"{name}.yaml") for source in _sources(cfg))
    path = next(filter(Path.is_file, paths), None)
    return OmegaConf.to_container(OmegaConf.load(path)) if path else {}  # type: ignore[return-value]


def _sources(cfg: DictConfig) -> list[Any]:
    """Return the folders and packages of options, in Hydra's order."""
    hydra = composition(cfg)
    found = hydra.runtime.config_sources if hydra else ()
    return [source for source in found if source.provider not in ("hydra", "schema")]


def _unknown_options(cfg: DictConfig) -> Iterator[str]:
    """Yield a message for each unknown option that Hydra would silently ignore."""
    given = overridden(cfg)
    for group in given.keys() & OPTIONAL:
        chosen, names = yaml.safe_load(given[group]), _options(cfg, group)
        for name in chosen if isinstance(chosen, list) else [chosen]:
            if name is not None and not names & {name, "*"}:
                yield f"{unknown_option(group, name, names)} (~{group} removes the group)"


def _of_hydra(cfg: DictConfig) -> Iterator[str]:
    """Yield what is wrong with Hydra's own settings."""
    hydra = composition(cfg)
    if hydra and hydra.job.chdir:
        said = "hydra.job.chdir=true would look for relative paths in the folder of the run"
        yield f"{said}: leave it out; a run writes into that folder in any case"


def _overruled(cfg: DictConfig, raw: Any, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the command line asks for in vain, since an experiment or a recipe decides it."""
    given = overridden(cfg)
    for key, value in (config.get("task") or {}).get("elmo", {}).items():
        own = f"task.elmo.{key}"
        if own not in DEFAULTS and not isinstance(value, dict) and not _is_referenced(own, raw):
            yield f"{own}={shown(value)} has no effect: set elmo.{key}"
    for key in DEFAULTS.keys() & given.keys():
        if not _is_referenced(key, raw):
            yield f"{key} has no effect, since another option sets {DEFAULTS[key]}: set that"
    is_training = OmegaConf.select(cfg, "job.name") == "train"
    metric = (config.get("data") or {}).get("metric")
    if is_training and metric and not _is_referenced("data.metric", raw):
        yield f"data.metric has no effect on task={config['task']['name']}: set task.monitor"
    optimizer = given.get("optimizer", "")
    for name, value in _option(cfg, "optimizer", optimizer).items():
        key, trained_with = f"task.optimizer.{name}", config["task"]["optimizer"].get(name)
        if name != "_partial_" and trained_with != value and key not in given:
            said = f"optimizer={optimizer} sets {key}={shown(value)}, but the experiment sets "
            yield f"{said}{shown(trained_with)}: add {key}=VALUE"


def _of_corpus(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a corpus that is not of the task."""
    name, data = config["task"]["name"], config["data"]
    read = (data.get("read") or {}).get(name) or {}
    for split, options in (read if isinstance(read, dict) else {read: {}}).items():
        if split not in SPLITS or not isinstance(options, dict | None):
            said = f"data.read.{name}: {split} is none of its splits with options, such as "
            yield f"{said}data.read.{name}.train.OPTION=VALUE"
    if name not in (tasks := data.get("tasks") or [name]):
        said = f"data={data.get('name')} is a corpus of task={' or task='.join(tasks)}, not of "
        yield f"{said}task={name}; data.tasks=[{name}] says that it is, too"


def _together(config: Mapping[str, Any], job: str, given: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with several settings together, when each is right."""
    task, encoder, embed = (config[key] for key in ("task", "encoder", "embed"))
    for key in ("data_dir", "cache_dir", "outputs_dir"):
        if Path(config[key]).expanduser().is_file():
            yield f"{key}={config[key]} {not_a_folder(config[key])}"
    for key in ("task", "data", "encoder"):
        if (name := str(config[key].get("name"))) != plain(name):
            yield f"{key}.name={plain(name)} has a control character: leave it out"
    # Schedules read only `fit.max_epochs`.
    if "trainer.max_epochs" in given and "limit_train_batches" not in config["trainer"]:
        epochs = shown(config["trainer"]["max_epochs"])
        yield f"trainer.max_epochs={epochs} repeats a setting: write fit.max_epochs={epochs}"
    for key, ours in OWN_SETTING.items():
        if config["trainer"].get(key) is not None:
            yield f"trainer.{key} would not be read: set {ours}"
    if {"budget", "seeds"} & {*config} and not config.get("tune"):
        yield "budget and seeds are settings of sweep=tune: add that to the command"
    if config["elmo"]["adapt"] and job in ("embed", "perplexity", "probe"):
        said = "elmo.adapt=true requires a run with a task, whose log names the folder of the "
        yield f"{said}adapted biLM: encoder=files encoder.dir=FOLDER reads it"
    if job == "pretrain":
        devices = config["trainer"]["devices"]
        if (len(devices) if isinstance(devices, list) else devices) not in ("auto", 1):
            yield f"trainer.devices={shown(devices)}, but job=pretrain uses one"
        unread = ("encoder", "fit", "optimizer", "schedule", "trainer.precision")
        for key in (each for each in given if below(each, unread)):
            yield f"{key} is not read by job=pretrain, which has bilm, bilm_optimizer and pretrain"
    if job != "train":
        return
    yield from _of_corpus(config)
    is_bilm = {"options", "weights"} <= encoder.keys() and encoder.get("pretrained", True)
    if config["elmo"]["adapt"] and not is_bilm and not is_baseline(config):
        said = f"elmo.adapt=true, but encoder={encoder['name']} is no pretrained biLM"
        yield f"{said}: elmo.adapt=false reads it as it is"
    has_words = config["vocab"]["vectors"] or embed.get("word_dim", 1) or "char_dim" in embed
    if embed.get("word_dim") == 0 and config["vocab"]["vectors"]:
        said = "embed.word_dim=0 with vocab.vectors: vocab.vectors=null leaves out x_k"
        yield f"{said} (encoder=static reads encoder.vectors=FILE)"
    is_adadelta = task["optimizer"]["_target_"].endswith(".Adadelta")
    if is_adadelta and config["finetune"]["name"] != "none" and "finetune.lr" not in given:
        said = f"finetune.lr={config['finetune']['lr']} is for Adam, but the task trains with "
        yield f"{said}Adadelta: add optimizer=adam, or finetune.lr=RATE"
    if not has_words and (is_baseline(config) or "input" not in config["elmo"]["at"]):
        said = "embed.word_dim=0 without an encoder at the input: the task has no input; set "
        yield f"{said}embed.word_dim or elmo.at=[input]"
    yield from _of_joint(config)
    # Lightning looks for it only after the first epoch; `LABEL/METRIC` is of a label.
    monitor, figures = task["monitor"], _figures(task["metric"])
    if figures and "/" not in monitor and monitor not in figures:
        yield f"task.monitor={monitor}, but it must be {listed(figures, 'or')}"
    elif "task.monitor" in given and "task.monitor_title" not in given:
        said = f"task.monitor={monitor} would be {task['monitor_title']!r} in reports: add "
        yield f"{said}task.monitor_title=NAME"


def _of_joint(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with reading the texts of an example in one sequence, or apart."""
    task = config["task"]
    joint, name = bool(task.get("joint")), task["model"]["_target_"]
    needs = getattr(locate(name), "needs_joint", None)  # None: it reads both
    if joint and "joint" not in arguments(f"{task['data']}.read"):
        yield f"task.joint=true, but {task['data']} cannot read several texts in one sequence"
    elif needs not in (joint, None):
        yield f"task.joint={shown(joint)}, but {name} needs task.joint={shown(needs)}"
    elif needs and reads_apart(config):
        said = f"encoder={config['encoder']['name']} reads texts apart, but {name} needs them in "
        yield f"{said}one sequence: choose encoder=bert_base, say, or another head"


def _figures(metric: Mapping[str, Any]) -> list[str]:
    """Return the names of a metric's figures; none of a user's that needs examples."""
    settings = {key: value for key, value in metric.items() if key not in HYDRAS and value}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics warns of a metric without examples
        try:
            return [*locate(metric["_target_"])((), **settings).compute()]
        except Exception:
            return []
