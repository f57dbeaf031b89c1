"""`--dry-run`: whether runs can read what they need, how large that is, and about how long they
take. Each job's `check` refuses what the job itself would refuse, and files are read as a whole. No
run is kept and nothing downloaded.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import numpy as np
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from elmo_bench import wandb_logger
from elmo_bench.config import build, inputs
from elmo_bench.data import Example
from elmo_bench.estimate import Estimate, estimate
from elmo_bench.files import duration
from elmo_bench.runs import as_baseline, is_baseline

INPUTS = ("checkpoint", "input", "gold", "predicted", "result", "probe.train", "probe.test")
WITH_TRAINER = ("train", "evaluate", "predict")
# Settings of what a run reads and of how long it takes, and those below them that change neither.
READ = ("job", "task", "data", "encoder", "vocab", "elmo")
TIMED = (*READ, "embed", "rnn", "fit", "fraction", "trainer")
SAME_TIME = ("elmo.l2", "elmo.dropout", "elmo.mix_lr")


class Corpus(NamedTuple):
    """What was read of a run's corpus."""

    said: list[str]
    sentences: set[tuple[str, ...]]  # the distinct ones of all splits
    train: list[Example]


def lines(configs: Sequence[DictConfig]) -> list[str]:
    """What runs would read, keep and take, each line once; runs that read and take the same are
    looked at once. Raises ValueError and OSError, as a run would, for what it could not read.
    """
    groups: dict[str, list[DictConfig]] = {}
    for config in configs:
        own = TIMED if _job(config) == "train" else [str(key) for key in config if key != "hydra"]
        groups.setdefault(_settings(config, own), []).append(config)
    said: list[str] = []
    training: list[float] = []  # seconds of each run
    stores: dict[str, float] = {}  # seconds of each encoder's on each corpus: runs share it
    read: dict[str, Corpus] = {}  # the last corpus, by its settings
    for several in groups.values():
        with _as_run(several[0]) as cfg:
            said += _checked(cfg)
            if _job(cfg) != "train":
                continue
            which = _settings(cfg, ("task", "data", "vocab")) + str(cfg.fit.get("overfit"))
            if which not in read:
                read = {which: _corpus(cfg)}
            corpus = read[which]
            said += corpus.said
            if not is_baseline(cfg):
                said += _encoder(cfg, sum(map(len, corpus.sentences)))
            time_line, seconds = _time(cfg, corpus)
            said.append(time_line)
        if seconds:
            training += [several[0].fit.max_epochs * seconds.epoch] * len(several)
            which = _settings(several[0], ("task", "data", "encoder"))
            stores[which] = max(seconds.store, stores.get(which, 0.0))
    if len(configs) == len(training) > 1:
        total = duration(sum(training) + sum(stores.values()))
        said.append(f"estimated time of all {len(configs)} runs, one after another: {total}")
    return [*dict.fromkeys(said)]


def _job(config: DictConfig) -> str:
    return str(config.job["_target_"]).rpartition(".")[2]


@contextmanager
def _as_run(config: DictConfig) -> Iterator[DictConfig]:
    """The config as a job gets it; within, Hydra takes it for the one that runs."""
    hydra, whole = HydraConfig.instance(), config.copy()
    whole.dry_run = True  # nothing is downloaded
    if "hydra" not in config:
        yield whole
        return
    before = hydra.cfg
    with open_dict(whole), read_write(whole.hydra):
        whole.hydra.runtime.output_dir = str(whole.hydra.run.dir)
        hydra.set_config(whole)
        del whole["hydra"]
        whole.run_dir = whole.run_dir  # resolved
    try:
        yield whole
    finally:
        hydra.cfg = before


