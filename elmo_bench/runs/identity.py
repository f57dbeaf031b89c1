"""When two runs are the same: effective settings and the contents of their files are equal."""

import hashlib
import json
from collections.abc import Iterator, Mapping, MutableMapping
from functools import cache
from pathlib import Path
from pydoc import locate
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench.files import hash_file

DIGITS = 16  # hexadecimal digits of a sha256
ELSEWHERE = ("run_dir", "outputs_dir", "data_dir", "cache_dir", "resume", "num_workers", "logger")
# Settings that are not part of an experiment: where and how it runs (the device changes the last
# digits), what other settings repeat, and names of files (their contents count).
NOT_IDENTITY = (
    *ELSEWHERE,
    "text",
    *("trainer.accelerator", "trainer.profiler", "trainer.log_every_n_steps"),
    *("trainer.enable_progress_bar", "trainer.enable_model_summary"),
    *("budget", "seeds"),
    *("by_finetune", "published", "dry_run", "oversubscribe", "job.name", "checkpoint", "out"),
    *("store.mode", "store.max_bytes", "fit.save_minutes"),
    *("task.published", "task.title", "task.monitor_title", "task.suffix", "task.elmo"),
    *("task.batch_size", "task.batch_scores", "task.max_epochs", "task.patience"),
    *("task.gradient_clip", "task.gradient_clip_algorithm"),
    *("data.files", "data.origin", "data.tasks", "data.downloads", "data.note"),
    "trained_on.labels",  # of earlier runs, null in all that are kept
    *("vocab.vectors", "vocab.origin"),
)
# Names of files of our encoders; those of users may mean something else by these keys.
OUR_ENCODER_FILES = ("encoder.dir", "encoder.options", "encoder.weights", "encoder.vectors")


def identity_of(cfg: DictConfig, inputs: Mapping[str, str]) -> str:
    """Return two digests, of a config and of its files' hashes: equal for the same run."""
    config = resolved(cfg)
    settings = acting(config) | {"data.labels": None}  # which all runs once had
    for key in _names_of_files(config):
        settings.pop(key, None)
    return f"{digest(settings)}-{digest(inputs)}"


def _names_of_files(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys that here only name files, whose contents count; with other values they are
    part of the identity.
    """
    data, encoder = config.get("data") or {}, config.get("encoder") or {}
    if "name" in data and data["name"] == (data.get("files") or {}).get("train"):
        yield "data.name"
    for key in ("model", "adapter") * _is_ours(config):  # or names on the hub
        if (folder := encoder.get(key)) and Path(str(folder)).expanduser().is_dir():
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
    without = tuple(idle(config))
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
    return OmegaConf.to_container(content, resolve=True)  # type: ignore[return-value]


def is_baseline(config: Mapping[str, Any]) -> bool:
    """Whether a config has no layers, through either the encoder or elmo.mix."""
    return config["elmo"]["mix"] == "none" or "_target_" not in config["encoder"]


def as_baseline(config: MutableMapping[str, Any]) -> None:
    """Normalise a config without layers in place, so that all such configs are the same run."""
    config["elmo"]["mix"], config["encoder"] = "none", {"name": "none"}


def reads_apart(config: Mapping[str, Any]) -> bool:
    """Whether `task.joint` asks for texts in one sequence, but the encoder reads them apart."""
    if not config["task"].get("joint"):
        return False
    encoder = None if is_baseline(config) else locate(config["encoder"]["_target_"])
    return not getattr(encoder, "reads_joined", False)


def acting(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a resolved config that affect results, by their dotted keys."""
    without = (*NOT_IDENTITY, *OUR_ENCODER_FILES * _is_ours(config), *idle(config))
    found = {key: value for key, value in leaves(config) if not below(key, without)}
    if isinstance(devices := found.get("trainer.devices"), list):  # which ones is where it runs
        found["trainer.devices"] = len(devices)
    return found


def _is_ours(config: Mapping[str, Any]) -> bool:
    target = (config.get("encoder") or {}).get("_target_", "elmo_bench.")
    return str(target).startswith("elmo_bench.")


def idle(config: Mapping[str, Any]) -> Iterator[str]:
    """Return the keys that have no effect given the values of others."""
    settings = dict(leaves(config))
    mix = settings.get("elmo.mix")
    if mix == "none":  # the baseline
        yield from (key for key in settings if below(key, ("elmo",)) and key != "elmo.mix")
        yield from ("finetune", "store")
    # The defaults before these settings existed.
    later = ("tf32", "data.labels", "data.held_out", "task.joint")
    yield from (key for key in later if not settings.get(key))
    if settings.get("trial") is None:
        yield "trial"
    if not settings.get("elmo.adapt") or mix == "none":
        yield "adapt"
    # A single share is 1 for any logit; a uniform mix has no logits.
    if mix != "all" and not (isinstance(mix, list) and len(mix) > 1):
        yield from ("elmo.mix_lr", "elmo.l2")
    is_finetuned = settings.get("finetune.name", "none") != "none"
    is_exact = settings.get("store.dtype") == "float32"
    if is_finetuned or is_exact or settings.get("store.mode") == "off":
        yield "store.dtype"
    unset = (key for key, value in settings.items() if value is None)
    yield from (key for key in unset if below(key, ("task.optimizer", "data.columns")))
    yield "task.scheduler" if "schedule._target_" in settings else "schedule"
    if settings.get("vocab.vectors"):
        yield "embed.word_dim"
    else:
        yield from ("embed.freeze", "vocab.lowercase", "vocab.unit_vectors")


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
    """Return the sha256 of each file."""
    about = {name: (path.resolve(), path.stat()) for name, path in files.items()}
    return {name: _hash(path, it.st_size, it.st_mtime_ns) for name, (path, it) in about.items()}


@cache
def _hash(path: Path, size: int, modified: int) -> str:  # a sweep asks for each run
    return hash_file(path)
