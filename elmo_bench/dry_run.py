"""`--dry-run`: whether runs can read what they need, how large that is, and about how long they
take. No model is kept and nothing downloaded.
"""

import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from omegaconf import DictConfig, OmegaConf

from elmo_bench import build, inputs
from elmo_bench.data import Example
from elmo_bench.durations import duration
from elmo_bench.estimate import Estimate, estimate
from elmo_bench.files import fetch_path
from elmo_bench.runs import as_baseline, is_baseline

SECONDS = 10.0  # limit for reading a split; the rest is skipped
INPUTS = ("checkpoint", "input", "gold", "predicted", "result", "probe.train", "probe.test")
GENERATED = "elmo_bench.sample.files"
# Settings of what a run reads and of how long it takes, and those below them that change neither.
READ = ("job", "task", "data", "encoder", "vocab", "elmo")
TIMED = (*READ, "embed", "rnn", "fit", "fraction", "trainer")
SAME_TIME = ("elmo.l2", "elmo.dropout", "elmo.mix_lr")


class Corpus(NamedTuple):
    """What was read of a run's corpus."""

    sentences: set[tuple[str, ...]]  # the distinct ones of all splits
    train: list[Example]


def lines(configs: Sequence[DictConfig]) -> list[str]:
    """What runs would read, keep and take, each line once; runs that read and take the same are
    looked at once. Raises ValueError and OSError, as a run would, for what it could not read.
    """
    groups: dict[str, list[DictConfig]] = {}
    for config in configs:
        groups.setdefault(_settings(config, TIMED), []).append(config)
    said: list[str] = []
    training: list[float] = []  # seconds of each run
    stores: dict[str, float] = {}  # seconds of each encoder's on each corpus: runs share it
    for several in groups.values():
        corpus = Corpus(set(), [])
        said += _files(several[0], corpus)
        time_line, seconds = _time(several[0], corpus)
        said += time_line
        if seconds:
            training += [several[0].fit.max_epochs * seconds.epoch] * len(several)
            which = _settings(several[0], ("task", "data", "encoder"))
            stores[which] = max(seconds.store, stores.get(which, 0.0))
    if len(configs) == len(training) > 1:
        total = duration(sum(training) + sum(stores.values()))
        said.append(f"estimated time of all {len(configs)} runs, one after another: {total}")
    return [*dict.fromkeys(said)]


def _settings(config: DictConfig, keys: Sequence[str]) -> str:
    """These settings as text."""
    chosen = OmegaConf.masked_copy(config, [key for key in keys if key in config])
    OmegaConf.set_struct(chosen, False)
    for key in SAME_TIME:
        if OmegaConf.select(chosen, key, throw_on_resolution_failure=False) is not None:
            OmegaConf.update(chosen, key, None)
    return OmegaConf.to_yaml(chosen)


def _files(cfg: DictConfig, corpus: Corpus) -> Iterator[str]:
    """Lines on what a run would read and keep; what is read of the corpus is added to it."""
    for key in INPUTS:
        path = OmegaConf.select(cfg, key)
        if path and not Path(path).expanduser().exists():
            raise FileNotFoundError(f"{key}={path}: no such file")
    if cfg.job["_target_"].rpartition(".")[2] != "train":
        return
    for split in inputs.SPLITS:
        yield from _split(cfg, split, corpus)
    for file in inputs.vectors(cfg):
        size = Path(file).expanduser().stat().st_size
        yield f"vocab.vectors={file}: {size / 1e6:,.1f} MB"
    if not is_baseline(cfg):
        yield from _encoder(cfg, sum(map(len, corpus.sentences)))


def _time(cfg: DictConfig, corpus: Corpus) -> tuple[list[str], Estimate | None]:
    """A line on how long a run takes, and the figures; none of another job than train."""
    if cfg.job["_target_"].rpartition(".")[2] != "train":
        return [], None
    missing = not corpus.train or not (is_baseline(cfg) or _is_here(cfg.encoder))
    if missing or "limit_train_batches" in cfg.trainer or "overfit" in cfg.fit:
        why = "a file of it is not here" if missing else "it trains on few batches"
        return [f"estimated time of a run: none, since {why}"], None
    cfg = cfg.copy()
    if is_baseline(cfg):
        as_baseline(cfg)
    try:
        seconds = estimate(cfg, build.elmo(cfg), corpus.train, corpus.sentences)
    except Exception as error:  # a run of this model would fail, too, and say more
        said = str(error).partition("\n")[0]
        return [f"estimated time of a run: none, since a batch fails: {said}"], None
    epochs, store = cfg.fit.max_epochs, ""
    if seconds.store:
        store = f"layer store {duration(seconds.store)}, once for all runs; "
    run = f"task={cfg.task.name} encoder={cfg.encoder.name} elmo.mix={cfg.elmo.mix}"
    line = (
        f"estimated time of {run}: {store}an epoch {duration(seconds.epoch)}, fit.max_epochs="
        f"{epochs} at most {duration(epochs * seconds.epoch)} (from {seconds.timed} of the "
        f"{seconds.batches:,} batches of an epoch, on one device of this machine as busy as it is "
        "now; without start-up, vocab.vectors, dev and test)"
    )
    return [line], seconds


def _split(cfg: DictConfig, split: str, corpus: Corpus) -> Iterator[str]:
    """A line on a split, whose sentences are added to the corpus."""
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
        corpus.sentences.update(map(tuple, example.sentences))
        if split == "train":
            corpus.train.append(example)
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
    return all(
        fetch_path(node.url, folder=node.folder, sha256=node.get("sha256")).is_file()
        for node in remote
    )
