"""Build the parts of a run from a config: ELMo, examples, vocabulary, model, store, batches."""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from omegaconf import DictConfig, OmegaConf

from elmo_bench.elmo import Elmo
from elmo_bench.encoders import LayerMemory, LayerStore, add_adapters, build_store
from elmo_bench.nn import Backbone, Embed, Rnn, TaskModel
from elmo_bench.runs import fold_of, smoke_batches
from elmo_bench.settings import inputs
from elmo_bench.settings.targets import instantiate
from elmo_bench.settings.types import arguments
from elmo_bench.text import Sentences, Vocab
from elmo_bench.training.cautions import (
    Caution,
    of_clusters,
    of_encoder,
    of_examples,
    of_vectors,
)
from elmo_bench.training.data import Example, Examples, TaskData
from elmo_bench.training.folds import Folds
from elmo_bench.training.in_parts import InParts
from elmo_bench.training.module import TaskModule
from elmo_bench.training.optim import FineTuning

from . import hardware
from .encoders import encoder_or_none, is_pretrained
from .task_format import reader, task_format
from .texts import read_word_vectors

MIX = ("mix", "at", "dropout", "l2", "norm")  # the settings of `elmo` that its class takes
BOUNDS = ("batch_size", "batch_tokens", "batch_scores")  # those of `fit` on the size of a batch


class Parts(NamedTuple):
    """What a run is built of, by its config; `vectors` are the pretrained ones of words."""

    config: DictConfig
    elmo: Elmo
    examples: Examples
    vectors: Mapping[str, np.ndarray]
    vocab: Vocab
    module: TaskModule


def parts(cfg: DictConfig, files: Mapping[str, Path] | None = None) -> Parts:
    """Build all parts of a run; `files` is its corpus by split, where that has been found."""
    mixes = elmo(cfg)
    of_task = examples(cfg, files)
    vocabulary, vectors = vocab(cfg, of_task)
    task_model = model(cfg, vocabulary, vectors, mixes)
    task_model.observe(of_task.by_split["train"])
    task_module = module(cfg, task_model, vocabulary)
    return Parts(cfg, mixes, of_task, vectors, vocabulary, task_module)


def elmo(cfg: DictConfig) -> Elmo:
    """Build the mixes over the encoder: none for `encoder=none` and for `elmo.mix=none`."""
    chosen = {key: cfg.elmo[key] for key in MIX}
    settings: Any = OmegaConf.to_container(OmegaConf.create(chosen))
    settings["finetune"] = cfg.finetune.name != "none"
    built = Elmo(None if cfg.elmo.mix == "none" else encoder_or_none(cfg), **settings)
    if cfg.finetune.name == "lora" and built.encoder is not None:
        add_adapters(built.encoder, cfg.finetune.rank)
    if built.encoder is not None:
        _check_precision(cfg, built.encoder)
    return built


def _check_precision(cfg: DictConfig, encoder: torch.nn.Module) -> None:
    """Raise ValueError if weights of an encoder would be trained in 16 bits."""
    rounds = cfg.trainer.precision in ("bf16-true", "16-true")
    trained = [weight for weight in encoder.parameters() if weight.requires_grad]
    if any(rounds or weight.dtype != torch.float32 for weight in trained):
        raise ValueError(
            f"finetune={cfg.finetune.name} needs float32 weights, since small updates are lost in "
            "16 bits: set encoder.dtype=float32 and trainer.precision=bf16-mixed"
        )


def examples(
    cfg: DictConfig,
    files: Mapping[str, Path] | None = None,
    read: Mapping[str, Callable[[Path], Iterator[Example]]] | None = None,
    vocab: Vocab | None = None,
) -> Examples:
    """Read and check all examples of the corpus, or of `files`. Each split has the `reader` of its
    own unless `read` is given; `vocab` is that of a model that has been trained.
    """
    paths = files or inputs.corpus(cfg)
    has_training = "train" in paths
    return Examples(
        paths,
        read=read or _readers(cfg, paths),
        fraction=cfg.fraction,
        overfit=cfg.fit.get("overfit") if has_training else None,
        held_out=cfg.data.get("held_out") if has_training else None,
        folds=_folds(cfg, read) if has_training else None,
        seed=cfg.seed,
        vocab=vocab,
    )


def _readers(
    cfg: DictConfig, files: Mapping[str, Path]
) -> dict[str, Callable[[Path], Iterator[Example]]]:
    """Return the reader of each split; a split without a file is read from that of training."""
    readers = {}
    for split in inputs.SPLITS:
        readers[split] = reader(cfg, split, "" if split in files else "train")
    return readers


def _folds(
    cfg: DictConfig, given: Mapping[str, Callable[[Path], Iterator[Example]]] | None
) -> Folds | None:
    """Return the fold that is test, and the reader of each file as each split: the one `given` for
    the split, or else the split's own with what the corpus has for the file.
    """
    number = fold_of(cfg)
    if number is None:
        return None
    read = {}
    for split, file in itertools.product(inputs.SPLITS, repeat=2):
        read[split, file] = given[split] if given else reader(cfg, split, file)
    return Folds(number, cfg.data.folds, read)


def vocab(cfg: DictConfig, examples: Examples) -> tuple[Vocab, Mapping[str, np.ndarray]]:
    """Build the vocabulary from the training words and all words that have a pretrained vector."""
    word_vectors = read_word_vectors(cfg, examples.words)
    built = Vocab.build(
        examples.sentences("train"),
        examples.labels,
        min_count=cfg.vocab.min_count,
        keep=word_vectors,
        lowercase=cfg.vocab.lowercase if word_vectors else True,
    )
    return built, word_vectors


