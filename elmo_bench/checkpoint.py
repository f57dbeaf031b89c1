"""What a checkpoint holds beside its weights: the model's config, its vocabulary, its corpus, and
which encoder it read.

All of it is plain data, and a stranger's: names of options in conf/, paths of this machine, our own
classes and settings. The weights of a frozen, pretrained encoder are not in it: its files are named
in the config, and a fingerprint tells whether they are still the same.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from elmo_bench import build, inputs
from elmo_bench.module import TaskModule
from elmo_bench.runs import today
from elmo_bench.text import UNKNOWN, Vocab, forms

log = logging.getLogger(__name__)
KEY = "elmo_bench"
MODEL = (
    "task",
    "embed",
    "rnn",
    "encoder",
    "elmo",
    "vocab",
)  # the parts of a config that say what the model is
FOLDERS = (
    "data_dir",
    "cache_dir",
)  # this machine's; a checkpoint's config may refer to them, and to its own keys
OURS = ("elmo_bench.nn.", "elmo_bench.metrics.", "tasks.")  # whose classes it may name
REFERENCE = re.compile(rf"\$\{{(?:{'|'.join((*MODEL, *FOLDERS))})(?:\.\w+)*\}}")
TASK = {  # a module of ours, and parts of file names
    "data": (r"tasks(\.\w+)+", "module of tasks.*"),
    "name": (r"\w+", "name of a task"),
    "suffix": (r"[.\w]+", "end of a file's name"),
}
NOTHING = re.compile(r"(?!)")
CONF = Path(__file__).parents[1] / "conf"


def describe(
    cfg: DictConfig, vocab: Vocab, vectors: Mapping[str, np.ndarray], module: TaskModule
) -> dict[str, Any]:
    """What `restore` needs; interpolations stay as they are, so that folders are those of the
    machine that restores.
    """
    config: Any = OmegaConf.to_container(cfg)
    if vectors:
        config["embed"]["word_dim"] = len(next(iter(vectors.values())))
    return {
        "config": {part: config[part] for part in MODEL} | {"data": _corpus(cfg)},
        "vocab": vocab.state(),
        "encoder": module.elmo.encoder.fingerprint() if module.encoder_is_elsewhere else None,
    }


def _corpus(cfg: DictConfig) -> dict[str, Any]:
    """What tells a corpus again: its option in conf/data, its plain settings, the paths of its
    files.
    """
    data: Any = OmegaConf.to_container(cfg.data)
    plain = {
        key: value
        for key, value in data.items()
        if isinstance(value, str | int | float) and key != "origin"
    }
    files = {
        split: path for split in inputs.SPLITS if isinstance(path := data["files"].get(split), str)
    }
    option = (
        HydraConfig.get().runtime.choices["data"] if HydraConfig.initialized() else cfg.data.name
    )
    if "files" not in _options("data").get(option, data):  # data=paper, which chooses another
        option = cfg.data.name
    return plain | {"option": option, "name": cfg.data.name, "files": files}


def restore(cfg: DictConfig) -> tuple[DictConfig, TaskModule, Vocab]:
    """The config, the model and the vocabulary of `cfg.checkpoint`.

    What the model is comes from the checkpoint, what is done with it (data, trainer ...) from the
    command line, which may also change single settings of the model: `encoder.weights=FILE`, say,
    where its files have moved. With `data=checkpoint` the corpus is the checkpoint's, too. Raises
    ValueError for a file that is not a checkpoint of ours, asks for code or files that it should
    not, or was trained with another encoder.
    """
    path = Path(cfg.checkpoint)
    checkpoint = _load(path)
    content = checkpoint[KEY]
    check_plain(content.get("run"), path)
    config = _config(cfg, content["config"], path)
    vocab = Vocab(**content["vocab"])
    elmo = build.elmo(config)
    module = build.module(config, build.model(config, vocab, {}, elmo), vocab)
    if content["encoder"] and not elmo.encoder.fingerprint().startswith(content["encoder"]):
        raise ValueError(
            f"checkpoint={path} was trained with another encoder than "
            f"encoder={config.encoder.name} is now: its files, or how it "
            "reads, have changed"
        )
    module.content = {KEY: content}
    module.on_load_checkpoint(checkpoint)
    _add_statistics(checkpoint["state_dict"], module, path)
    try:
        module.load_state_dict(checkpoint["state_dict"])
    except RuntimeError as error:
        raise ValueError(
            f"checkpoint={path} does not fit the model that it and the command line describe: "
            f"{error}"
        ) from error
    return config, module, vocab


def _add_statistics(weights: dict[str, Any], module: TaskModule, path: Path) -> None:
    """A checkpoint from before elmo.norm has no running statistics: as in its own time, each batch
    has its own.
    """
    missing = {
        name: value
        for name, value in module.state_dict().items()
        if ".norm." in name and ".mixes." in name
    }
    if missing.keys() - weights.keys():
        log.warning(
            "%s is from before elmo.norm: without running statistics its answers depend on their "
            "batches",
            path,
        )
        weights |= missing


def extend(
    cfg: DictConfig, module: TaskModule, vocab: Vocab, sentences: Iterable[Sequence[str]]
) -> None:
    """Give words that training did not see their vectors of `vocab.vectors`, and say how many that
    are.

    A file of vectors that is not there is a warning: these words are then unknown to the model.
    """
    if not (files := inputs.vector_files(cfg)):
        return
    counts = Counter(word for sentence in sentences for word in sentence)
    unknown, percent = _unknown(counts, vocab)
    if missing := [file for file in files if not Path(file).is_file()]:
        log.warning(
            "vocab.vectors=%s is not there: all %d of %d words that training did not see (%.1f %% "
            "of the text) are unknown "
            "to the model, also those that have a vector; vocab.vectors=FILE says where the file "
            "is now",
            *(missing[0], unknown, len(counts), percent),
        )
        return
    known = set(vocab.words)
    if {form for word in counts for form in forms(word, vocab.lowercase)} - known:
        vectors = build.vectors(
            cfg, known | counts.keys()
        )  # with known words: a file that has none is another one
        if new := {form: vector for form, vector in vectors.items() if form not in known}:
            vocab.extend(new)
            module.model.backbone.embed.extend(new)
    still, still_percent = _unknown(counts, vocab)
    log.info(
        "training did not see %d of %d words, %.1f %% of the text; vocab.vectors has %d of them, "
        "and %.1f %% stay unknown",
        *(unknown, len(counts), percent, unknown - still, still_percent),
    )


def _unknown(counts: Counter[str], vocab: Vocab) -> tuple[int, float]:
    """How many words a vocabulary does not know, and how many percent of the text they are."""
    unknown = [count for word, count in counts.items() if vocab.word_id(word) == UNKNOWN]
    return len(unknown), 100 * sum(unknown) / max(counts.total(), 1)


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"checkpoint={path}: no such file")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever unpickling meets in a file that was never pickled
        raise ValueError(f"checkpoint={path}: not a checkpoint, or a damaged one") from error
    content = checkpoint.get(KEY) if isinstance(checkpoint, dict) else None
    if isinstance(content, dict):
        _rename(checkpoint, content)
    if (
        not isinstance(content, dict)
        or not {"config", "vocab", "encoder"} <= content.keys()
        or "state_dict" not in checkpoint
    ):
        raise ValueError(
            f"checkpoint={path}: not a checkpoint of elmo-bench, such as the best.ckpt of a "
            "job=train"
        )
    return checkpoint


def _rename(checkpoint: dict[str, Any], content: dict[str, Any]) -> None:
    """Call what a checkpoint of an earlier version holds by today's names."""
    if isinstance(content.get("config"), dict):
        today(content["config"])
    if "bilm" not in content:
        return
    content["encoder"] = content.pop("bilm")
    for weights in (
        part for key, part in checkpoint.items() if key in ("state_dict", "current_weights")
    ):
        for name in [*weights] if isinstance(weights, dict) else ():
            now = name.replace("backbone.encoder.", "backbone.rnn.").replace(
                "backbone.elmo.layers.", "backbone.elmo.encoder."
            )
            weights[now] = weights.pop(name)


