"""`--dry-run`: whether runs can read what they need, and how large that is. Each job's `prepare`
refuses what the job itself would refuse, and files are read as a whole. No run is kept and nothing
downloaded. `--download-only` does the same online, for a machine with other devices.
"""

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from elmo_bench.runs import fold_of, is_baseline, overlap_lines, reads_apart
from elmo_bench.settings import command, inputs
from elmo_bench.settings.check import applied_options
from elmo_bench.terminal import counted_noun
from elmo_bench.training.cautions import of_clusters, of_encoder, of_examples, of_vectors
from elmo_bench.training.data import Examples, draw

from . import hardware, process

WITH_TRAINER = ("train", "evaluate", "predict")
DOWNLOAD = "download"  # the value of `dry_run`
CORPUS = ("task", "data", "vocab", "text", "fraction")  # settings of what is read of a corpus
SAME = ("seed", "elmo.l2", "elmo.dropout", "elmo.mix_lr")  # runs that differ here read the same
MODEL = ("task.model", "task.optimizer", "task.esim", "task.scheduler")  # and no reader sees these


def lines(configs: Sequence[DictConfig]) -> list[str]:
    """What runs would read and keep, each line once; runs that read the same are looked at once.
    Raises ValueError and OSError, as a run would, for what it could not read.
    """
    process.silence()
    all_lines: list[str] = []
    corpora: dict[tuple[str, bool], tuple[list[str], int, Counter[str]]] = {}
    distinct = {_settings(config): config for config in configs}
    for config in distinct.values():
        stays_offline = config.dry_run != DOWNLOAD
        with offline() if stays_offline else nullcontext(), command.as_run(config) as cfg:
            all_lines += _checked(cfg)
            if cfg.job.get("name") != "train":
                continue
            all_lines += applied_options(cfg)
            corpus = (_settings(cfg, CORPUS, MODEL), reads_apart(cfg))
            if corpus not in corpora:
                corpora[corpus] = _corpus(cfg)
            of_corpus, num_tokens, words = corpora[corpus]
            all_lines += of_corpus
            if not is_baseline(cfg):
                all_lines += _encoder(cfg, num_tokens, words)
    if configs[0].dry_run == DOWNLOAD:
        all_lines.append("All files are here. HF_HUB_OFFLINE=1 keeps a run from asking the hub.")
    return list(dict.fromkeys(all_lines))


def _settings(config: DictConfig, keys: Sequence[str] = (), without: Sequence[str] = ()) -> str:
    """These settings as text, by default all; without those of `SAME` and of `without`."""
    chosen = [str(key) for key in keys or config if key not in ("hydra", "run_dir")]
    content = OmegaConf.masked_copy(config, chosen)
    for key in (*SAME, *without):
        OmegaConf.update(content, key, None, force_add=True)
    fold = fold_of(config)
    if fold is not None:  # which the seed may choose
        content.data.fold = fold
    return OmegaConf.to_yaml(content)


def _checked(cfg: DictConfig) -> Iterator[str]:
    """Check what the job would refuse; a line on what is not here and so was not checked."""
    if cfg.job.get("name") in WITH_TRAINER and cfg.dry_run != DOWNLOAD:
        local = cfg.copy()
        if "wandb" in (local.get("logger") or {}):  # which writes a folder when it is made
            local.logger = {name: node for name, node in local.logger.items() if name != "wandb"}
        hardware.trainer(local, [])  # its devices and loggers
    module = import_module(str(cfg.job["_target_"]).rpartition(".")[0])
    try:
        prepare = getattr(module, "prepare", None)
        if prepare is not None:
            prepare(cfg)
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
    examples = build.examples(whole, files)
    all_lines = [_of_split(cfg, examples, files, split) for split in examples.by_split]
    all_lines += overlap_lines(texts.overlap(cfg, examples.by_split))
    metric = build.metric(whole, examples.labels)
    cautions = list(of_examples(metric, examples.by_split))
    if cfg.data.folds is None:  # else the folds are tested together
        cautions += of_clusters(examples.by_split)
    all_lines += [caution.line for caution in cautions]
    for file in vectors:
        size = Path(file).expanduser().stat().st_size
        all_lines.append(f"vocab.vectors={file}: {size / 1e6:,.1f} MB")
    vocab, vectors_of_words = build.vocab(whole, examples)
    if vectors:
        all_lines.append(of_vectors(vectors_of_words, vocab.lowercase, examples.words).line)
    distinct = set(map(tuple, examples.all_sentences))
    return all_lines, sum(map(len, distinct)), examples.words


def _of_split(cfg: DictConfig, examples: Examples, files: Mapping[str, Path], split: str) -> str:
    """A line on where the examples of a split come from, and how many they are."""
    if fold_of(cfg) is not None:
        origin = f"data.folds={cfg.data.folds}, fold {fold_of(cfg)}, {split}"
    elif split in files:
        origin = f"data.files.{split}={files[split]}"
    else:
        origin = f"data.held_out={cfg.data.get('held_out')} of {files['train']}"
    line = f"{origin}: {len(examples.by_split[split]):,} examples"
    if split == "train" and cfg.fraction < 1:
        kept = len(draw(examples.by_split["train"], cfg.fraction, cfg.seed))
        line += f", of which fraction={cfg.fraction} keeps {kept:,} to train on"
    return line


def _encoder(cfg: DictConfig, tokens: int, words: Counter[str]) -> Iterator[str]:
    """The encoder's size, the words that it cannot read, and the room of its layers for so many
    tokens.
    """
    try:
        elmo = build.elmo(cfg)
    except NotHereError as missing:
        yield str(missing)
        return
    dim = elmo.encoder.dim
    layers = elmo.chosen
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
    lack = no_room(size, folder, build.max_bytes(cfg))
    if lack:
        yield f"unless this store is there, the encoder will run on every batch: {lack}"
    while not folder.exists():
        folder = folder.parent
    yield f"{shutil.disk_usage(folder).free / 1e9:.0f} GB are free at {folder}"
