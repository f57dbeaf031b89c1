"""When two runs are the same: equal settings, of those that act, and equal contents of files.

Two notions must not be confused. A setting is *without effect* if no value of it could change this
run, such as `elmo.l2` of a baseline: it is no part of the run, and no report compares it. A setting
is *at its default* if it has the value that runs had before the setting existed, such as
`tf32=false`: an identity leaves it out, so that identities outlive new settings, but a report takes
it for the value that it is.
"""

import copy
import hashlib
import json
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from pydoc import locate
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench.files import hash_content, read_json

DIGITS = 16  # hexadecimal digits of a sha256
ELSEWHERE = ("run_dir", "outputs_dir", "data_dir", "cache_dir", "resume", "num_workers", "logger")
# Settings that are not part of an experiment: where and how it runs (the device changes the last
# digits), what other settings repeat, and names of files (their contents count).
NOT_IDENTITY = (
    *ELSEWHERE,
    "text",
    "trainer.accelerator",
    "trainer.profiler",
    "trainer.log_every_n_steps",
    "trainer.enable_progress_bar",
    "trainer.enable_model_summary",
    "budget",
    "seeds",
    "by_finetune",
    "published",
    "dry_run",
    "oversubscribe",
    "job.name",
    "checkpoint",
    "out",
    "store.mode",
    "store.max_bytes",
    "fit.save_minutes",
    "task.published",
    "task.title",
    "task.monitor_title",
    "task.suffix",
    "task.esim",  # which task.model repeats
    "task.gradient_clip",
    "task.gradient_clip_algorithm",
    "data.files",
    "data.origin",
    "data.tasks",
    "data.downloads",
    "data.note",
    "data.metric",  # which task.monitor and task.metric repeat
    "vocab.vectors",
    "vocab.origin",
)
# Settings that are newer than the first kept runs, with the value of a run that lacks them.
EARLIER: dict[str, Any] = {
    "tf32": False,
    "trial": None,
    "draw_seed": None,
    "data.held_out": None,
    "trained_on.held_out": None,
    "data.folds": None,
    "data.fold": None,
    "trained_on.folds": None,
    "trained_on.fold": None,
    "task.joint": False,
}
# Below these keys null means the default of a class; a run that lacks such a key has null.
NULLABLE = ("task.optimizer", "data.columns", "trained_on.columns")
# Precisions of Lightning that are written in several ways.
PRECISIONS = {
    None: "32-true",
    32: "32-true",
    "32": "32-true",
    64: "64-true",
    "64": "64-true",
    16: "16-mixed",
    "16": "16-mixed",
    "bf16": "bf16-mixed",
}
CONVERTING = ("16-true", "bf16-true", "64-true")  # precisions of all weights, not only of products
# Transformers whose config says how many layers they have above the embeddings.
COUNTED_TRANSFORMERS = ("bert", "roberta", "xlm-roberta", "electra", "deberta-v2")
# Names of files of our encoders; those of users may mean something else by these keys.
OUR_ENCODER_FILES = ("encoder.dir", "encoder.options", "encoder.weights", "encoder.vectors")


def identity_of(cfg: DictConfig, inputs: Mapping[str, str], num_layers: int | None = None) -> str:
    """Return two digests, of a config and of its files' hashes: equal for the same run.

    With `num_layers`, the number of the encoder's layers, `elmo.mix=top` is the same run as the
    number of the top layer.
    """
    config = resolved(cfg)
    _name_layers(config, num_layers)
    left_out = set(at_default(config))
    left_out.update(_names_of_files(config))
    settings = {key: value for key, value in acting(config).items() if key not in left_out}
    return f"{digest(settings)}-{digest(inputs)}"


def num_layers_in(files: Mapping[str, Path]) -> int | None:
    """Return the number of an encoder's layers by its files, as a run names them; None if they do
    not say it.
    """
    if "encoder.vectors" in files:
        return 1
    options = files.get("encoder.options")
    transformer_config = files.get("encoder.config.json")
    try:
        if options:
            return int(read_json(options)["lstm"]["n_layers"]) + 1
        if transformer_config:
            config = read_json(transformer_config)
            if config["model_type"] in COUNTED_TRANSFORMERS:
                return int(config["num_hidden_layers"]) + 1
    except (OSError, ValueError, TypeError, KeyError):  # loading the encoder reports it
        pass
    return None