def _config(cfg: DictConfig, stored: dict[str, Any], path: Path) -> DictConfig:
    """The command line's config with the checkpoint's model, in which single settings of the
    command line still count.
    """
    check_plain(stored.get("data"), path)
    check_plain(stored, path, REFERENCE)
    for part in MODEL:
        if not isinstance(stored.get(part), dict):
            raise ValueError(f"checkpoint={path}: its config has no settings of {part}")
    option, settings = _encoder(cfg, stored["encoder"], path)
    own = {part: stored[part] for part in MODEL} | {"encoder": settings}
    try:
        resolved: Any = OmegaConf.to_container(
            OmegaConf.create(own | {key: cfg[key] for key in FOLDERS}), resolve=True
        )
    except OmegaConfBaseException as error:
        raise ValueError(
            f"checkpoint={path}: its config refers to what is not there: {error}"
        ) from error
    # Training's own affairs: not needed here, and so not taken from the file.
    resolved["task"] |= {"optimizer": None, "scheduler": None, "callbacks": []}
    # Plain parts, "$" and "{oc.env:HOME}", may add up to a reference when they are resolved.
    check_plain([resolved[part] for part in MODEL], path)
    for key, (form, kind) in TASK.items():
        if not re.fullmatch(form, value := str(resolved["task"].get(key))):
            raise ValueError(
                f"checkpoint={path}: its config names task.{key}={value}, which is no {kind}"
            )
    _check_targets([resolved[part] for part in MODEL], path)
    config = cfg.copy()
    OmegaConf.set_struct(config, False)
    defaults = cast(dict, OmegaConf.to_container(cfg.elmo))  # an older checkpoint's has fewer keys
    for part in MODEL:
        config[part] = resolved[part]
    config.elmo = {**defaults, **resolved["elmo"]}
    config.encoder = {**option, **resolved["encoder"]}
    config.task.optimizer = cfg.task.optimizer
    _override(config, cfg, stored, path)
    if cfg.data.name == "checkpoint":
        config.data = _data(cfg, stored.get("data"), path)
    return config


