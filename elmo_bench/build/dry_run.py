"""`--dry-run`: whether runs can read what they need, and how large that is. Each job's `check`
refuses what the job itself would refuse, and files are read as a whole. No run is kept and nothing
downloaded. `--download-only` does the same online, for a machine with other devices.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import torch
from omegaconf import DictConfig, OmegaConf

from elmo_bench import build
from elmo_bench.build import texts
from elmo_bench.encoders.frozen_layers import no_room
from elmo_bench.encoders.memory import check_room
from elmo_bench.encoders.store import row_bytes
from elmo_bench.files.download import NotHereError, offline
from elmo_bench.runs import is_baseline, overlap_lines, reads_apart
from elmo_bench.settings import command, inputs
from elmo_bench.settings.check import applied_options
from elmo_bench.terminal import counted_noun
from elmo_bench.training.cautions import of_clusters, of_encoder, of_examples, of_vectors
from elmo_bench.training.data import draw

from . import hardware, process

WITH_TRAINER = ("train", "evaluate", "predict")
DOWNLOAD = "download"  # the value of `dry_run`
CORPUS = ("task", "data", "vocab", "text", "fraction")  # settings of what is read of a corpus
SAME = ("seed", "elmo.l2", "elmo.dropout", "elmo.mix_lr")  # runs that differ here read the same
MODEL = ("task.model", "task.optimizer", "task.elmo", "task.scheduler")  # and no reader sees these


def lines(configs: Sequence[DictConfig]) -> list[str]:
    """What runs would read and keep, each line once; runs that read the same are looked at once.
    Raises ValueError and OSError, as a run would, for what it could not read.
    """
    process.silence()
    said: list[str] = []
    corpora: dict[tuple[str, bool], tuple[list[str], int, Counter[str]]] = {}
    for config in {_settings(each): each for each in configs}.values():
        stays_offline = config.dry_run != DOWNLOAD
        with offline() if stays_offline else nullcontext(), command.as_run(config) as cfg:
            said += _checked(cfg)
            if cfg.job.get("name") != "train":
                continue
            said += applied_options(cfg)
            if (which := (_settings(cfg, CORPUS, MODEL), reads_apart(cfg))) not in corpora:
                corpora[which] = _corpus(cfg)
            of_corpus, tokens, words = corpora[which]
            said += of_corpus
            said += [] if is_baseline(cfg) else _encoder(cfg, tokens, words)
    if configs[0].dry_run == DOWNLOAD:
        said.append("All files are here. HF_HUB_OFFLINE=1 keeps a run from asking the hub.")
    return [*dict.fromkeys(said)]


def _settings(config: DictConfig, keys: Sequence[str] = (), without: Sequence[str] = ()) -> str:
    """These settings as text, by default all; without those of `SAME` and of `without`."""
    chosen = [str(each) for each in keys or config if each not in ("hydra", "run_dir")]
    content = OmegaConf.masked_copy(config, chosen)
    for key in (*SAME, *without):
        OmegaConf.update(content, key, None, force_add=True)
    return OmegaConf.to_yaml(content)


def _checked(cfg: DictConfig) -> Iterator[str]:
    """Check what the job would refuse; a line on what is not here and so was not checked."""
    if cfg.job.get("name") in WITH_TRAINER and cfg.dry_run != DOWNLOAD:
        local = cfg.copy()
        if "wandb" in (local.get("logger") or {}):  # which writes a folder when it is made
            local.logger = {key: each for key, each in local.logger.items() if key != "wandb"}
        hardware.trainer(local, [])  # its devices and loggers
    module = import_module(str(cfg.job["_target_"]).rpartition(".")[0])
    try:
        if check := getattr(module, "check", None):
            check(cfg)
    except NotHereError as missing:
        yield f"{missing}; what needs it was not checked"


def _corpus(cfg: DictConfig) -> tuple[list[str], int, Counter[str]]:
    """Read corpus and word vectors; return lines on them, the number of tokens of distinct
    sentences, and the words.
    """
    whole = cfg.copy()
    whole.fraction = 1.0
    vectors = inputs.checked_vector_files(cfg)
    try:
        files = inputs.corpus(whole)
    except NotHereError as missing:
        return [f"{missing}; its corpus was not read"], 0, Counter()
    data = build.data(whole, files)
    counts = {split: len(examples) for split, examples in data.examples.items()}
    held_out = f"data.held_out={cfg.data.get('held_out')} of {files['train']}"
    found = {split: f"data.files.{split}={path}" for split, path in files.items()}
    said = list[str]()
    for split, number in counts.items():
        line = f"{found.get(split, held_out)}: {number:,} examples"
        if split == "train" and cfg.fraction < 1:
            kept = len(draw(data.examples["train"], cfg.fraction, cfg.seed))
            line += f", of which fraction={cfg.fraction} keeps {kept:,} to train on"
        said.append(line)
    said += overlap_lines(texts.overlap(cfg, data.examples))
    metric = build.metric(whole, data.labels)
    said += [caution.line for caution in of_examples(metric, data.examples)]
    said += [caution.line for caution in of_clusters(data.examples)]
    for file in vectors:
        size = Path(file).expanduser().stat().st_size
        said.append(f"vocab.vectors={file}: {size / 1e6:,.1f} MB")
    vocab, vectors_of_words = build.vocab(whole, data)
    if vectors:
        said.append(of_vectors(vectors_of_words, vocab.lowercase, data.words).line)
    tokens = sum(map(len, {tuple(each) for each in data.all_sentences}))
    return said, tokens, data.words


def _encoder(cfg: DictConfig, tokens: int, words: Counter[str]) -> Iterator[str]:
    """The encoder's size, the words that it cannot read, and the room of its layers for so many
    tokens.
    """
    try:
        elmo = build.elmo(cfg)
    except NotHereError as missing:
        yield str(missing)
        return
    dim, layers = elmo.encoder.dim, elmo.chosen
    yield f"encoder={cfg.encoder.name}: {elmo.encoder.num_layers} layers of {dim} numbers a token"
    for caution in of_encoder(cfg.encoder.name, elmo.encoder, words):
        yield caution.line
    if not tokens or not build.is_stored(cfg.store.mode, elmo):  # no file is here yet
        return
    size = tokens * len(layers) * row_bytes(dim, cfg.store.dtype)
    kept = counted_noun(len(layers), "layer")
    place = "memory" if cfg.store.mode == "memory" else "disk"
    yield (
        f"layer store: {size / 1e9:.2f} GB of {place} ({tokens:,} tokens x {kept} x {dim} x "
        f"{cfg.store.dtype})"
    )
    if cfg.store.mode == "memory":
        if cfg.dry_run != DOWNLOAD:
            check_room(size, torch.device(hardware.device(cfg)), build.max_bytes(cfg))
        return
    folder = Path(cfg.cache_dir, "layers").expanduser().absolute()
    if lack := no_room(size, folder, build.max_bytes(cfg)):
        yield f"unless this store is there, the encoder will run on every batch: {lack}"
    there = next(each for each in (folder, *folder.parents) if each.exists())
    yield f"{shutil.disk_usage(there).free / 1e9:.0f} GB are free at {there}"