def _checked(cfg: DictConfig) -> Iterator[str]:
    """Check what the job would refuse; a line on what is not here and so was not checked."""
    for key in INPUTS:
        path = OmegaConf.select(cfg, key)
        if path and not Path(path).expanduser().exists():
            raise FileNotFoundError(f"{key}={path}: no such file")
    if _job(cfg) in WITH_TRAINER:
        local = cfg.copy()
        if "wandb" in (local.get("logger") or {}):  # which writes a folder when it is made
            wandb_logger.check_installed()
            local.logger = {key: each for key, each in local.logger.items() if key != "wandb"}
        build.trainer(local, [])  # its devices and loggers
    module = import_module(str(cfg.job["_target_"]).rpartition(".")[0])
    try:
        if check := getattr(module, "check", None):
            check(cfg)
    except inputs.NotHereError as missing:
        yield f"{missing}; what needs it was not checked"


def _settings(config: DictConfig, keys: Sequence[str]) -> str:
    """These settings as text."""
    chosen = OmegaConf.masked_copy(config, [key for key in keys if key in config])
    OmegaConf.set_struct(chosen, False)
    for key in SAME_TIME:
        if OmegaConf.select(chosen, key, throw_on_resolution_failure=False) is not None:
            OmegaConf.update(chosen, key, None)
    return OmegaConf.to_yaml(chosen)


def _corpus(cfg: DictConfig) -> Corpus:
    """Read all of the corpus and of the word vectors, but for what a run downloads."""
    whole = cfg.copy()
    said: list[str] = []
    files: dict[str, Path] = {}
    whole.fraction = 1.0
    for split in inputs.SPLITS:
        node = cfg.data.get("files") or {}
        if split == "test" and "_target_" not in node and not node.get("test"):
            said.append("data.files.test: none; dev is measured alone")
            continue
        try:
            files |= inputs.corpus(whole, [split])
        except inputs.NotHereError as missing:
            said.append(str(missing))
    if "train" not in files:
        for split, path in files.items():
            if not (count := sum(1 for _ in build.reader(cfg, split)(path))):
                raise ValueError(f"{path}: the {split} file has no examples")
            said.append(f"data.files.{split}={path}: {count:,} examples")
        return Corpus(said, set(), [])
    data = build.data(whole, files=files)
    counts = {split: len(examples) for split, examples in data.examples.items()}
    said += [f"data.files.{split}={files[split]}: {n:,} examples" for split, n in counts.items()]
    for file in inputs.vectors(cfg):
        size = Path(file).expanduser().stat().st_size
        said.append(f"vocab.vectors={file}: {size / 1e6:,.1f} MB")
    build.vocab(whole, data)  # reads the vectors
    return Corpus(said, {tuple(each) for each in data.all_sentences}, data.examples["train"])


def _time(cfg: DictConfig, corpus: Corpus) -> tuple[str, Estimate | None]:
    """A line on how long a run takes, and the figures."""
    missing = not corpus.train or not (is_baseline(cfg) or _is_here(cfg))
    if missing or "limit_train_batches" in cfg.trainer or "overfit" in cfg.fit:
        why = "a file of it is not here" if missing else "it trains on few batches"
        return f"estimated time of a run: none, since {why}", None
    cfg = cfg.copy()
    if is_baseline(cfg):
        as_baseline(cfg)
    try:
        seconds = estimate(cfg, build.elmo(cfg), corpus.train, corpus.sentences)
    except (ValueError, OSError):
        raise
    except Exception as error:  # a run of this model would fail, too, and say more
        said = str(error).partition("\n")[0]
        raise ValueError(f"a batch fails: {type(error).__name__}: {said}") from error
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
    return line, seconds


def _encoder(cfg: DictConfig, tokens: int) -> Iterator[str]:
    """The encoder's size, and the room of its layers for so many tokens."""
    name = cfg.encoder.name
    try:
        elmo = build.elmo(cfg)
    except inputs.NotHereError as missing:
        yield str(missing)
        return
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


def _is_here(cfg: DictConfig) -> bool:
    try:
        inputs.check_encoder(cfg)
    except inputs.NotHereError:
        return False
    return True