def _name_layers(config: dict[str, Any], num_layers: int | None) -> None:
    """Write the layers of `elmo.mix` in one way: the top layer as `top`, a single one as its
    number, several in order, and every layer as `all`.
    """
    if "elmo" not in config:  # of a job of one's own, say
        return
    mix = config["elmo"]["mix"]
    if isinstance(mix, list):
        mix = mix[0] if len(mix) == 1 else sorted(mix)
    if num_layers is not None:
        if mix == num_layers - 1 or (num_layers == 1 and mix in ("all", "uniform")):
            mix = "top"
        elif mix == list(range(num_layers)):
            mix = "all"
    config["elmo"]["mix"] = mix


def _names_of_files(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that here only name files, whose contents count; with other values they are
    part of the identity.
    """
    data = config.get("data") or {}
    files = data.get("files") or {}
    if "name" in data and data["name"] == files.get("train"):
        yield "data.name"
    if not _is_ours(config):
        return
    encoder = config.get("encoder") or {}
    for key in ("model", "adapter"):
        folder = encoder.get(key)
        # Otherwise it is a name on the hub.
        if folder and Path(str(folder)).expanduser().is_dir():
            yield f"encoder.{key}"


def smoke_batches(config: Mapping[str, Any]) -> int | None:
    """Return the number of training batches of a smoke run; None for a run of all of them, or of a
    share.

    >>> smoke_batches({"trainer": {"limit_train_batches": 2}}), smoke_batches({"trainer": {}})
    (2, None)
    """
    limit = (config.get("trainer") or {}).get("limit_train_batches")
    return limit if isinstance(limit, int) else None


def settings_digest(cfg: DictConfig) -> str:
    """Return a digest of every setting except those without effect and the run's folder: runs of a
    sweep with equal digests are one run, but runs that differ in num_workers are not.
    """
    config = resolved(cfg, unknown=("run_dir",))
    _name_layers(config, None)
    without = tuple(without_effect(config))
    return digest({key: value for key, value in leaves(config) if not below(key, without)})


def resolved(cfg: DictConfig, unknown: tuple[str, ...] = ELSEWHERE) -> dict[str, Any]:
    """Return the resolved config; `unknown` keys, which a run may not know yet, are null. A config
    without layers is that of the baseline, and one that `reads_apart` does not ask for more.
    """
    content = OmegaConf.masked_copy(cfg, [str(key) for key in cfg if key != "hydra"])
    OmegaConf.set_struct(content, False)
    content.update(dict.fromkeys(unknown))
    if "elmo" in content and reads_apart(content):
        content.task.joint = False
    if "elmo" in content and is_baseline(content):
        as_baseline(content)
    config: Any = OmegaConf.to_container(content, resolve=True)
    return written_alike(config)


def written_alike(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resolved config in which equal settings are written in one way, and settings newer
    than the config have the value that they then had.
    """
    alike = copy.deepcopy(dict(config))
    trainer = alike.get("trainer") or {}
    elmo = alike.get("elmo") or {}
    if "precision" in trainer:
        precision = trainer["precision"]
        trainer["precision"] = PRECISIONS.get(precision, precision)
    if trainer.get("gradient_clip_val") == 0:  # Lightning does not clip then
        trainer["gradient_clip_val"] = None
    if isinstance(trainer.get("devices"), list):  # which ones is where it runs
        trainer["devices"] = len(trainer["devices"])
    if isinstance(elmo.get("at"), list):
        elmo["at"] = sorted(elmo["at"])
    for key, value in EARLIER.items():
        *sections, name = key.split(".")
        section = alike
        for section_name in sections:
            section = section.get(section_name) or {}
        if section:  # a made-up config may lack whole sections
            section.setdefault(name, value)
    fold = fold_of(alike)
    if fold is not None:
        alike["data"]["fold"] = fold
    return alike


def fold_of(config: Mapping[str, Any]) -> int | None:
    """Return the number of the fold that a run is tested on, from 1: `data.fold`, or that of the
    seed; None without `data.folds`, or without a seed.

    >>> fold_of({"data": {"folds": 10}, "seed": 10}), fold_of({"data": {"folds": 10}, "seed": 11})
    (10, 1)
    """
    data = config.get("data") or {}
    folds = data.get("folds")
    fold = data.get("fold")
    seed = config.get("seed")
    if folds is None:
        return None
    if fold is None and seed is not None:
        return int((seed - 1) % folds + 1)
    return fold  # type: ignore[no-any-return]


def is_baseline(config: Mapping[str, Any]) -> bool:
    """Whether a config has no layers, through either the encoder or elmo.mix."""
    return config["elmo"]["mix"] == "none" or "_target_" not in config["encoder"]


def as_baseline(config: MutableMapping[str, Any]) -> None:
    """Normalise a config without layers in place, so that all such configs are the same run."""
    config["elmo"]["mix"] = "none"
    config["encoder"] = {"name": "none"}


def reads_apart(config: Mapping[str, Any]) -> bool:
    """Whether `task.joint` asks for texts in one sequence, but the encoder reads them apart."""
    if not config["task"].get("joint"):
        return False
    if is_baseline(config):
        return True
    # A class, whose `Encoder.reads_joined` it is, or a function; this room imports neither.
    encoder = locate(config["encoder"]["_target_"])
    return not getattr(encoder, "reads_joined", False)


def acting(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a resolved config that affect results, by their dotted keys."""
    left_out = set(NOT_IDENTITY)
    left_out.update(without_effect(config))
    if _is_ours(config):
        left_out.update(OUR_ENCODER_FILES)
    precision = (config.get("trainer") or {}).get("precision")
    if precision in CONVERTING and "store" not in left_out:
        left_out.discard("store.mode")  # the encoder's weights are converted only without a store
    without = tuple(left_out)
    return {key: value for key, value in leaves(config) if not below(key, without)}


def _is_ours(config: Mapping[str, Any]) -> bool:
    target = (config.get("encoder") or {}).get("_target_", "elmo_bench.")
    return str(target).startswith("elmo_bench.")


def without_effect(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys, of settings or of whole sections, that no value could give an effect, given
    the values of others.
    """
    settings = dict(leaves(config))
    mix = settings.get("elmo.mix")
    is_mixed = mix == "all" or (isinstance(mix, list) and len(mix) > 1)
    if mix == "none":  # the baseline
        yield from (key for key in settings if below(key, ("elmo",)) and key != "elmo.mix")
        yield from ("finetune", "store", "task.joint")
    if not settings.get("elmo.adapt") or mix == "none":
        yield "adapt"
    if settings.get("data.folds") is None:
        yield "data.fold"
    else:
        yield "data.held_out"  # a fold is dev
    if "budget" not in settings:  # the space is for sweep=tune
        yield "tune"
    # A single share is 1 for any logit; a uniform mix has no logits.
    if not is_mixed:
        yield from ("elmo.mix_lr", "elmo.l2")
    # No layers are kept of an encoder that trains, and a table of vectors is its own store.
    is_finetuned = settings.get("finetune.name", "none") != "none"
    is_static = str(settings.get("encoder._target_")).startswith("elmo_bench.encoders.static.")
    is_smoke = smoke_batches(config) is not None
    if is_finetuned or is_static or is_smoke or settings.get("store.mode") == "off":
        yield "store.dtype"
    if "schedule._target_" in settings:
        yield "task.scheduler"
    if settings.get("trainer.gradient_clip_val") is None:
        yield "trainer.gradient_clip_algorithm"
    if settings.get("vocab.vectors"):
        yield "embed.word_dim"
    else:
        yield from ("embed.freeze", "vocab.lowercase", "vocab.unit_vectors")


def drawn_space(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the space of each key that `sweep=tune` draws; none for all other runs."""
    if "budget" not in config:
        return {}
    space = dict(leaves(config.get("tune") or {}))
    return {key: values for key, values in space.items() if values is not None}


def at_default(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys of settings that have the value of runs from before the setting existed."""
    for key, value in leaves(config):
        is_unset = value is None and below(key, NULLABLE)
        if is_unset or (key in EARLIER and value == EARLIER[key]):
            yield key
    if (config.get("schedule") or {}).get("name") == "constant":
        yield "schedule.name"
    if (config.get("store") or {}).get("dtype") == "float32":
        yield "store.dtype"


def leaves(node: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Return dotted keys such as `elmo.mix`, with their values."""
    for key, value in node.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def below(key: str, keys: tuple[str, ...]) -> bool:
    """Whether a dotted key is one of the keys or below one."""
    return f"{key}.".startswith(tuple(f"{one}." for one in keys))


def digest(content: Mapping[str, Any]) -> str:
    """Return the first digits of a hash of some settings; 1 equals 1.0."""
    values = {key: float(value) if type(value) is int else value for key, value in content.items()}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()[:DIGITS]


def hash_files(files: Mapping[str, Path]) -> dict[str, str]:
    """Return the sha256 of each file's content; that of a `.gz` is of what it unpacks to, so that a
    text and its `.gz` are one corpus.
    """
    hashes: dict[str, str] = {}
    for name, path in files.items():
        about = path.stat()
        hashes[name] = _hash(path.resolve(), about.st_size, about.st_mtime_ns)
    return hashes


@cache
def _hash(path: Path, size: int, modified: int) -> str:  # a sweep asks for each run
    return hash_content(path)
