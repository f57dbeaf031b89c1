"""What a checkpoint holds beside its weights, all of it plain data: the model's config, its vocabulary, and which biLM it read.

The weights of a frozen, pretrained biLM are not in it: its files are named in the config, and a digest tells whether they
are still the same.
"""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf

from elmo_bench.elmo import digest
from elmo_bench.module import TaskModule
from elmo_bench.text import Vocab

from . import build, inputs

KEY = "elmo_bench"
MODEL = ("task", "embed", "encoder", "elmo", "vocab")  # the parts of a config that say what the model is
OURS = ("elmo_bench.", "tasks.")  # a checkpoint's config may name our classes ...
FUNCTIONS = ("elmo_bench.elmo.load", "elmo_bench.elmo.shipped", "elmo_bench.files.fetch")  # ... and these functions,
RENAMED = {"elmo_bench.download.fetch": "elmo_bench.files.fetch"}  # an older checkpoint's names
KEYS = re.compile(r"\$\{[\w.]+\}")  # and refer to other keys alone


def describe(cfg: DictConfig, vocab: Vocab, vectors: Mapping[str, np.ndarray], module: TaskModule) -> dict[str, Any]:
    """What `restore` needs; interpolations stay as they are, so that folders are those of the machine that restores."""
    config: Any = OmegaConf.to_container(cfg)
    if vectors:
        config["embed"]["word_dim"] = len(next(iter(vectors.values())))
    return {
        "config": {part: config[part] for part in MODEL},
        "vocab": vocab.state(),
        "bilm": digest(module.elmo.layers) if module.bilm_is_elsewhere else None,
    }


def restore(cfg: DictConfig) -> tuple[DictConfig, TaskModule, Vocab]:
    """The config, the model and the vocabulary of `cfg.checkpoint`.

    What the model is comes from the checkpoint, what is done with it (data, trainer ...) from the command line, which may
    also change single settings of the model: `elmo.weights=FILE`, say, where the biLM has moved. Raises ValueError for a
    file that is not a checkpoint of ours, asks for code or files that it should not, or was trained with another biLM.
    """
    path = Path(cfg.checkpoint)
    checkpoint = _load(path)
    content = checkpoint[KEY]
    config = _config(cfg, _renamed(content["config"]), path)
    vocab = Vocab(**content["vocab"])
    elmo = build.elmo(config)
    module = build.module(config, build.model(config, vocab, {}, elmo), vocab)
    if content["bilm"] and content["bilm"] != digest(elmo.layers):
        raise ValueError(f"checkpoint={path} was trained with another biLM than that of elmo.weights={config.elmo.weights}")
    module.content = {KEY: content}
    module.on_load_checkpoint(checkpoint)
    try:
        module.load_state_dict(checkpoint["state_dict"])
    except RuntimeError as error:
        raise ValueError(f"checkpoint={path} does not fit the model that it and the command line describe: {error}") from error
    return config, module, vocab


def _renamed(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: RENAMED.get(value, value) if key == "_target_" else _renamed(value) for key, value in node.items()}
    return [_renamed(value) for value in node] if isinstance(node, list) else node


def _load(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise FileNotFoundError(f"checkpoint={path}: no such file")
    try:
        checkpoint = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # whatever unpickling meets in a file that was never pickled
        raise ValueError(f"checkpoint={path}: not a checkpoint, or a damaged one") from error
    if not isinstance(checkpoint, dict) or KEY not in checkpoint:
        raise ValueError(f"checkpoint={path}: not a checkpoint of elmo-bench, such as the best.ckpt of a job=train")
    return checkpoint


def _config(cfg: DictConfig, stored: dict[str, Any], path: Path) -> DictConfig:
    """The command line's config with the checkpoint's model, in which single settings of the command line still count."""
    if asked := sorted(_resolvers({part: stored[part] for part in MODEL})):
        raise ValueError(f"checkpoint={path}: its config asks for {asked[0]!r}, but it may refer to other keys alone")
    config = cfg.copy()
    OmegaConf.set_struct(config, False)
    for part in MODEL:
        config[part] = stored[part]
    if isinstance(stored["elmo"], dict):  # an older checkpoint's has fewer keys
        config.elmo = {**cast(dict, OmegaConf.to_container(cfg.elmo)), **stored["elmo"]}
    if not str(config.task.data).startswith("tasks."):
        raise ValueError(f"checkpoint={path}: its config names task.data={config.task.data}, which is no module of tasks.*")
    # Training's own affairs: not needed here, and so not taken from the file.
    config.task.optimizer, config.task.scheduler, config.task.callbacks = None, None, []
    for part in MODEL:
        _check(OmegaConf.to_container(config[part], resolve=True), path, f"{config.cache_dir}/elmo")
    config.task.optimizer = cfg.task.optimizer
    for key in inputs.overridden():
        if key == "task" and cfg.task.name != config.task.name:
            raise ValueError(f"task={cfg.task.name}, but checkpoint={path} is of task={config.task.name}")
        if key in ("embed", "encoder", "elmo"):
            raise ValueError(f"{key}=... is for the checkpoint to say: leave it out (single settings, {key}.KEY=VALUE, may stay)")
        if key.partition(".")[0] in MODEL and "." in key:
            OmegaConf.update(config, key, OmegaConf.select(cfg, key))
    return config


def _check(node: Any, path: Path, folder: str) -> None:
    """Refuse, at any depth, to call what is not ours and to download to anywhere but `folder`: a checkpoint is a stranger's."""
    if isinstance(node, dict):
        if "_target_" in node and not _is_ours(str(node["_target_"])):
            raise ValueError(
                f"checkpoint={path}: its config names {node['_target_']!r}, which is no class of {' or '.join(OURS)}*"
            )
        if node.get("folder", folder) != folder:
            raise ValueError(f"checkpoint={path}: its config would download to {node['folder']!r}, not to {folder!r}")
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _check(value, path, folder)


def _resolvers(node: Any) -> Iterator[str]:
    """The texts, at any depth, that want more than another key's value: an environment variable's, say."""
    for value in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        if isinstance(value, str) and "${" in KEYS.sub("", value):
            yield value
        yield from _resolvers(value)


def _is_ours(target: str) -> bool:
    if target in FUNCTIONS:
        return True
    if not target.startswith(OURS):
        return False
    found = get_object(target)  # a name in our modules, such as an import, may still be somebody else's
    return isinstance(found, type) and found.__module__.startswith(OURS)