def _override(config: DictConfig, cfg: DictConfig, stored: dict[str, Any], path: Path) -> None:
    """Apply the command line's single settings of the model; ValueError for those that it cannot
    change.
    """
    for key in inputs.overridden(cfg):
        if key == "task" and cfg.task.name != config.task.name:
            raise ValueError(
                f"task={cfg.task.name}, but checkpoint={path} is of task={config.task.name}"
            )
        if key in ("embed", "rnn") or (
            key == "encoder" and cfg.encoder.name != config.encoder.name
        ):
            raise ValueError(
                f"{key}=... is for the checkpoint to say: leave it out (single settings, "
                f"{key}.KEY=VALUE, may stay)"
            )
        if key == "vocab.vectors" and not stored["vocab"].get("vectors"):
            raise ValueError(
                f"vocab.vectors={cfg.vocab.vectors}, but checkpoint={path} was trained without "
                "vectors"
            )
        if key.partition(".")[0] in MODEL and "." in key:
            OmegaConf.update(config, key, OmegaConf.select(cfg, key))


def check_plain(node: Any, path: Path, allowed: re.Pattern[str] = NOTHING) -> None:
    """Raise ValueError for what is not plain data, at any depth, and for texts with references that
    are not `allowed`.
    """
    if isinstance(node, dict):
        node = [*node, *node.values()]
    if isinstance(node, list):
        for value in node:
            check_plain(value, path, allowed)
    elif isinstance(node, str):
        if "${" in allowed.sub("", node):
            raise ValueError(
                f"checkpoint={path}: its config asks for {node!r}, but it may only refer to its "
                "own keys"
            )
    elif not isinstance(node, int | float | None):
        raise ValueError(
            f"checkpoint={path}: its config holds a {type(node).__name__}, but it may only hold "
            "plain settings"
        )


def _check_targets(node: Any, path: Path) -> None:
    """Refuse, at any depth, to call what is not ours."""
    if isinstance(node, dict) and "_target_" in node and not _is_ours(str(node["_target_"])):
        raise ValueError(
            f"checkpoint={path}: its config names {node['_target_']!r}, which is no class of "
            f"{'* or '.join(OURS)}*"
        )
    for value in (
        node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    ):
        _check_targets(value, path)


