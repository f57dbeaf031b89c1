"""The content of a checkpoint besides its weights: the model's config, vocabulary, corpus, and the
encoder that it read.

All of it is plain data and may come from a stranger: names of options in conf/, local paths, our
own classes and settings. It contains no interpolations, since each could read something outside the
file. The weights of a frozen, pretrained encoder are not stored: an option of conf/encoder or a
path names its files, and a fingerprint tells whether they are unchanged.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from elmo_bench.text import FALLBACK, UNKNOWN, Vocab, forms
from elmo_bench.training import load, refusing
from elmo_bench.training.module import TaskModule

from . import build, check, inputs
from .trusted import ADDRESS, check_plain, check_task, corpus, described, options, places
from .types import misfits

log = logging.getLogger(__name__)
KEY = "elmo_bench"
# The parts of a config that define the model.
MODEL = ("task", "embed", "rnn", "encoder", "finetune", "elmo", "vocab")
# Modules whose classes it may name.
OURS = ("elmo_bench.nn.", "elmo_bench.training.metrics.", "tasks.")
PARTS = ("config", "vocab")  # of a checkpoint, beside the fingerprint of its encoder
CALLED = ("_target_", "_partial_")
LABELS = 16_384  # tables of which label may follow which are square: 1 GB


def describe(
    cfg: DictConfig, vocab: Vocab, vectors: Mapping[str, np.ndarray], module: TaskModule
) -> dict[str, Any]:
    """Return what `restore` needs, resolved. Paths below data_dir are stored relative to it, so
    that they are valid on another machine.
    """
    resolved: Any = OmegaConf.to_container(cfg, resolve=True)
    config = {part: resolved[part] for part in MODEL}
    config["encoder"] = {  # conf/ determines its class and what is downloaded
        key: value
        for key, value in config["encoder"].items()
        if key not in ("_target_", "defaults") and not isinstance(value, dict)
    }
    if vectors:
        config["embed"]["word_dim"] = len(next(iter(vectors.values())))
        files = [file.removeprefix(f"{cfg.data_dir}/") for file in inputs.vector_files(cfg)]
        is_list = isinstance(config["vocab"]["vectors"], list)
        config["vocab"]["vectors"] = files if is_list else files[0]
    option = inputs.choices().get("data", cfg.data.name)
    return {
        "config": config | {"data": described(resolved["data"], option)},
        "vocab": vocab.state(),
        "encoder": module.elmo.encoder.fingerprint() if module.encoder_is_elsewhere else None,
    }


def restore(cfg: DictConfig) -> tuple[DictConfig, TaskModule, Vocab]:
    """Return the config, the model and the vocabulary of `cfg.checkpoint`.

    The checkpoint defines the model; the command line defines everything else (data, trainer, ...)
    and may change single settings of the model, such as `encoder.weights=FILE` for files that have
    moved. With `data=checkpoint` the checkpoint defines the corpus, too. Raises ValueError for a
    file that is not a checkpoint of elmo-bench, refers to code or files that it may not use, or was
    trained with another encoder.
    """
    path = Path(cfg.checkpoint)
    checkpoint = _load(path)
    content, weights = checkpoint[KEY], checkpoint["state_dict"]
    config = _config(cfg, content["config"], path)
    with refusing(path, "its settings, with the command line's"):
        if wrong := check.faults_of(config, MODEL):
            raise ValueError("; ".join(wrong))
    vocab = _vocab(content["vocab"], path)
    with refusing(path, "its model, with the command line's settings"):
        elmo = build.elmo(config)
        with _no_larger_than(weights):
            module = build.module(config, build.model(config, vocab, {}, elmo), vocab)
    if module.encoder_is_elsewhere and elmo.encoder.fingerprint() != content["encoder"]:
        raise ValueError(
            f"checkpoint={path} was trained with another version of "
            f"encoder={config.encoder.name}: its files or the way it reads text have "
            "changed since"
        )
    module.content = {KEY: content}
    module.on_load_checkpoint({"state_dict": weights})
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(
            f"checkpoint={path} does not fit the model that its settings and the command "
            f"line describe: {error}"
        ) from error
    return config, module, vocab


def _load(path: Path) -> dict[str, Any]:
    """Read the file. Raises ValueError if it does not have the parts of our checkpoints."""
    if not path.is_file():
        raise FileNotFoundError(f"checkpoint={path}: no such file")
    checkpoint = load(path)
    content = checkpoint.get(KEY)
    parts = content if isinstance(content, dict) and "encoder" in content else {}
    has_parts = all(isinstance(parts.get(part), dict) for part in PARTS)
    if not has_parts or "state_dict" not in checkpoint:
        raise ValueError(
            f"checkpoint={path}: not a checkpoint of elmo-bench, such as a best.ckpt of job=train"
        )
    return checkpoint


def trained(content: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """Return what a checkpoint says about the run that trained it. Raises ValueError if that is not
    plain data of the right form.
    """
    source, run = f"checkpoint={path}", content.get("run") or {}
    check_plain(run, source)
    config = run.get("config") if isinstance(run, dict) else None
    parts = ("task", "trainer", "data")
    if not isinstance(config, dict) or not all(isinstance(config.get(p), dict) for p in parts):
        raise ValueError(f"{source}: the config of its run lacks {', '.join(parts)}")
    if type(config.get("seed")) is not int:
        raise ValueError(f"{source}: its run.config.seed is not an integer")
    for key, hint in (("parameters", dict[str, int]), ("inputs", dict[str, str])):
        if misfits(run.get(key, {}), hint):
            kind = "integers" if key == "parameters" else "strings"
            raise ValueError(f"{source}: its run.{key} is not a mapping to {kind}")
    return dict(run)


@contextmanager
def _no_larger_than(weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Raise ValueError if the model built in the block has far more parameters than these weights,
    before memory for the parameters is allocated.
    """
    numbers = 2 * sum(tensor.numel() for tensor in weights.values()) + 1_000_000
    tensors = 2 * len(weights) + 1000

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal numbers, tensors
        tensors -= 1
        numbers -= 0 if parameter is None else parameter.numel()
        if min(numbers, tensors) < 0:
            raise ValueError("its settings describe a model far larger than its weights")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def _vocab(state: dict[str, Any], path: Path) -> Vocab:
    """Return the vocabulary. Raises ValueError for an invalid state."""
    texts = [state.get("words"), state.get("labels")]
    is_valid = state.keys() == {"words", "labels", "lowercase"} and all(
        isinstance(each, list) and all(isinstance(text, str) for text in each) for each in texts
    )
    if not is_valid or state["lowercase"] not in (True, False, FALLBACK):
        raise ValueError(
            f"checkpoint={path}: its {KEY}.vocab must be lists of strings, words and labels, and "
            f"lowercase, which is true, false or {FALLBACK}"
        )
    if len(state["labels"]) > LABELS:
        raise ValueError(f"checkpoint={path}: {len(state['labels']):,} labels; at most {LABELS:,}")
    return Vocab(**state)


