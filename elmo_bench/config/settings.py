"""Check the type, range and choices of every setting before anything is read or written.

The settings of a constructor are checked against its signature, also for classes of users; the
types of all others are listed here, in the notation of `elmo_bench.files.bounds`. A setting that
repeats another one (`fit.patience` is the task's by default) is reported once, under the key that
defines its value.
"""

import inspect
import os
import re
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache, reduce
from importlib import import_module
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Union, get_args, get_origin

import yaml
from annotated_types import Ge, Le, MinLen, Predicate
from hydra.experimental.callback import Callback
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from elmo_bench.files import (
    Count,
    Dropout,
    File,
    Folder,
    NotNegative,
    Positive,
    Probability,
    Seed,
    Share,
    Size,
    Text,
)

from .advice import nearest, unknown_key
from .types import fits, may_be, shown

Natural = Annotated[int, Ge(0)]
Places = Annotated[
    list[Literal["input", "output"]], MinLen(1), "[input], [output] or [input,output]"
]
Mix = (
    Literal["all", "top", "uniform", "none"]
    | Annotated[int, Ge(0), "the number of a layer"]
    | Annotated[list[Natural], MinLen(1), "a list of layers such as [0,1]"]
)
Keys = Text | Annotated[list[Text], MinLen(1), "a list of config keys"]
Values = str | int | float | bool | list[str | int | float | bool | list | None] | None
Vectors = File | Annotated[list[File], MinLen(1), "a list of files"]
Formatted = Literal["float32", "float16"]
SPLITS = ("train", "dev", "test")
Split = Literal["train", "dev", "test"]
Betas = Annotated[list[Dropout], MinLen(2), "two numbers from 0 to less than 1"]
Filters = Annotated[
    list[Annotated[list[Size], MinLen(2)]], MinLen(1), "a list of [WIDTH, NUMBER], each 1 or more"
]
Published = Literal["table1", "table2", "table3", "figure1", "figure2"]
NUMBERS = re.compile(r"\d+(,\d+)*")
Numbers = Annotated[str, Predicate(NUMBERS.fullmatch), "numbers such as '0,1'"]
MISSING = "???"
TYPES: dict[str, Any] = {
    "seed": Seed,
    "fraction": Share,
    "num_workers": Literal["auto"] | Annotated[int, Ge(0), Le(1024)],
    "tf32": bool,
    "data_dir": Folder,
    "cache_dir": Folder,
    "outputs_dir": Folder,
    "run_dir": Folder | None,
    "resume": bool,
    "dry_run": bool,
    "optimizer": None,
    "oversubscribe": bool,
    "cache.max_bytes": NotNegative | None,
    "task.name": Text,
    "task.title": Text,
    "task.data": Annotated[str, MinLen(1), "a module such as tasks.ner.data"],
    "task.suffix": Annotated[str, MinLen(1), "the end of a file's name"],
    "task.monitor": Text,
    "task.monitor_title": Text,
    "task.batch_size": Count,
    "task.batch_scores": Count | None,
    "task.max_epochs": Count,
    "task.patience": Count,
    "task.gradient_clip": NotNegative | None,
    "task.gradient_clip_algorithm": Literal["norm", "value"],
    "task.optimizer.lr": Positive,
    "task.optimizer.rho": Probability | None,
    "task.optimizer.eps": Positive | None,
    "task.optimizer.betas": Betas | None,
    "task.optimizer.weight_decay": NotNegative | None,
    "fit.batch_size": Count,
    "fit.batch_tokens": Count | None,
    "fit.batch_scores": Count | None,
    "fit.max_epochs": Count,
    "fit.patience": Count,
    "fit.save_minutes": NotNegative,
    "fit.overfit": Count,
    "data.name": Text | int | None,
    "data.origin": Text,
    "data.option": Text,
    "data.labels": dict | None,
    "data.tasks": list[Text],
    "data.read": dict,
    "data.downloads": dict,
    "data.size": Count,
    "data.files.train": File | None,
    "data.files.dev": File | None,
    "data.files.test": File | None,
    "vocab.vectors": Vectors | None,
    "vocab.origin": Text,
    "vocab.lowercase": bool | Literal["fallback"],
    "vocab.unit_vectors": bool,
    "vocab.min_count": Count,
    "elmo.mix": Mix,
    "elmo.at": Places,
    "elmo.l2": NotNegative,
    "elmo.dropout": Dropout,
    "elmo.mix_lr": Positive | None,
    "elmo.norm": Literal["none", "batch", "word"],
    "elmo.finetune": bool,
    "elmo.lr": NotNegative,
    "elmo.lr_decay": Share,
    "elmo.unfreeze": Literal["all", "gradual"],
    "elmo.lora": Size | None,
    "elmo.cache": Literal["auto", "device", "off"],
    "elmo.cache_dtype": Formatted,
    "elmo.adapt": bool,
    "adapt.epochs": Count,
    "adapt.batch_size": Count,
    "adapt.unroll": Count,
    "adapt.lr": Positive,
    "adapt.warmup": Natural,
    "adapt.dropout": Dropout,
    "adapt.gradient_clip": Positive,
    "adapt.full_up_to": Natural,
    "adapt.samples": Count,
    "adapt.bf16": bool,
    "adapt.seed": Seed,
    "encoder.name": Text,
    "encoder.dir": Folder | None,
    "schedule.name": Text,
    "trainer.accelerator": Literal["auto", "cpu", "gpu", "cuda", "mps", "tpu", "hpu"],
    "trainer.devices": Count | Literal["auto", -1] | list[Natural] | Numbers,
    "trainer.num_nodes": Count,
    "trainer.strategy": Text,
    "trainer.precision": Literal[
        *("32-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "64-true"),
        *(32, 16, 64, "bf16", "transformer-engine", "transformer-engine-float16", None),
    ],
    "trainer.max_epochs": Count | Literal[-1],
    "trainer.gradient_clip_val": NotNegative | None,
    "trainer.gradient_clip_algorithm": Literal["norm", "value"],
    "trainer.deterministic": bool | Literal["warn"],
    "trainer.num_sanity_val_steps": Annotated[int, Ge(-1)],
    "trainer.enable_progress_bar": bool,
    "trainer.log_every_n_steps": Natural,
    "trainer.limit_train_batches": Natural | Probability | None,
    "trainer.limit_val_batches": Natural | Probability | None,
    "trainer.limit_test_batches": Natural | Probability | None,
    "trainer.accumulate_grad_batches": Count,
    "trainer.fast_dev_run": Literal[False],  # trainer=smoke also keeps and tests a checkpoint
}
JOBS: dict[str, dict[str, Any]] = {  # settings of single jobs
    "train": {"run_dir": Folder, "out": Folder | None},  # out: of job=card, whose runs are these
    "evaluate": {"run_dir": Folder, "checkpoint": File, "split": Split},
    "predict": {"checkpoint": File, "input": File, "output": File},
    "score": {"gold": File, "predicted": File},
    "diff": {
        "a": Folder,
        "b": Folder,
        "split": Split,
        "metric": Text | None,
        "limit": Natural,
        "output": File | None,
    },
    "report": {
        "runs": Vectors,
        "rows": Keys | None,
        "columns": Keys,
        "baseline": Values,
        "where": dict | None,
        "split": Literal["test", "dev"] | None,
        "metric": Text | None,
        "equal_within": Positive | None,
        "paired": bool,
        "paper": Published | None,
        "tables": dict | None,
        "title": Text | None,
        "output": Vectors | None,
    },
    "keep": {"runs": Vectors, "output": File},
    "embed": {
        "input": File,
        "output": File,
        "layers": Literal["all", "top", "average", "mix"],
        "result": File | None,
        "place": Literal["input", "output"],
        "dtype": Formatted,
        "sentence_to_index": bool,
        "batch_tokens": Count,
    },
    "export": {"output": File, "dtype": Formatted},
    "perplexity": {
        "input": File,
        "state": Literal["zero", "carried"],
        "streams": Count,
        "batch_tokens": Count,
        "per_token": File | None,
    },
    "neighbours": {
        "input": File,
        "sentence": Text,
        "word": Annotated[str | int, "a word of the sentence, or its position from 0"],
        "layer": Literal["top"] | Annotated[int, Ge(0), "the number of a layer"],
        "count": Count,
    },
    "cache": {"clear": Text | list[Text]},
    "ontonotes": {"ldc": Folder, "skeletons": Folder, "out": Folder},
    "probe": {
        "probe.train": File | None,
        "probe.test": File | None,
        "probe.max_sentences": Count,
        "probe.seeds": Count,
        "probe.steps": Count,
        "probe.lr": Positive,
    },
    "adapt": {"out": Folder},
    "pretrain": {
        "run_dir": Folder,
        "out": Folder,
        "pretrain.epochs": Count,
        "pretrain.max_steps": Count | None,
        "pretrain.batch_size": Count,
        "pretrain.unroll": Count,
        "pretrain.state": Literal["zero", "carried"],
        "pretrain.vocabulary": Count | None,
        "pretrain.min_count": Count,
        "pretrain.softmax": Literal["auto", "full", "sampled"],
        "pretrain.full_up_to": Natural,
        "pretrain.samples": Count,
        "pretrain.dropout": Dropout,
        "pretrain.precision": Literal[32, "bf16"],
        "pretrain.save_every": Count,
        "pretrain.validate_every": Count | None,
        "pretrain.dev_sentences": Count | None,
        "pretrain.resume": Literal["auto", "never"],
        "pretrain.start": Literal["frequencies", "random"],
        "pretrain.lr": Positive,
        "pretrain.cosine": bool,
        "pretrain.warmup": Natural,
        "pretrain.gradient_clip": Positive,
        "pretrain.loss_scale": Positive,
        "bilm.cell_size": Size,
        "bilm.projection_size": Size,
        "bilm.num_layers": Annotated[int, Ge(1), Le(64)],
        "bilm.filters": Filters,
        "bilm.num_highway": Annotated[int, Ge(0), Le(64)],
        "bilm.char_dim": Size,
        "bilm.directions": Annotated[
            list[Literal["forward", "backward"]],
            MinLen(1),
            "[forward], [backward] or [forward,backward]",
        ],
        "bilm_optimizer.name": Text,
        "text.name": Text,
        "text.size": Count,
        "text.tokenize": bool,
        "text.vocabulary": Count | None,
        "text.files.train": File,
        "text.files.dev": File | None,
        "text.files.test": File | None,
    },
}
JOBS["paper"] = JOBS["report"]
# Sections that are never a single value. (`optimizer` and others may be the choice of a group.)
SECTIONS = {
    *(key.rpartition(".")[0] for types in (TYPES, *JOBS.values()) for key in types),
    *("embed", "rnn", "task.model", "task.metric", "job"),
    *("logger.csv", "logger.tensorboard", "logger.wandb"),
}
# Sections whose settings are all listed above: a user adds none.
CLOSED = ("fit", "cache", "vocab", "elmo", "adapt", "pretrain", "probe")
UNTYPED = ("published", "task.callbacks", "task.scheduler", "task.read", "task.published")
WITHOUT_A_MODEL = (
    "report",
    "keep",
    "score",
    "diff",
    "cache",
    "ontonotes",
)  # jobs that build no model
OPTIONAL = ("recipe", "recipe/paper", "head")  # groups with an option that may be absent
OURS = ("elmo_bench.", "tasks.", "torch.optim.lr_scheduler.")  # modules with exact type hints
SLOW = (
    "pytorch_lightning.",
    "elmo_bench.average.",
)  # slow to import; they check their settings themselves
HYDRAS = ("_target_", "_partial_", "_convert_", "_recursive_", "_args_")
ABOUT = {
    "encoder": ("name", "dir"),
    "schedule": ("name",),
    "job": ("name",),
}  # settings that are not arguments


class Setting(NamedTuple):
    """A setting: its dotted key, value and type; `fault` if no value would be valid."""

    key: str
    value: Any
    hint: Any = Any
    fault: str = ""


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
    job = str(OmegaConf.select(cfg, "job.name"))
    own = dict.fromkeys(("outputs_dir", "run_dir", "hydra.run.dir", "hydra.sweep.dir"), Folder)
    for key, hint in (own | JOBS.get(job, {})).items():
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
    types = TYPES | JOBS.get(job, {})
    # Check the command line before the slow imports for the rest.
    given = {key for key, _ in _given(cfg)}
    parts = {key.partition(".")[0] for key in given if "." in key}
    wrong += [*_unknown_keys(resolved, types), *_added(cfg, raw, types)]
    wrong += [*_for_another(resolved, job), *_epochs(resolved, given)]
    wrong += _wrong([*_settings(resolved, types, parts), *_of_tables(resolved)], raw, given)
    if not wrong and job not in WITHOUT_A_MODEL:
        wrong = _wrong(_settings(resolved, types, resolved), raw, given)
    if not wrong and job == "train":
        wrong = [*_nothing_to_read(resolved), *_unknown_monitor(resolved["task"])]
    return wrong or [*_no_folder(cfg)]


def faults_of(cfg: DictConfig, parts: Collection[str]) -> list[str]:
    """Like `faults`, for some parts of a config, such as "elmo"."""
    raw, resolved = _plain(cfg)
    chosen = {part: resolved[part] for part in parts}
    return _wrong(_settings(chosen, TYPES, parts), raw, ())


def _wrong(
    settings: Iterable[Setting], raw: Mapping[str, Any], given: Collection[str]
) -> list[str]:
    """Return the messages for wrong settings, only once for a value that several settings repeat.

    A task's settings for its own `embed` and `rnn` are ignored if others are chosen.
    """
    lines: dict[str, str] = {}
    for setting in settings:
        key = _origin(setting.key, raw)
        came = f"{key}={shown(setting.value)}"
        if setting.fault and key.startswith(("embed.", "rnn.")) and key not in given:
            continue
        if setting.fault:
            lines.setdefault(key, f"{came}, {setting.fault}")
        elif setting.value == MISSING:
            lines.setdefault(key, f"{key} is missing: set {key}=VALUE, {may_be(setting.hint)}")
        elif not fits(setting.value, setting.hint):
            if key in TYPES and fits(setting.value, TYPES[key]):  # wrong only where it is repeated
                key, came = setting.key, f"{setting.key}={shown(setting.value)}"
            advice = _of_another_kind(key, setting)
            lines.setdefault(key, f"{came}, but it must be {may_be(setting.hint)}{advice}")
    return [*lines.values()]


def _of_another_kind(key: str, setting: Setting) -> str:
    """Return advice for a number in place of a name, or a string in place of a number."""
    value = setting.value
    if type(value) in (int, float) and fits(str(value), setting.hint):
        return f"; quote a name that is a number: {key}=\"'{value}'\""
    if isinstance(value, str) and value.isdigit() and fits(int(value), setting.hint):
        return "; this is a string; ${oc.decode:...} makes it a number"
    return ""


def _plain(cfg: DictConfig) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the config without Hydra's own part, raw and resolved."""
    content = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    OmegaConf.set_struct(content, False)
    raw: Any = OmegaConf.to_container(content)
    if "${hydra:" in str(raw.get("run_dir")):  # unknown until Hydra has created the folder
        content.run_dir = "."
    resolved: Any = OmegaConf.to_container(content, resolve=True)
    for split in SPLITS if OmegaConf.select(content, "task.read") else ():
        if isinstance(options := resolved["task"]["read"].get(split), dict):
            options["_target_"] = f"{resolved['task']['data']}.read"
    return raw, resolved


def _given(cfg: DictConfig) -> list[tuple[str, str]]:
    """Return the keys and values of the command line."""
    overrides: Any = OmegaConf.to_container(cfg.hydra.overrides.task) if "hydra" in cfg else []
    pairs = [override.partition("=") for override in overrides]
    return [(key.lstrip("+~"), value) for key, _, value in pairs]


def _unknown_options(cfg: DictConfig) -> Iterator[str]:
    """Yield a message for each unknown option that Hydra would silently ignore."""
    sources = cfg.hydra.runtime.config_sources if "hydra" in cfg else []
    paths = [source.path for source in sources if source.provider not in ("hydra", "schema")]
    folders = [Path(path.removeprefix("file://")) for path in paths]
    for group, value in _given(cfg):
        # Only Hydra knows the contents of a package.
        if group not in OPTIONAL or not all(map(Path.is_dir, folders)):
            continue
        chosen = yaml.safe_load(value)
        names = {path.stem for folder in folders for path in (folder / group).glob("*.yaml")}
        for name in chosen if isinstance(chosen, list) else [chosen]:
            if name is not None and name not in names:
                options = ", ".join(sorted(names))
                yield f"{group}={name}, but it must be {options}; ~{group} removes the group"


def _unknown_keys(config: Mapping[str, Any], types: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each key that a + or a user's config adds where nothing would read it."""
    nodes = {section: config.get(section) for section in CLOSED}
    keys = [
        f"{name}.{key}" for name, node in nodes.items() if isinstance(node, dict) for key in node
    ]
    for key in keys:
        if key not in types:
            near = nearest(key, types)
            yield f"there is no setting {key}{f'; did you mean {near}?' if near else ''}"


def _added(cfg: DictConfig, raw: Mapping[str, Any], types: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for each key that a + adds and that neither a type, a class nor another
    setting asks for.
    """
    overrides: Any = OmegaConf.to_container(cfg.hydra.overrides.task) if "hydra" in cfg else []
    if not str(OmegaConf.select(cfg, "job._target_")).startswith("elmo_bench."):
        return  # a user's job reads what it likes
    text = str(raw)
    for override in overrides:
        if override.startswith("~") and (key := override[1:].partition("=")[0]) in types:
            yield f"{override} removes a setting that a run needs: write {key}=VALUE"
        key, _, value = override.lstrip("+").partition("=")
        above = [key[: match.start()] for match in re.finditer(r"\.|$", key)]
        if (
            not override.startswith("+")
            or (key in cfg.hydra.runtime.choices and not _is_of_a_job(key, types))
            or key.partition(".")[0] in CLOSED  # refused elsewhere
            or any(each in types or each in UNTYPED for each in above)
            or any("_target_" in (_at(raw, each) or ()) for each in above)
            or re.search(rf"\$\{{(oc\.select:)?{re.escape(key)}\b", text)
        ):
            continue
        from elmo_bench.runs import leaves  # slow to import

        others = [leaf for leaf, _ in leaves(raw) if not leaf.startswith(f"{key}.")]
        yield unknown_key(key, value, [*types, *others], JOBS)


def _is_of_a_job(group: str, types: Mapping[str, Any]) -> bool:
    """Whether some job has the settings of a group, but not the one with these types."""
    sections = [{key.partition(".")[0] for key in each} for each in (types, *JOBS.values())]
    return group not in sections[0] and any(group in each for each in sections[1:])


def _at(node: Any, key: str) -> Any:
    """Return the dictionary at a dotted key; None for anything else."""
    for name in key.split("."):
        node = node.get(name) if isinstance(node, dict) else None
    return node if isinstance(node, dict) else None


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
    """Yield a message for a number of epochs that schedules and estimates do not know of."""
    trainer = config.get("trainer")
    if isinstance(trainer, dict) and "trainer.max_epochs" in given:
        epochs = trainer.get("max_epochs")
        if type(epochs) is int and epochs > 0 and "limit_train_batches" not in trainer:
            yield f"trainer.max_epochs={epochs} repeats a setting: write fit.max_epochs={epochs}"


def _no_folder(cfg: DictConfig) -> Iterator[str]:
    """Yield a message for a folder whose path is taken by a file."""
    for key in ("outputs_dir", "cache_dir", "hydra.run.dir"):
        path = Path(OmegaConf.select(cfg, key) or ".").expanduser()
        present = next((part for part in (path, *path.parents) if part.exists()), None)
        if present and not present.is_dir():
            yield f"{key}={path}, but {present} is a file: give a folder, which may be new"
            return  # the others are below it


def _nothing_to_read(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message for a baseline without word representations, which would have no input, and
    for an encoder that is to be adapted but is no biLM.
    """
    encoder = config["encoder"]
    is_baseline = config["elmo"]["mix"] == "none" or "_target_" not in encoder
    is_bilm = {"options", "weights"} <= encoder.keys() and encoder.get("pretrained", True)
    if config["elmo"]["adapt"] and not is_baseline and not is_bilm:
        yield (
            f"elmo.adapt=true, but encoder={encoder['name']} is no pretrained biLM: "
            "elmo.adapt=false reads it as it is"
        )
    embed, has_vectors = config["embed"], config["vocab"]["vectors"]
    if is_baseline and not has_vectors and not embed["word_dim"] and "char_dim" not in embed:
        yield "embed.word_dim=0 without an encoder: the task has no input; set one of them"


def _unknown_monitor(task: Mapping[str, Any]) -> Iterator[str]:
    """Yield a message if the task monitors neither a metric of its own nor that of a label."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torchmetrics warns of compute() before update()
        try:
            settings = {key: each for key, each in task["metric"].items() if key not in HYDRAS}
            names = [*_imported(task["metric"]["_target_"])((), **settings).compute()]
        except Exception:  # a metric that cannot compute before an update
            return
    if task["monitor"] not in names and "/" not in task["monitor"]:
        yield f"task.monitor={task['monitor']}, but it must be {', '.join(names)}"


def _settings(
    node: Mapping[str, Any], types: Mapping[str, Any], parts: Collection[str], prefix: str = ""
) -> Iterator[Setting]:
    """Yield every setting at or below a node that has a type or is invalid in any case.

    For `parts` of the config this includes the arguments of classes, which are imported for that.
    """
    part = prefix.partition(".")[0]
    target = str(node.get("_target_", ""))
    own = {*node} - {*HYDRAS, *ABOUT.get(part, ())}
    arguments: Mapping[str, Any] | None = None
    if target and own and part in parts and not target.startswith(SLOW):
        try:
            arguments = _arguments(target)
        except Exception as error:  # importing a user's module may raise any error
            reason = str(error).partition("\n")[0]
            yield Setting(f"{prefix}_target_", target, fault=f"but it cannot be imported: {reason}")
    is_open = arguments is None or "**" in arguments
    for name, value in node.items():
        key = f"{prefix}{name}"
        if name in HYDRAS:
            continue
        if key in SECTIONS and not isinstance(value, dict):
            yield Setting(key, value, dict)
        elif arguments and not is_open and name in own - {*arguments} and value is not None:
            names = ", ".join(arguments)
            yield Setting(key, value, fault=f"but the arguments of {target} are {names}")
        elif key in types and not (isinstance(value, dict) and "_target_" in value):
            yield Setting(key, value, types[key])
        elif isinstance(value, dict) and (
            "_target_" in value or not (arguments and name in arguments)
        ):
            yield from _settings(value, types, parts, f"{key}.")
        elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
            for number, each in enumerate(value):
                if isinstance(each, dict):
                    yield from _settings(each, types, parts, f"{key}.{number}.")
        elif arguments and name in arguments:
            yield Setting(key, value, arguments[name])


def _of_tables(config: Mapping[str, Any]) -> Iterator[Setting]:
    """Yield the settings of each table of a report, which are those of the report."""
    tables, types = config.get("tables"), JOBS["report"]
    for title, table in tables.items() if isinstance(tables, dict) else ():
        for key, value in table.items() if isinstance(table, dict) else ():
            if key in types:
                yield Setting(f"tables.{title}.{key}", value, types[key])


@cache
def _arguments(target: str) -> dict[str, Any]:
    """Return the arguments of a `_target_` and their types; ** if it accepts others.

    Types are checked only for our own classes: others may accept more than their hints say.
    """
    called = _imported(target)
    try:
        signature = inspect.signature(called, eval_str=True)
    except NameError:  # hints only for type checkers
        signature = inspect.signature(called)
    parameters = signature.parameters.values()
    hints = {
        "**" if each.kind is each.VAR_KEYWORD else each.name: each.annotation for each in parameters
    }
    is_ours = target.startswith(OURS)
    return {name: hint if is_ours and _is_exact(hint) else Any for name, hint in hints.items()}


def _imported(target: str) -> Any:
    """Import a dotted name: an attribute of a module, or of a class in it."""
    names = target.split(".")
    for count in range(len(names) - 1, 0, -1):
        try:
            module = import_module(".".join(names[:count]))
        except ModuleNotFoundError as error:
            if count == 1 or not f"{target}.".startswith(f"{error.name}."):
                raise
        else:
            return reduce(getattr, names[count:], module)
    raise ModuleNotFoundError(f"No module named {target!r}")


def _is_exact(hint: Any) -> bool:
    """Whether a hint describes all values from a config; a path, tuple or enumeration comes as
    something else.
    """
    origin = get_origin(hint)
    if origin is Annotated:
        return _is_exact(get_args(hint)[0])
    if origin in (Union, UnionType):
        either_is_right = {Path} if str in get_args(hint) else set()
        return all(part in either_is_right or _is_exact(part) for part in get_args(hint))
    if origin in (list, Sequence):
        return all(map(_is_exact, get_args(hint)))
    return origin is Literal or hint in (int, float, bool, str, type(None), None, list, dict)


def _origin(key: str, raw: Any) -> str:
    """Return the key whose value this one repeats, or the key itself."""
    node: Any = raw
    for name in key.split("."):
        if not isinstance(node, dict) or name not in node:
            return key
        node = node[name]
    repeated = re.fullmatch(r"\$\{([\w.]+)\}", node) if isinstance(node, str) else None
    return _origin(repeated[1], raw) if repeated else key
