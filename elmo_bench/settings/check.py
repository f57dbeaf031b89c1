"""Check every setting before anything is read or written: its type, range and choices.

`elmo_bench/settings/schema.py` has the types; the arguments of a class, also of a user's, have them
in its signature.
"""

import re
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from elmo_bench.runs import below, is_baseline, leaves, reads_apart
from elmo_bench.terminal import listed, not_a_folder, pip_install, plain
from elmo_bench.training import wandb_logger

from .advice import unknown_key
from .command import choices, composition, overridden
from .hydra_private import locate
from .inputs import SPLITS
from .schema import JOBS, WITHOUT_A_MODEL, Run, Section, keys
from .targets import allow
from .types import arguments, misfits, shown

TRANSFORMER = "elmo_bench.encoders.transformer.Transformer"
SLOW = ("pytorch_lightning.",)  # to import; it checks its settings itself
# Arguments of Lightning's Trainer that have a setting of their own.
OWN_SETTING = {"callbacks": "task.callbacks", "logger": "logger", "default_root_dir": "outputs_dir"}
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
        whole = [_at_home(each) for each in value] if isinstance(value, list) else _at_home(value)
        if whole != value:
            OmegaConf.update(cfg, key, whole)


def _at_home(value: Any) -> Any:
    return f"{Path.home()}{value[1:]}" if str(value).startswith("~/") else value


def check(config: DictConfig) -> None:
    """Raise ValueError, with a line for each setting that is wrong, or else for each package that
    is not installed.
    """
    wrong = faults(config) or not_installed(config)
    if wrong:
        raise ValueError("\n".join(wrong))


def faults(cfg: DictConfig) -> list[str]:
    """Return one line for each missing or wrong setting: what came, and what it must be."""
    wrong = list(_of_hydra(cfg))
    wrong.extend(_unknown_for_corpus(cfg))
    try:
        raw, resolved = _plain(cfg, has_task="checkpoint" not in cfg)
    except OmegaConfBaseException as error:
        first_line = str(error).partition("\n")[0]
        wrong.append(f"{error.full_key}: {first_line}")
        return wrong
    allow(resolved)
    job = str(OmegaConf.select(cfg, "job.name"))
    given = overridden(cfg)
    wrong += _in_words(_of_job(job, raw, resolved), raw, given)
    if not wrong:  # classes are slow to import
        classes = _with_classes(job, resolved, given)
        wrong = _in_words(_of_classes(classes), raw, given)
    if not wrong:
        of_wandb = (resolved.get("logger") or {}).get("wandb")
        if of_wandb:
            wrong.extend(wandb_logger.refused(of_wandb))
    if not wrong:
        wrong.extend(_together(resolved, job, given))
        wrong.extend(_overruled(cfg, raw, resolved))
    return wrong