def extend(
    cfg: DictConfig, module: TaskModule, vocab: Vocab, sentences: Iterable[Sequence[str]]
) -> None:
    """Add the vectors of `vocab.vectors` for words not seen in training, and log how many there
    are.

    If the file of vectors is missing, log a warning; such words are then unknown to the model.
    """
    if not (files := inputs.vector_files(cfg)):
        return
    counts = Counter(word for sentence in sentences for word in sentence)
    unknown, percent = _unknown(counts, vocab)
    if missing := [file for file in files if not Path(file).expanduser().is_file()]:
        log.warning(
            "vocab.vectors=%s does not exist: all %d of %d words not seen in training "
            "(%.1f %% of the text) are unknown to the model, even if they have a vector; "
            "set vocab.vectors=FILE to the file's current path",
            *(missing[0], unknown, len(counts), percent),
        )
        return
    known = set(vocab.words)
    if {form for word in counts for form in forms(word, vocab.lowercase)} - known:
        vectors = build.vectors(
            cfg, known | counts.keys()
        )  # with training words: a file without any is a different one
        if new := {form: vector for form, vector in vectors.items() if form not in known}:
            vocab.extend(new)
            module.model.backbone.embed.extend(new)
    still, still_percent = _unknown(counts, vocab)
    log.info(
        "%d of %d words were not seen in training, %.1f %% of the text; vocab.vectors has "
        "%d of them; %.1f %% of the text stays unknown",
        *(unknown, len(counts), percent, unknown - still, still_percent),
    )


def _unknown(counts: Counter[str], vocab: Vocab) -> tuple[int, float]:
    """Return the number of words that a vocabulary does not contain, and their percentage of the
    text.
    """
    unknown = [count for word, count in counts.items() if vocab.word_id(word) == UNKNOWN]
    return len(unknown), 100 * sum(unknown) / max(counts.total(), 1)


def _config(cfg: DictConfig, stored: dict[str, Any], path: Path) -> DictConfig:
    """Return the command line's config with the checkpoint's model, to which single settings of the
    command line still apply.
    """
    source = f"checkpoint={path}"
    check_plain(stored, source)
    for part in MODEL:
        if not isinstance(stored.get(part), dict):
            raise ValueError(f"{source}: its config has no settings of {part}")
    model = {part: dict(stored[part]) for part in MODEL}
    # Settings of training, which are not needed and thus not trusted.
    model["task"] |= {"optimizer": None, "scheduler": None, "callbacks": []}
    check_task(model["task"], source)
    _check_targets(model, source)
    model["encoder"] = _encoder(cfg, model["encoder"], source)
    if vectors := model["vocab"].get("vectors"):
        files = vectors if isinstance(vectors, list) else [vectors]
        here = [str(places(file, cfg, source)[0]) for file in files]
        model["vocab"]["vectors"] = here if isinstance(vectors, list) else here[0]
    config = cfg.copy()
    OmegaConf.set_struct(config, False)
    for part in MODEL:
        config[part] = OmegaConf.create(model[part])
    config.task.optimizer = cfg.task.optimizer
    _override(config, cfg, stored, path)
    if cfg.data.name == "checkpoint":
        config.data = corpus(cfg, stored.get("data"), source)
    return config


