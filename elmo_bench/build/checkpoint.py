"""The content of a checkpoint besides its weights: the model's config, vocabulary, corpus, and the
encoder that it read.

All of it is plain data and may come from a stranger: names of options in conf/, local paths, our
own classes and settings. It contains no interpolations, since each could read something outside the
file. The weights of a frozen, pretrained encoder are not stored: an option of conf/encoder or a
path names its files, and a fingerprint tells whether they are unchanged.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, cast

from annotated_types import MaxLen
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from elmo_bench import build
from elmo_bench.build import texts
from elmo_bench.runs import check_types
from elmo_bench.settings import check, command, inputs
from elmo_bench.terminal import not_a_file
from elmo_bench.text import Vocab, forms
from elmo_bench.training.checkpoint import load, refusing
from elmo_bench.training.module import TaskModule

from .trusted import ADDRESS, check_plain, check_task, corpus, local_path, nodes, options

log = logging.getLogger(__name__)
KEY = "elmo_bench"
# The parts of a config that define the model.
MODEL = ("task", "embed", "rnn", "encoder", "finetune", "elmo", "vocab")
# Modules whose classes it may name.
OURS = ("elmo_bench.nn.", "elmo_bench.metrics.", "tasks.")
CALLED = ("_target_", "_partial_")
LABELS = 16_384  # tables of which label may follow which are square: 1 GB
CONFIG_PARTS = {f"{KEY}.config.{part}": dict[str, Any] for part in MODEL}
# The parts of a checkpoint, and their types.
PARTS: dict[str, Any] = {
    "state_dict": dict[str, Tensor],
    **CONFIG_PARTS,
    f"{KEY}.vocab.words": list[str],
    f"{KEY}.vocab.labels": Annotated[list[str], MaxLen(LABELS)],
    f"{KEY}.vocab.lowercase": bool | Literal["fallback"],
    f"{KEY}.encoder": str | None,
    f"{KEY}.run.config.task": dict[str, Any],
    f"{KEY}.run.config.trainer": dict[str, Any],
    f"{KEY}.run.config.data": dict[str, Any],
    f"{KEY}.run.config.seed": int,
    f"{KEY}.run.parameters": dict[str, int],
    f"{KEY}.run.inputs": dict[str, str],
}


def describe(parts: build.Parts) -> dict[str, Any]:
    """Return what `restore` needs, resolved; paths below data_dir are relative to it."""
    cfg = parts.config
    resolved: Any = OmegaConf.to_container(cfg, resolve=True)
    config = {part: resolved[part] for part in (*MODEL, "data")}
    config["data"]["option"] = command.choices(cfg).get("data", cfg.data.name)
    # conf/ determines an encoder's class and what is downloaded.
    config["encoder"] = {}
    for key, value in resolved["encoder"].items():
        if key not in ("_target_", "defaults") and not isinstance(value, dict):
            config["encoder"][key] = value
    if parts.vectors:
        config["embed"]["word_dim"] = len(next(iter(parts.vectors.values())))
        files = [file.removeprefix(f"{cfg.data_dir}/") for file in inputs.vector_files(cfg)]
        config["vocab"]["vectors"] = files if len(files) > 1 else files[0]
    encoder = parts.elmo.encoder if parts.module.encoder_is_elsewhere else None
    return {
        "config": config,
        "vocab": parts.vocab.state(),
        "encoder": None if encoder is None else encoder.fingerprint(),
    }


class Restored(NamedTuple):
    """A model that has been trained: its config, module and vocabulary, and the `content` of its
    checkpoint besides the weights.
    """

    config: DictConfig
    module: TaskModule
    vocab: Vocab
    content: dict[str, Any]


def restore(cfg: DictConfig) -> Restored:
    """Return what `cfg.checkpoint` and the command line describe.

    The checkpoint defines the model; the command line defines everything else (data, trainer, ...)
    and may change single settings of the model, such as `encoder.weights=FILE` for files that have
    moved. With `data=checkpoint` the checkpoint defines the corpus, too. Raises ValueError for a
    file that is not a checkpoint of elmo-bench, refers to code or files that it may not use, or was
    trained with another encoder.
    """
    path = Path(cfg.checkpoint)
    source = f"checkpoint={cfg.checkpoint}"
    content, weights = _load(path, source)
    config = _config(cfg, content["config"], source)
    with refusing(path, "its settings, with the command line's"):
        faults = check.faults_of(config, (*MODEL, "data"))
        if faults:
            raise ValueError("; ".join(faults))
    state = content["vocab"]
    vocab = Vocab(state["words"], state["labels"], lowercase=state["lowercase"])
    with refusing(path, "its model, with the command line's settings"):
        elmo = build.elmo(config)
        with _no_larger_than(weights):
            module = build.module(config, build.model(config, vocab, {}, elmo), vocab)
    if module.encoder_is_elsewhere and elmo.encoder.fingerprint() != content.get("encoder"):
        raise ValueError(
            f"{source} was trained with another version of encoder={config.encoder.name}: its "
            "files or the way it reads text have changed since; train the model again"
        )
    module.on_load_checkpoint({"state_dict": weights})
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise ValueError(
            f"{source} does not fit the model that its settings and the command line describe: "
            f"{error}"
        ) from error
    return Restored(config, module, vocab, content)


def _load(path: Path, source: str) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Read the file: its content besides the weights, which is plain data, and these."""
    if not path.is_file():
        raise FileNotFoundError(f"{source}: {not_a_file(path)}")
    checkpoint = load(path)
    kind = "not a checkpoint of elmo-bench, such as a best.ckpt of job=train"
    check_types(checkpoint, PARTS, f"{source}: {kind}")
    for part in ("config", "run"):
        check_plain(checkpoint[KEY][part], source)
    return checkpoint[KEY], checkpoint["state_dict"]