def _of_job(job: str, raw: Mapping[str, Any], resolved: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the settings of a job that are missing, and those that are wrong or unknown."""
    section = JOBS.get(job, Run)
    for key, value in leaves(raw):
        if value == MISSING and key in keys(section):
            yield Fault(key, MISSING, "missing")
    for fault in _of_section(section, resolved):  # a user's job has settings of its own
        if job in JOBS or fault.kind != "extra_forbidden" or "." in fault.key:
            yield fault


def _with_classes(
    job: str, resolved: Mapping[str, Any], given: Collection[str]
) -> Mapping[str, Any]:
    """Return the parts of a config whose classes are looked at: of a job without a model only those
    that the command sets, since it makes none of the others.
    """
    if job not in WITHOUT_A_MODEL:
        return resolved
    set_parts = {key.partition(".")[0] for key in given}
    return {part: node for part, node in resolved.items() if part in set_parts}


def not_installed(cfg: DictConfig) -> list[str]:
    """Return one line for each package that a run needs and that is not installed."""
    job = str(OmegaConf.select(cfg, "job.name"))
    if job not in JOBS or job in WITHOUT_A_MODEL:
        return []
    typed = f"encoder={choices(cfg).get('encoder', cfg.encoder.name)}"
    adapter = cfg.encoder.get("adapter")
    logger = cfg.get("logger") or {}
    lines = list[str]()
    if not is_baseline(cfg) and job not in ("evaluate", "predict"):  # of a checkpoint
        is_transformer = cfg.encoder._target_ == TRANSFORMER
        if is_transformer and find_spec("transformers") is None:
            lines.append(f"{typed} needs the package transformers: {pip_install('transformers')}")
        elif is_transformer and adapter and find_spec("peft") is None:
            lines.append(
                f"encoder.adapter={adapter} needs the package peft: {pip_install('transformers')}"
            )
        if cfg.finetune.name == "lora" and find_spec("peft") is None:
            lines.append(f"finetune=lora needs the package peft: {pip_install('transformers')}")
    if "tensorboard" in logger:
        is_installed = find_spec("tensorboard") or find_spec("tensorboardX")
        if not is_installed:
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
    wrong_settings = list(_of_section(Run, chosen))
    wrong_settings.extend(_of_classes(chosen))
    of_parts = list[Fault]()
    for fault in wrong_settings:
        if below(fault.key, tuple(parts)) and fault.kind != "extra_forbidden":
            of_parts.append(fault)
    lines = _in_words(of_parts, raw, ())
    lines.extend(_of_corpus(resolved))
    return lines


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
    for options in _reader_options(resolved, has_task=has_task):
        options["_target_"] = f"{task['data']}.read"
    return raw, resolved


def _reader_options(config: Mapping[str, Any], *, has_task: bool) -> list[dict[str, Any]]:
    """Return what the function that reads a task's corpora gets as arguments, and is checked as
    such: the options of each split, by the task and by the corpus, and the corpus's columns.
    """
    task = config.get("task") or {}
    data = config.get("data") or {}
    sources = [task.get("read")]
    by_task = data.get("read")
    if isinstance(by_task, dict):
        sources.append(by_task.get(task.get("name")))
    candidates = list[Any]()
    for by_split in sources:
        if isinstance(by_split, dict):
            for split in SPLITS:
                candidates.append(by_split.get(split))
    if has_task:
        candidates.append(data.get("columns"))
    return [options for options in candidates if isinstance(options, dict)]


def _of_section(section: type[Section], values: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the settings that are wrong, missing or unknown."""
    for path, kind, reason in misfits(values, section):
        node: Any = values
        for name in path[:-1]:
            node = node[name]
        if kind != "extra_forbidden" or "_target_" not in node:  # else it is an argument
            value = node.get(path[-1], MISSING)
            yield Fault(".".join(path), value, kind, f"but it must {reason}")


def _of_classes(node: Mapping[str, Any], prefix: str = "") -> Iterator[Fault]:
    """Yield the arguments, at or below a node, that are wrong or that their class does not have."""
    target = str(node.get("_target_", ""))
    group = prefix.partition(".")[0]
    given = set(node) - set(HYDRAS) - set(ABOUT.get(group, ()))
    hints: dict[str, Any] = {"**": Any}
    if target and given and not target.startswith(SLOW):
        try:
            hints = arguments(target)
        except Exception as error:  # importing a user's module may raise any error
            reason = f"but it cannot be imported: {error.__cause__ or error}".partition("\n")[0]
            yield Fault(f"{prefix}_target_", target, "import", reason)
    for name, value in node.items():
        if name in HYDRAS:
            continue
        key = f"{prefix}{name}"
        is_unknown = "**" not in hints and name in given and name not in hints
        if is_unknown and value is not None:
            reason = f"but the arguments of {target} are {', '.join(hints)}"
            yield Fault(key, value, "argument", reason)
        else:
            yield from _of_argument(key, value, hints.get(name))


def _of_argument(key: str, value: Any, hint: Any) -> Iterator[Fault]:
    """Yield what is wrong with an argument, or with the arguments of the classes below it; `hint`
    is its type, None if that is not known.
    """
    if isinstance(value, dict) and (hint is None or "_target_" in value):
        yield from _of_classes(value, f"{key}.")
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for number, each in enumerate(value):
            if isinstance(each, dict):
                yield from _of_classes(each, f"{key}.{number}.")
    elif hint is not None and value == MISSING:
        yield Fault(key, value, "missing")
    elif hint is not None:
        wrong = misfits(value, hint)
        if wrong:
            _, kind, reason = wrong[0]
            yield Fault(key, value, kind, f"but it must {reason}")


def _in_words(wrong: Iterable[Fault], raw: Mapping[str, Any], given: Collection[str]) -> list[str]:
    """Return a message for each wrong setting, once for a value that several settings repeat.

    A task's settings for its own `embed`, `rnn` and head are ignored if others are chosen.
    """
    lines: dict[str, str] = {}
    values = dict(leaves(raw))
    for fault in wrong:
        key = fault.key
        if fault.kind == "extra_forbidden" and _is_referenced(key, raw):
            continue
        is_anothers = key.startswith(("embed.", "rnn.", "task.model.")) and key not in given
        if fault.kind == "argument" and is_anothers:
            continue
        origin = _origin(key, values)
        lines.setdefault(origin, _message(fault, origin, values))
    return list(lines.values())


def _origin(key: str, values: Mapping[str, Any]) -> str:
    """Return the key under which a setting's value stands, which others repeat by reference.

    >>> _origin("trainer.max_epochs", {"trainer.max_epochs": "${fit.max_epochs}"})
    'fit.max_epochs'
    """
    repeated = re.fullmatch(r"\$\{([\w.]+)\}", str(values.get(key)))
    return _origin(repeated[1], values) if repeated else key


def _is_referenced(key: str, raw: Mapping[str, Any]) -> bool:
    return bool(re.search(rf"\$\{{(oc\.select:'?)?{re.escape(key)}\b", str(raw)))


def _message(fault: Fault, key: str, values: Mapping[str, Any]) -> str:
    """Return what is wrong with a setting whose value stands under a key."""
    value, reason = fault.value, fault.reason
    if value == MISSING:
        return f"{key} is missing: set {key}=VALUE"
    if fault.kind == "none_required" and isinstance(value, dict):  # +GROUP.KEY=VALUE
        lines = [unknown_key(f"{key}.{name}", shown(own), values) for name, own in value.items()]
        return "\n".join(lines)
    if fault.kind == "extra_forbidden":
        others = [each for each in values if not below(each, (key,))]
        return unknown_key(key, shown(value), others)
    if key != fault.key:
        reason = reason.replace("but it must", f"but {fault.key} must")
    if reason.endswith(" must be a list"):
        reason += f": {key}=[{shown(value)}]"
    if fault.kind == "string_type" and type(value) in (int, float):
        reason += f"; quote a name that is a number: {key}=\"'{value}'\""
    return f"{key}={shown(value)}, {reason}"


def applied_options(cfg: DictConfig) -> list[str]:
    """Return a line for the task's settings for a corpus, for each setting of the command that has
    no effect without layers, and for texts that are read apart where one sequence was asked for.
    """
    given = overridden(cfg)
    lines = list[str]()
    of_corpus = str(choices(cfg).get("task/for"))
    if _option(cfg, "task/for", of_corpus):
        lines.append(
            f"settings for this corpus: conf/task/for/{of_corpus}.yaml; ~task/for leaves them out"
        )
    if is_baseline(cfg):
        for key in ("finetune", "elmo.mix"):
            if given.get(key, "none") != "none":
                lines.append(f"{key}={given[key]} has no effect without layers: encoder=none")
    if reads_apart(cfg):
        lines.append(f"encoder={cfg.encoder.name} reads an example's texts apart: task.joint=false")
    return lines


def about_sweep(cfg: DictConfig) -> list[str]:
    """Return what the file of the chosen sweep says of it: the comment at its beginning."""
    name = str(choices(cfg).get("sweep"))
    for source in _sources(cfg):
        path = Path(source.path, "sweep", f"{name}.yaml")
        if path.is_file():
            lines: list[str] = []
            for line in path.read_text(encoding="utf-8").splitlines():
                if line.startswith("# @"):
                    continue
                if not line.startswith("# "):
                    break
                lines.append(f"sweep={name}: {line[2:]}")
            return lines
    return []


def _option(cfg: DictConfig, group: str, name: str) -> dict[str, Any]:
    """Return the values of an option that refers to no other; none if its file is not found."""
    for source in _sources(cfg):
        path = Path(source.path, group, f"{name}.yaml")
        if path.is_file():
            return OmegaConf.to_container(OmegaConf.load(path))  # type: ignore[return-value]
    return {}


def _sources(cfg: DictConfig) -> list[Any]:
    """Return the folders and packages of options, in Hydra's order."""
    hydra = composition(cfg)
    sources = hydra.runtime.config_sources if hydra else ()
    return [source for source in sources if source.provider not in ("hydra", "schema")]


def _unknown_for_corpus(cfg: DictConfig) -> Iterator[str]:
    """Yield a message if the command chooses settings for a corpus that no file has: Hydra would
    silently ignore it.
    """
    chosen = overridden(cfg).get("task/for", "")
    is_left_out = chosen in ("", "null", "[]")  # in a sweep, ~task/for is ~task/for=null
    if not is_left_out and not _option(cfg, "task/for", chosen):
        yield (
            f"task/for={chosen}, but there is no conf/task/for/{chosen}.yaml; ~task/for leaves out "
            "a task's settings for a corpus"
        )


def _of_hydra(cfg: DictConfig) -> Iterator[str]:
    """Yield what is wrong with Hydra's own settings."""
    hydra = composition(cfg)
    if hydra and hydra.job.chdir:
        yield (
            "hydra.job.chdir=true would look for relative paths in the folder of the run: leave it "
            "out; a run writes into that folder in any case"
        )


def _overruled(cfg: DictConfig, raw: Any, config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the command line asks for in vain, since an experiment or a recipe decides it."""
    given = overridden(cfg)
    is_training = OmegaConf.select(cfg, "job.name") == "train"
    metric = (config.get("data") or {}).get("metric")
    if is_training and metric and not _is_referenced("data.metric", raw):
        yield f"data.metric has no effect on task={config['task']['name']}: set task.monitor"
    optimizer = given.get("optimizer", "")
    for name, value in _option(cfg, "optimizer", optimizer).items():
        key = f"task.optimizer.{name}"
        trained_with = config["task"]["optimizer"].get(name)
        if name != "_partial_" and trained_with != value and key not in given:
            yield (
                f"optimizer={optimizer} sets {key}={shown(value)}, but the experiment sets "
                f"{shown(trained_with)}: add {key}=VALUE"
            )


def _of_corpus(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with a corpus that is not of the task."""
    name = config["task"]["name"]
    data = config["data"]
    read = (data.get("read") or {}).get(name) or {}
    by_split = read if isinstance(read, dict) else {read: {}}
    for split, options in by_split.items():
        if split not in SPLITS or not isinstance(options, dict | None):
            yield (
                f"data.read.{name}: {split} is none of its splits with options, such as "
                f"data.read.{name}.train.OPTION=VALUE"
            )
    tasks = data.get("tasks") or [name]
    if name not in tasks:
        yield (
            f"data={data.get('name')} is a corpus of task={' or task='.join(tasks)}, not of "
            f"task={name}; data.tasks=[{name}] says that it is, too"
        )


def _together(config: Mapping[str, Any], job: str, given: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with several settings together, when each is right."""
    yield from _of_folders_and_names(config)
    yield from _of_trainer(config, given)
    yield from _of_folds(config, job, given)
    is_tuned = "draw_seed" in config
    if ("budget" in config or "seeds" in config) and not is_tuned:
        yield "budget and seeds are settings of sweep=tune: add that to the command"
    if config["elmo"]["adapt"] and job in ("embed", "perplexity", "probe"):
        yield (
            "elmo.adapt=true requires a run with a task, whose log names the folder of the "
            "adapted biLM: encoder=files encoder.dir=FOLDER reads it"
        )
    if job == "pretrain":
        yield from _of_pretraining(config, given)
    if job == "train":
        yield from _of_corpus(config)
        yield from _of_model(config, given)
        yield from _of_joint(config)
        yield from _of_monitor(config, given)


def _of_folders_and_names(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the folders that are files, and the names that would control a terminal."""
    for key in ("data_dir", "cache_dir", "outputs_dir"):
        if Path(config[key]).expanduser().is_file():
            yield f"{key}={config[key]} {not_a_folder(config[key])}"
    for key in ("task", "data", "encoder"):
        name = str(config[key].get("name"))
        if name != plain(name):
            yield f"{key}.name={plain(name)} has a control character: leave it out"


def _of_folds(config: Mapping[str, Any], job: str, given: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the fold, or with what would be read beside folds in vain."""
    data = config["data"]
    folds = data.get("folds")
    fold = data.get("fold")
    if folds is None:
        if fold is not None:
            yield f"data.fold={fold} is one of data.folds: add data.folds=10, or leave it out"
        return
    if fold is not None and fold > folds:
        yield f"data.fold={fold}, but it must be from 1 to data.folds={folds}"
    if job in JOBS and job not in ("train", *WITHOUT_A_MODEL):
        yield f"data.folds={folds} is for training, but job={job} reads whole files: leave it out"
    if "overfit" in config["fit"]:
        yield (
            f"data.folds={folds} has no effect with trainer=overfit, which has no test set: leave "
            "one of them out"
        )
    if data.get("held_out") and "data.held_out" in given:
        yield (
            f"data.held_out={shown(data['held_out'])} has no effect with data.folds={folds}, of "
            "which one is dev: leave it out"
        )


def _of_trainer(config: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:
    """Yield the settings of Lightning's Trainer that are set elsewhere."""
    trainer = config["trainer"]
    # Schedules read only `fit.max_epochs`.
    if "trainer.max_epochs" in given and "limit_train_batches" not in trainer:
        epochs = shown(trainer["max_epochs"])
        yield f"trainer.max_epochs={epochs} repeats a setting: write fit.max_epochs={epochs}"
    for key, ours in OWN_SETTING.items():
        if trainer.get(key) is not None:
            yield f"trainer.{key} would not be read: set {ours}"


def _of_pretraining(config: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:
    """Yield the settings that `job=pretrain` does not read."""
    devices = config["trainer"]["devices"]
    number = len(devices) if isinstance(devices, list) else devices
    if number not in ("auto", 1):
        yield f"trainer.devices={shown(devices)}, but job=pretrain uses one"
    unread = ("encoder", "fit", "optimizer", "schedule", "trainer.precision")
    for key in given:
        if below(key, unread):
            yield f"{key} is not read by job=pretrain, which has bilm, bilm_optimizer and pretrain"


def _of_model(config: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:
    """Yield what a model would read in vain, or lack."""
    encoder = config["encoder"]
    embed = config["embed"]
    finetune = config["finetune"]
    vectors = config["vocab"]["vectors"]
    is_bilm = {"options", "weights"} <= encoder.keys() and encoder.get("pretrained", True)
    if config["elmo"]["adapt"] and not is_bilm and not is_baseline(config):
        yield (
            f"elmo.adapt=true, but encoder={encoder['name']} is no pretrained biLM: "
            "elmo.adapt=false reads it as it is"
        )
    if embed.get("word_dim") == 0 and vectors:
        yield (
            "embed.word_dim=0 with vocab.vectors: vocab.vectors=null leaves out x_k "
            "(encoder=static reads encoder.vectors=FILE)"
        )
    is_adadelta = config["task"]["optimizer"]["_target_"].endswith(".Adadelta")
    if is_adadelta and finetune["name"] != "none" and "finetune.lr" not in given:
        yield (
            f"finetune.lr={finetune['lr']} is for Adam, but the task trains with "
            "Adadelta: add optimizer=adam, or finetune.lr=RATE"
        )
    has_words = vectors or embed.get("word_dim", 1) or "char_dim" in embed
    has_layers = not is_baseline(config) and "input" in config["elmo"]["at"]
    if not has_words and not has_layers:
        yield (
            "embed.word_dim=0 without an encoder at the input: the task has no input; set "
            "embed.word_dim or elmo.at=[input]"
        )


def _of_joint(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is wrong with reading the texts of an example in one sequence, or apart."""
    task = config["task"]
    joint = bool(task.get("joint"))
    model = task["model"]["_target_"]
    needs = getattr(locate(model), "needs_joint", None)  # None: it reads both
    if joint and "joint" not in arguments(f"{task['data']}.read"):
        yield f"task.joint=true, but {task['data']} cannot read several texts in one sequence"
    elif needs not in (joint, None):
        yield f"task.joint={shown(joint)}, but {model} needs task.joint={shown(needs)}"
    elif needs and reads_apart(config):
        yield (
            f"encoder={config['encoder']['name']} reads texts apart, but {model} needs them in "
            "one sequence: choose encoder=bert_base, say, or another head"
        )


def _of_monitor(config: Mapping[str, Any], given: Collection[str]) -> Iterator[str]:
    """Yield what is wrong with the figure by which the best epoch is chosen. Lightning looks for it
    only after the first epoch.
    """
    task = config["task"]
    monitor = task["monitor"]
    figures = _figures(task["metric"])
    is_of_a_label = "/" in monitor  # LABEL/METRIC
    if figures and not is_of_a_label and monitor not in figures:
        yield f"task.monitor={monitor}, but it must be {listed(figures, 'or')}"
    elif "task.monitor" in given and "task.monitor_title" not in given:
        yield (
            f"task.monitor={monitor} would be {task['monitor_title']!r} in reports: add "
            "task.monitor_title=NAME"
        )


def _figures(metric: Mapping[str, Any]) -> list[str]:
    """Return the names of a metric's figures; none of a user's that needs examples."""
    settings = {key: value for key, value in metric.items() if key not in HYDRAS and value}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics warns of a metric without examples
        try:
            return list(locate(metric["_target_"])((), **settings).compute())
        except Exception:
            return []
