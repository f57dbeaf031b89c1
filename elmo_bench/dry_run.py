"""`--dry-run`: whether a run can read what it needs, and how large that is; nothing is trained and
nothing downloaded.
"""

import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import DictConfig, OmegaConf

from elmo_bench import build, inputs
from elmo_bench.runs import is_baseline

SECONDS = 10.0  # limit for reading a split; the rest is skipped
INPUTS = ("checkpoint", "input", "gold", "predicted", "result", "probe.train", "probe.test")
GENERATED = "elmo_bench.sample.files"
UNKNOWN = "time: not estimated, since it depends on the machine; the log of a run says it"
Sentences = set[tuple[str, ...]]


def lines(cfg: DictConfig) -> Iterator[str]:
    """What a run would read and keep, a line each. Raises ValueError and OSError, as the run would,
    for what it could not read.
    """
    for key in INPUTS:
        path = OmegaConf.select(cfg, key)
        if path and not Path(path).expanduser().exists():
            raise FileNotFoundError(f"{key}={path}: no such file")
    if cfg.job["_target_"].rpartition(".")[2] != "train":
        return
    sentences: Sentences = set()
    for split in inputs.SPLITS:
        yield from _split(cfg, split, sentences)
    for file in inputs.vector_files(cfg):
        path = Path(file).expanduser()
        if not path.is_file():
            raise FileNotFoundError(f"vocab.vectors={file}: no such file")
        yield f"vocab.vectors={file}: {path.stat().st_size / 1e6:,.1f} MB"
    if not is_baseline(cfg):
        yield from _encoder(cfg, sum(map(len, sentences)))
    yield UNKNOWN


def _split(cfg: DictConfig, split: str, sentences: Sentences) -> Iterator[str]:
    """A line on a split, whose sentences are added to these."""
    key, node = f"data.files.{split}", cfg.data.get("files")
    is_made = isinstance(node, DictConfig) and "_target_" in node
    if is_made and node["_target_"] != GENERATED:
        yield f"{key}: a run downloads or converts it"
        return
    if split == "test" and not is_made and not (node or {}).get("test"):
        yield f"{key}: none; dev is measured alone"
        return
    local = cfg.copy()
    OmegaConf.set_struct(local, False)
    downloads = local.data.pop("downloads", {})
    try:
        path = inputs.corpus(local, [split])[split]
    except FileNotFoundError:
        if node[split] not in downloads:
            raise
        yield f"{key}={node[split]}: not here; a run downloads it from {downloads[node[split]].url}"
        return
    begun, count, is_whole = time.monotonic(), 0, True
    for example in build.reader(cfg, split)(path):
        count += 1
        sentences.update(map(tuple, example.sentences))
        if time.monotonic() - begun > SECONDS:
            is_whole = False
            break
    if not count:
        raise ValueError(f"{path}: no examples in the {split} file")
    yield f"{key}={path}: {'' if is_whole else 'more than '}{count:,} examples"


def _encoder(cfg: DictConfig, tokens: int) -> Iterator[str]:
    """The encoder's size, and the room of its layers for so many tokens."""
    name = cfg.encoder.name
    if not _is_here(cfg.encoder):
        yield f"encoder={name}: not here; a run downloads it"
        return
    elmo = build.elmo(cfg)
    dim, layers = elmo.encoder.dim, elmo.chosen
    yield f"encoder={name}: {elmo.encoder.num_layers} layers, {dim} numbers for each token"
    if cfg.elmo.cache == "off" or elmo.finetune or not layers:
        return
    size = tokens * len(layers) * dim * np.dtype(cfg.elmo.cache_dtype).itemsize
    folder = Path(cfg.cache_dir).expanduser().absolute()
    there = next(each for each in (folder, *folder.parents) if each.exists())
    yield (
        f"layer store: {tokens:,} tokens x {len(layers)} layers x {dim} x {cfg.elmo.cache_dtype} "
        f"= {size / 1e9:.2f} GB; {shutil.disk_usage(there).free / 1e9:.0f} GB are free at {there}"
    )


def _is_here(encoder: Any) -> bool:
    """Whether building the encoder downloads nothing."""
    if model := encoder.get("model"):
        return Path(model).expanduser().is_dir()
    nodes = [encoder.get(key) for key in inputs.ENCODER_FILES]
    remote = [node for node in nodes if isinstance(node, DictConfig) and "url" in node]
    return all(Path(node.folder, Path(node.url).name).expanduser().is_file() for node in remote)