@contextmanager
def _no_larger_than(weights: Mapping[str, Tensor]) -> Iterator[None]:
    """Raise ValueError if the model built in the block has far more parameters than these weights,
    before memory for the parameters is allocated. Each counts as its numbers and 1000 more.
    """
    left = 2 * sum(tensor.numel() + 1000 for tensor in weights.values()) + 1_000_000

    def count(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        nonlocal left
        left -= 1000
        if parameter is not None:
            left -= parameter.numel()
        if left < 0:
            raise ValueError("its settings describe a model far larger than its weights")

    hook = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        hook.remove()


def extend(
    cfg: DictConfig, module: TaskModule, vocab: Vocab, sentences: Iterable[Sequence[str]]
) -> None:
    """Add the vectors of `vocab.vectors` for words not seen in training.

    If the file of vectors is missing, log a warning; such words are then unknown to the model.
    """
    files = inputs.vector_files(cfg)
    missing = [file for file in files if not Path(file).expanduser().is_file()]
    if missing:
        log.warning(
            "vocab.vectors=%s does not exist, so words not seen in training are unknown, even if "
            "they have a vector; set vocab.vectors=FILE to the file's current path",
            missing[0],
        )
        return
    words = set(chain.from_iterable(sentences))
    of_vocab = set(vocab.words)
    if files and any(not of_vocab.issuperset(forms(word, vocab.lowercase)) for word in words):
        # Training words too: a file without any is a different one.
        vectors = texts.read_word_vectors(cfg, of_vocab | words)
        new = {form: vector for form, vector in vectors.items() if form not in of_vocab}
        if new:
            vocab.extend(new)
            module.model.backbone.embed.extend(new)
        log.info("vocab.vectors has %d of the words not seen in training", len(new))


def _config(cfg: DictConfig, stored: dict[str, Any], source: str) -> DictConfig:
    """Return the command line's config with the checkpoint's model and its single settings."""
    model = {part: dict(stored[part]) for part in MODEL}
    # Settings of training, which are not needed and thus not trusted.
    model["task"] |= {"scheduler": None, "callbacks": [], "optimizer": None}
    check_task(model["task"], source)
    _check_targets(model, source)
    model["task"]["optimizer"] = cfg.task.optimizer
    model["encoder"] = _encoder(cfg, model["encoder"], source)
    vectors = model["vocab"].get("vectors") or []
    for file in vectors if isinstance(vectors, list) else [vectors]:
        local_path(file, source)
    config = cfg.copy()
    OmegaConf.set_struct(config, False)
    config.update(model)
    _override(config, cfg, source)
    if cfg.data.name == "checkpoint":
        config.data = corpus(cfg, stored.get("data"), source)
    return config


def _override(config: DictConfig, cfg: DictConfig, source: str) -> None:
    """Apply the command line's single settings; ValueError for one that it cannot change."""
    for key in command.overridden(cfg):
        part, _, setting = key.partition(".")
        is_same = key in ("task", "encoder") and cfg[key].name == config[key].name
        if key in MODEL and not is_same:
            raise ValueError(
                f"{key}= was given, but {source} defines it, for task={config.task.name} and "
                f"encoder={config.encoder.name}: leave {key}= out ({key}.KEY=VALUE changes a "
                "single setting)"
            )
        if key == "vocab.vectors" and not config.vocab.get("vectors"):
            raise ValueError(
                f"vocab.vectors={cfg.vocab.vectors}, but {source} was trained without vectors: "
                "leave it out"
            )
        if part in MODEL and setting:
            OmegaConf.update(config, key, OmegaConf.select(cfg, key))


def _check_targets(node: Any, source: str) -> None:
    """Raise ValueError for a `_target_`, at any depth, that is not one of our classes or would be
    called in another way.
    """
    for _, value in nodes(node):
        if not isinstance(value, dict):
            continue
        for key in value:
            if key.startswith("_") and key not in CALLED:
                raise ValueError(f"{source}: its config contains an invalid key: {key[:100]}")
        target = str(value.get("_target_"))
        if "_target_" in value and not _is_ours(target):
            raise ValueError(
                f"{source}: its config names {target!r}, which is not a class of "
                f"{'* or '.join(OURS)}*"
            )


def _is_ours(target: str) -> bool:
    """Whether it names a class of ours; a name in our modules may be an import from elsewhere."""
    if not target.startswith(OURS) or not re.fullmatch(r"\w+(\.\w+)+", target):
        return False
    try:
        value = get_object(target)
    except Exception:  # importing a wrong name may raise any error
        return False
    is_module = isinstance(value, type) and issubclass(value, nn.Module)
    return is_module and f"{value.__module__}.".startswith(OURS)


def _encoder(cfg: DictConfig, settings: dict[str, Any], source: str) -> dict[str, Any]:
    """Return the encoder's option from conf/encoder or the command line with the checkpoint's
    `settings`: plain values and local paths.
    """
    name = str(settings.get("name"))
    option = _encoder_option(cfg, name, source)
    for key, value in settings.items():
        items = value if isinstance(value, list) else [value]
        is_address = any(isinstance(item, str) and ADDRESS.match(item) for item in items)
        if key not in option or isinstance(value, dict) or is_address:
            raise ValueError(
                f"{source}: its config sets encoder.{key}={value}, but it may only set local paths "
                f"and {', '.join(option)}"
            )
    merged = option | settings
    is_of_option = all(merged.get(key) == option.get(key) for key in ("model", "revision"))
    if not is_of_option:
        _check_model(cfg, name, merged.get("model"), merged.get("revision"), source)
    return merged


def _encoder_option(cfg: DictConfig, name: str, source: str) -> dict[str, Any]:
    """Return the encoder of this name from conf/encoder or the command line."""
    by_name = options("encoder")
    if "encoder" in command.overridden(cfg):
        by_name[cfg.encoder.name] = cast(dict, OmegaConf.to_container(cfg.encoder))
    if name not in by_name:
        raise ValueError(
            f"{source} was trained with encoder={name}, but conf/encoder has only "
            f"{', '.join(sorted(by_name))}; for an encoder of your own, give encoder=OPTION "
            f"encoder.name={name} and, if it is in a folder of yours, --config-dir"
        )
    return by_name[name]


def _check_model(cfg: DictConfig, name: str, model: Any, revision: Any, source: str) -> None:
    """Raise ValueError for a checkpoint's model that may be downloaded from the hub, unless the
    command line names a model and its revision.
    """
    given = command.overridden(cfg)
    if "encoder.model" in given and "encoder.revision" in given:
        return
    used = cfg.encoder.model if "encoder.model" in given else model
    if Path(str(used)).expanduser().is_dir():
        return
    group = given.get("encoder", name)
    same = f"encoder={group}" if group == name else f"encoder={group} encoder.name={name}"
    raise ValueError(
        f"{source} was trained with encoder.model={model}, which is not a local folder: if it "
        f"has moved, add {same} encoder.model=FOLDER; if it is on the hub and you trust it, "
        f"{same} encoder.model={model} encoder.revision={revision or 'null'}"
    )