def _is_ours(target: str) -> bool:
    if not target.startswith(OURS):
        return False
    value = get_object(
        target
    )  # a name in our modules, such as an import, may still be somebody else's
    return isinstance(value, type) and f"{value.__module__}.".startswith(OURS)


def _options(group: str) -> dict[str, dict[str, Any]]:
    """The options of a group in conf/, as they stand there."""
    files = sorted((CONF / group).glob("*.yaml"))
    return {file.stem: cast(dict, OmegaConf.to_container(OmegaConf.load(file))) for file in files}


def _encoder(
    cfg: DictConfig, stored: dict[str, Any], path: Path
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The encoder's option as conf/encoder or the command line has it, and the checkpoint's own
    settings of it.

    Which class is made and which files are fetched is for these to say; a checkpoint's own are
    plain values and paths of this machine.
    """
    settings = {
        key: value
        for key, value in stored.items()
        if key not in ("_target_", "defaults") and not isinstance(value, dict)
    }
    name, options = settings.get("name"), _options("encoder")
    if "encoder" in inputs.overridden(cfg):
        options[cfg.encoder.name] = cast(dict, OmegaConf.to_container(cfg.encoder))
    if name not in options and {"options", "weights"} <= settings.keys():
        name = "files"
    if name not in options:
        raise ValueError(
            f"checkpoint={path} reads encoder={name}, but conf/encoder has "
            f"{', '.join(sorted(options))}; give encoder=NAME, if it is one of yours, and "
            "--config-dir"
        )
    option = options[name]
    for parent in option.pop("defaults", ()):
        option = ({} if parent == "_self_" else options[parent]) | option
    _check_model(cfg, option, settings, path)
    return option, settings


def _check_model(
    cfg: DictConfig, option: dict[str, Any], settings: dict[str, Any], path: Path
) -> None:
    """Raise ValueError where a checkpoint would have a model fetched that conf/ does not name."""
    own = [settings.get(key, option.get(key)) for key in ("model", "revision")]
    if own == [option.get(key) for key in ("model", "revision")]:
        return
    if Path(str(own[0])).expanduser().is_dir():
        return
    given = {*inputs.overridden(cfg)}
    if not {"encoder.model", "encoder.revision"} <= given:
        raise ValueError(
            f"checkpoint={path} reads encoder.model={own[0]}, which is no folder here: if you "
            f"trust it, say encoder={settings['name']} encoder.model={own[0]} "
            f"encoder.revision={own[1]}"
        )


def _data(cfg: DictConfig, stored: Any, path: Path) -> DictConfig:
    """The checkpoint's corpus, as conf/data has it: its numbers and its files may be the
    checkpoint's, if they are here.
    """
    name = stored.get("option") if isinstance(stored, dict) else None
    if not name:
        raise ValueError(
            f"checkpoint={path} does not say which corpus it was trained on: give data=NAME"
        )
    options, advice = _options("data"), "give data=NAME, and the settings that it needs"
    if name not in options:
        raise ValueError(
            f"checkpoint={path} was trained on data={name}, which is no option of conf/data: "
            f"{advice}"
        )
    data = options[name]
    data.pop("defaults", None)
    for key, value in stored.items():
        if key not in ("option", "files") and data.get(key) != value:
            if key not in data or (isinstance(value, str) and key != "name"):
                raise ValueError(
                    f"checkpoint={path} was trained with data={name} data.{key}={value}: {advice}"
                )
            data[key] = value
    for split, file in dict(stored.get("files") or {}).items():
        if split in inputs.SPLITS and data["files"].get(split) != file:
            places = [
                Path(folder, f"{file}{suffix}")
                for folder in (".", cfg.data_dir)
                for suffix in ("", ".gz")
            ]
            here = [place for place in places if place.is_file()]
            if not here and split == cfg.get("split"):
                came = f"data={name} data.files.{split}={file}, which is not here"
                raise ValueError(f"checkpoint={path} was trained with {came}: {advice}")
            data["files"][split] = str(here[0].absolute()) if here else None
    given: Any = OmegaConf.to_container(cfg.data)
    data["files"] |= {key: value for key, value in given["files"].items() if value is not None}
    return OmegaConf.create(data | {"labels": given.get("labels")})