def _override(config: DictConfig, cfg: DictConfig, stored: dict[str, Any], path: Path) -> None:
    """Apply the command line's single settings of the model. Raises ValueError for those that it
    cannot change.
    """
    for key in inputs.overridden(cfg):
        if key == "task" and cfg.task.name != config.task.name:
            raise ValueError(
                f"task={cfg.task.name}, but checkpoint={path} was trained on "
                f"task={config.task.name}: leave out task="
            )
        if key in ("embed", "rnn") or (
            key == "encoder" and cfg.encoder.name != config.encoder.name
        ):
            raise ValueError(
                f"{key}= was given, but checkpoint={path} defines it: leave {key}= out "
                f"({key}.KEY=VALUE changes a single setting)"
            )
        if key == "vocab.vectors" and not stored["vocab"].get("vectors"):
            raise ValueError(
                f"vocab.vectors={cfg.vocab.vectors}, but checkpoint={path} was trained without "
                "vectors"
            )
        if key.partition(".")[0] in MODEL and "." in key:
            OmegaConf.update(config, key, OmegaConf.select(cfg, key))


def _check_targets(node: Any, source: str) -> None:
    """Raise ValueError for a `_target_`, at any depth, that is not one of our classes or would be
    called in another way.
    """
    if isinstance(node, dict):
        if wrong := [key for key in node if key.startswith("_") and key not in CALLED]:
            raise ValueError(f"{source}: its config contains an invalid key: {wrong[0][:100]}")
        if "_target_" in node and not _is_ours(str(node["_target_"])):
            raise ValueError(
                f"{source}: its config names {node['_target_']!r}, which is not a class of "
                f"{'* or '.join(OURS)}*"
            )
    inside = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    for value in inside:
        _check_targets(value, source)


def _is_ours(target: str) -> bool:
    if not target.startswith(OURS) or not re.fullmatch(r"\w+(\.\w+)+", target):
        return False
    try:
        value = get_object(target)
    except Exception:  # importing a wrong name may raise any error
        return False
    # A name in our modules may still be an import from elsewhere.
    is_module = isinstance(value, type) and issubclass(value, nn.Module)
    return is_module and f"{value.__module__}.".startswith(OURS)


def _encoder(cfg: DictConfig, settings: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the encoder's option from conf/encoder or the command line with the checkpoint's
    `settings`: plain values and local paths.
    """
    name, known = str(settings.get("name")), options("encoder")
    if "encoder" in inputs.overridden(cfg):
        known[cfg.encoder.name] = cast(dict, OmegaConf.to_container(cfg.encoder))
    if name not in known and {"options", "weights"} <= settings.keys():
        name = "files"
    if name not in known:
        raise ValueError(
            f"{source} was trained with encoder={name}, but conf/encoder has only "
            f"{', '.join(sorted(known))}; for an encoder of your own, give encoder=NAME and "
            "--config-dir"
        )
    option = known[name]
    for parent in option.pop("defaults", ()):
        option = ({} if parent == "_self_" else known[parent]) | option
    for key, value in settings.items():
        if key not in option or isinstance(value, dict):
            raise ValueError(
                f"{source}: its config sets encoder.{key}, but encoder={name} has only "
                f"{', '.join(option)}"
            )
        if isinstance(value, str) and ADDRESS.match(value):
            raise ValueError(
                f"{source}: its config sets encoder.{key}={value}, but it may only be a local path"
            )
    _check_model(cfg, option, settings, source)
    return option | settings


def _check_model(
    cfg: DictConfig, option: dict[str, Any], settings: dict[str, Any], source: str
) -> None:
    """Raise ValueError if the checkpoint names a model to download that conf/ does not name."""
    keys = ("model", "revision")
    model, revision = (settings.get(key, option.get(key)) for key in keys)
    is_known = [model, revision] == [option.get(key) for key in keys]
    is_given = {"encoder.model", "encoder.revision"} <= inputs.overridden(cfg).keys()
    if not (is_known or is_given or Path(str(model)).expanduser().is_dir()):
        raise ValueError(
            f"{source} was trained with encoder.model={model}, which is not a local folder: if you "
            f"trust it, add encoder={settings['name']} encoder.model={model} "
            f"encoder.revision={revision}"
        )