def model(
    cfg: DictConfig, vocab: Vocab, vectors: Mapping[str, np.ndarray], elmo: Elmo
) -> TaskModel:
    """Build the task's model on its backbone."""
    embed = instantiate(_accepted(cfg.embed))(vocab=vocab, vectors=vectors)
    _check_class("embed", cfg.embed, embed, Embed)
    backbone = partial(Backbone, embed, elmo, instantiate(_accepted(cfg.rnn)))
    built = instantiate(_accepted(cfg.task.model))(backbone, vocab.labels)
    _check_class("task.model", cfg.task.model, built, TaskModel)
    _check_class("rnn", cfg.rnn, built.backbone.rnn, Rnn)
    return built


def _check_class(key: str, node: DictConfig, built: Any, contract: type) -> None:
    """Raise ValueError for a part of a model whose class does not inherit its contract."""
    if not isinstance(built, contract):
        raise ValueError(
            f"{key}._target_={node._target_} returned a {type(built).__name__}, whose class must "
            f"inherit elmo_bench.nn.{contract.__name__}"
        )


def metric(cfg: DictConfig, labels: Sequence[str]) -> Any:
    """Build the task's metric."""
    return instantiate(_accepted(cfg.task.metric))(labels)


def _accepted(node: DictConfig) -> dict[str, Any]:
    """Keep the settings that the chosen `embed`, `rnn`, head or metric accepts. A task's settings
    are for its own choice and stay in the config if another is chosen.
    """
    settings: Any = OmegaConf.to_container(node, resolve=True)
    hints = arguments(settings["_target_"])
    if "**" in hints:
        return settings
    return {key: value for key, value in settings.items() if key in hints or key[0] == "_"}


def module(cfg: DictConfig, model: TaskModel, vocab: Vocab) -> TaskModule:
    """Build the LightningModule with its metric and optimizer, without null arguments."""
    optimizer = {key: value for key, value in cfg.task.optimizer.items() if value is not None}
    schedule = {key: value for key, value in cfg.schedule.items() if key != "name"}
    tune = cfg.finetune
    is_tuned = tune.name != "none"
    has_encoder = model.backbone.elmo.encoder is not None
    return InParts(
        model,
        metric(cfg, vocab.labels),
        instantiate(optimizer | {"_convert_": "all"}),  # checkpoints contain only plain lists
        monitor=f"dev/{cfg.task.monitor}",
        finetuning=FineTuning(tune.lr, tune.lr_decay) if is_tuned else None,
        mix_lr=cfg.elmo.mix_lr,
        scheduler=instantiate(cfg.task.get("scheduler")),
        schedule=instantiate(schedule) if schedule else None,
        encoder_is_elsewhere=has_encoder and is_pretrained(cfg.encoder) and not is_tuned,
    )


def cautions(cfg: DictConfig, parts: Parts) -> Iterator[Caution]:
    """Yield sentences on examples, words and encoder of a run whose scores may mean little."""
    examples = parts.examples
    yield from of_examples(parts.module.metrics["test"], examples.by_split)
    if cfg.data.folds is None:  # else the folds are tested together
        yield from of_clusters(examples.by_split)
    if cfg.vocab.vectors:
        yield of_vectors(parts.vectors, parts.vocab.lowercase, examples.words)
    if parts.elmo.mixes:
        yield from of_encoder(cfg.encoder.name, parts.elmo.encoder, examples.words)


def store(
    cfg: DictConfig, elmo: Elmo, sentences: Sentences, device: torch.device
) -> LayerStore | LayerMemory | None:
    """Build or open the store with the layers of all sentences of a run, including those that
    `fraction` leaves out, or compute them into the memory of `device`, where the encoder runs; None
    if it should run on each batch.
    """
    # A smoke run reads little.
    if smoke_batches(cfg) or not is_stored(cfg.store.mode, elmo):
        return None
    if cfg.store.mode == "memory":
        return LayerMemory(
            elmo.encoder,
            sentences,
            elmo.chosen,
            device,
            dtype=cfg.store.dtype,
            max_bytes=max_bytes(cfg),
        )
    return build_store(
        elmo.encoder,
        sentences,
        elmo.chosen,
        Path(cfg.cache_dir, "layers").expanduser(),
        dtype=cfg.store.dtype,
        max_bytes=max_bytes(cfg),
        keep=is_pretrained(cfg.encoder),  # no other run has the same random weights
        device=device,
    )


def data(
    cfg: DictConfig,
    examples: Examples,
    vocab: Vocab,
    backbone: Backbone,
    store: LayerStore | LayerMemory | None = None,
    start: tuple[int, int] = (0, 0),
) -> TaskData:
    """Build what makes the batches of a run, from the layers in its store if it has one."""
    return TaskData(
        examples.by_split,
        vocab,
        backbone,
        store,
        collate=task_format(cfg).collate,
        start=start,
        seed=cfg.seed,
        num_workers=hardware.workers(cfg),
        **{key: cfg.fit[key] for key in BOUNDS},
    )


def max_bytes(cfg: DictConfig) -> float:
    """How many bytes stores may take."""
    return math.inf if cfg.store.max_bytes is None else float(cfg.store.max_bytes)


def is_stored(mode: str, elmo: Elmo) -> bool:
    """Whether layers are stored: those of a frozen encoder that is not a table of vectors."""
    if not elmo.mixes or mode == "off" or elmo.finetune:
        return False
    return not elmo.encoder.is_static
