"""Build the parts of a run from its config: encoder, data, vocabulary, model, module, trainer."""

import inspect
import logging
import math
import os
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from hydra.errors import InstantiationException
from hydra.utils import get_object
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.accelerators import CPUAccelerator, MPSAccelerator
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.plugins.environments import SLURMEnvironment
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from elmo_bench.elmo import Elmo, FineTuning
from elmo_bench.encoders import (
    DeviceLayers,
    Encoder,
    LayerStore,
    add_adapters,
    build_store,
    find_store,
)
from elmo_bench.encoders.bilm import BiLm
from elmo_bench.files import Bars, signals
from elmo_bench.nn import Backbone
from elmo_bench.runs.machine import check_cores, check_slurm_tasks, cores, devices
from elmo_bench.text import Vocab, forms, read_vectors, side_by_side
from elmo_bench.training import AtomicCheckpoints
from elmo_bench.training.data import Example, TaskData
from elmo_bench.training.module import TaskModule

from . import inputs
from .inputs import instantiate

log = logging.getLogger(__name__)
DEVICE_SHARE = 0.25  # largest share of free GPU memory for layers with store.mode=auto
WORKERS = 4  # maximum for a GPU; a worker prepares a batch in a few milliseconds


def elmo(cfg: DictConfig) -> Elmo:
    """Build the mixes over the encoder; `encoder=none` has no layers, and `elmo.mix=none` reads
    none.
    """
    chosen = {key: cfg.elmo[key] for key in ("mix", "at", "dropout", "l2", "norm")}
    settings: Any = OmegaConf.to_container(OmegaConf.create(chosen))
    settings["finetune"] = is_finetuned(cfg)
    built = Elmo(None if cfg.elmo.mix == "none" else _encoder(cfg), **settings)
    if cfg.finetune.name == "lora" and built.encoder is not None:
        add_adapters(built.encoder, cfg.finetune.rank)
    weights = () if built.encoder is None else built.encoder.parameters()
    if any(weight.requires_grad and weight.dtype != torch.float32 for weight in weights):
        raise ValueError(
            f"finetune={cfg.finetune.name} needs float32 weights, since small updates are lost in "
            "16 bits: set encoder.dtype=float32 and trainer.precision=bf16-mixed"
        )
    return built


def finetuning(cfg: DictConfig) -> FineTuning:
    """Build the settings for training the encoder."""
    if not is_finetuned(cfg):
        return FineTuning()
    return FineTuning(cfg.finetune.lr, cfg.finetune.lr_decay, cfg.finetune.name == "gradual")


def is_finetuned(cfg: DictConfig) -> bool:
    """Whether the encoder, or adapters of it, train with the task."""
    return bool(cfg.finetune.name != "none")


def schedule(cfg: DictConfig) -> Callable[[torch.optim.Optimizer, int], Any] | None:
    """Build the learning rate schedule from the optimizer and the number of steps; None if the task
    has its own.
    """
    if "_target_" not in cfg.schedule:
        return None
    return instantiate({key: value for key, value in cfg.schedule.items() if key != "name"})


def encoder(cfg: DictConfig) -> Any:
    """Build the encoder of a job that has no task.

    Raises ValueError for elmo.adapt=true, for encoder=none, and for an invalid encoder, and any
    error of loading the encoder.
    """
    if cfg.elmo.adapt:
        raise ValueError(
            "elmo.adapt=true requires a run with a task: to adapt a biLM for this job, run "
            "job=adapt out=DIR first, then use encoder=files encoder.dir=DIR"
        )
    if (built := _encoder(cfg)) is None:
        raise ValueError(
            f"encoder={cfg.encoder.name} has no layers: choose an encoder, such as encoder=mini"
        )
    return built


def _encoder(cfg: DictConfig) -> Encoder | None:
    """Build the encoder from `cfg.encoder`; all its settings except `inputs.ABOUT` are arguments.
    Without a `_target_` it is the baseline.
    """
    built: Encoder | None = None
    inputs.check_encoder(cfg)
    if "_target_" in cfg.encoder:
        settings: Any = OmegaConf.to_container(cfg.encoder, resolve=True)
        built = instantiate(
            {key: value for key, value in settings.items() if key not in inputs.ABOUT}
        )
        if not isinstance(built, torch.nn.Module) or not isinstance(built, Encoder):
            raise ValueError(
                f"encoder={cfg.encoder.name}: {cfg.encoder._target_} returned a "
                f"{type(built).__name__}, which is not an encoder; see "
                "elmo_bench/encoders/contract.py for what an encoder must have"
            )
    return built


def bilm(cfg: DictConfig) -> BiLm:
    """Build the encoder, which must be a biLM."""
    built = encoder(cfg)
    if not isinstance(built, BiLm):
        raise ValueError(
            f"encoder={cfg.encoder.name} is not a biLM: choose one, such as encoder=mini"
        )
    return built


def bilm_files(cfg: DictConfig) -> tuple[str, str]:
    """Return the paths of the biLM's options.json and weights; download them if necessary."""
    if not {"options", "weights"} <= cfg.encoder.keys():
        raise ValueError(
            f"encoder={cfg.encoder.name} has no biLM files: choose a biLM, such as encoder=mini"
        )
    inputs.check_encoder(cfg)
    paths = []
    for key in ("options", "weights"):
        value = cfg.encoder[key]
        paths.append(value if value is None or isinstance(value, str) else instantiate(value))
        if paths[-1] is None:
            raise ValueError(
                f"encoder.{key} is empty: give a folder written by job=pretrain out=FOLDER: "
                "encoder.dir=FOLDER"
            )
    options, weights = (str(Path(str(path)).expanduser()) for path in paths)
    return options, weights


def is_pretrained(cfg: DictConfig) -> bool:
    """Whether the encoder's weights come from its files; random weights depend on the seed."""
    return bool(cfg.encoder.get("pretrained", True))


def task_files(cfg: DictConfig) -> ModuleType:
    """Return the task's module with `read`, `collate` and `write`.

    Raises ValueError for one that is missing or cannot read.
    """
    name = cfg.task.data
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise ValueError(f"task.data={name}, but there is no module {error.name}") from error
        raise
    optional(module, "read", f"task.data={name}")
    return module


def optional(task: ModuleType, name: str, needed_by: str) -> Callable[..., Any]:
    """Return a function that a task's module may lack; raises ValueError if it does."""
    if not hasattr(task, name):
        raise ValueError(f"{task.__name__} has no function {name}, which {needed_by} requires")
    function: Callable[..., Any] = getattr(task, name)
    return function


def reader(cfg: DictConfig, split: str, file: str = "") -> Callable[[Path], Iterator[Example]]:
    """Return the task's `read` with the arguments of `task.read.SPLIT`, and those that the corpus
    has for its file of this split (or of split `file`), `data.read.TASK.SPLIT`.
    """
    options = OmegaConf.select(cfg, f"task.read.{split}") or {}
    of_file = OmegaConf.select(cfg, f"data.read.{cfg.task.name}.{file or split}") or {}
    return partial(task_files(cfg).read, **options, **of_file)


def data(
    cfg: DictConfig,
    files: Mapping[str, Path] | None = None,
    read: Mapping[str, Callable[[Path], Iterator[Example]]] | None = None,
) -> TaskData:
    """Read and check all examples, of all splits unless their `files` are given. Each split uses
    its own `task.read` arguments unless `read` is given.
    """
    task, files = task_files(cfg), files or inputs.corpus(cfg)
    for split in sorted(files.keys() - {"train"}):
        if files[split].samefile(files["train"]):
            log.warning(
                "data.files.%s is the training file: its figures say how well the model remembers",
                split,
            )
    return TaskData(
        files,
        read=read or {split: reader(cfg, split) for split in ("train", "dev", "test")},
        collate=task.collate,
        **batches(cfg),
        fraction=cfg.fraction,
        overfit=cfg.fit.get("overfit"),
        seed=cfg.seed,
        num_workers=workers(cfg),
    )


def workers(cfg: DictConfig) -> int:
    """Return the number of processes that prepare batches for each training process.

    With a GPU, `auto` is the process's share of the cores minus one, at most `WORKERS`. In a sweep,
    OMP_NUM_THREADS is the share of a run.
    """
    if cfg.num_workers != "auto":
        return cfg.num_workers
    if device(cfg) == "cpu":
        return 0
    threads = os.environ.get("OMP_NUM_THREADS", "")
    share = int(threads) if threads.isdigit() else cores() // max(1, len(_gpus(cfg)))
    return min(WORKERS, max(0, share - 1))


def _gpus(cfg: DictConfig) -> Sequence[int]:
    """Return the GPUs of this machine that a run uses."""
    return devices(cfg.trainer.get("devices", 1), torch.cuda.device_count())


def batches(cfg: DictConfig) -> dict[str, Any]:
    """Return the limits on the size of a batch."""
    return {key: cfg.fit[key] for key in ("batch_size", "batch_tokens", "batch_scores")}


def device(cfg: DictConfig) -> str:
    """Return the device of an encoder outside training: the GPU if there is one, unless `trainer`
    says otherwise, the first one of `trainer.devices`.
    """
    if not torch.cuda.is_available() or cfg.trainer.accelerator == "cpu":
        return "cpu"
    first, *_ = *_gpus(cfg), 0
    return f"cuda:{first}" if first else "cuda"


def is_stored(cfg: DictConfig, elmo: Elmo) -> bool:
    """Whether layers are kept: of a frozen encoder, and of static vectors only with
    `store.mode=device`.
    """
    is_static = cfg.store.mode == "auto" and getattr(elmo.encoder, "is_static", False)
    return bool(elmo.mixes) and not (cfg.store.mode == "off" or elmo.finetune or is_static)


def store(
    cfg: DictConfig, elmo: Elmo, data: TaskData, where: torch.device | None = None
) -> LayerStore | None:
    """Build or open the store with the layers of all sentences, including those that `fraction`
    leaves out; None if the encoder should run on each batch.

    The encoder computes missing layers on `where`, by default on `device(cfg)`.
    """
    if not is_stored(cfg, elmo) or "limit_train_batches" in cfg.trainer:
        return None
    limit, folder = cfg.store.max_bytes, Path(cfg.cache_dir, "layers").expanduser()
    return build_store(
        elmo.encoder,
        data.all_sentences,
        elmo.chosen,
        folder,
        dtype=cfg.store.dtype,
        max_bytes=math.inf if limit is None else float(limit),
        keep=is_pretrained(cfg),  # no other run has the same random weights
        device=where or torch.device(device(cfg)),
    )


def device_layers(
    cfg: DictConfig, store: LayerStore | None, device: torch.device
) -> DeviceLayers | None:
    """Copy the store's layers to the training device if `store.mode=device`, or if `auto` and they
    need at most `DEVICE_SHARE` of its free memory. Otherwise return None, and batches read from the
    store; on a CPU always, since the files of the store are in memory already.

    Raises ValueError if `store.mode=device` and they do not fit.
    """
    if store is None or device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(device)
    if cfg.store.mode == "device" and store.num_bytes > free:
        raise ValueError(
            f"store.mode=device: layers {', '.join(map(str, store.layers))} of "
            f"{store.num_words:,} words need {store.num_bytes / 1e9:.2f} GB, but only "
            f"{free / 1e9:.2f} GB of {device} are free. Use store.mode=auto to keep them in "
            "the store's files, or store.dtype=float16 to halve them"
        )
    if cfg.store.mode == "auto" and store.num_bytes > DEVICE_SHARE * free:
        return None
    log.info(
        "layers copied to %s: %.2f GB of %.2f GB free",
        device,
        store.num_bytes / 1e9,
        free / 1e9,
    )
    return store.on(device)


@contextmanager
def fed(cfg: DictConfig, module: TaskModule, data: TaskData) -> Iterator[None]:
    """Have batches read a store of an earlier run that has all sentences of `data`, if there is
    one; it is closed after the body.
    """
    folder, elmo = Path(cfg.cache_dir, "layers").expanduser(), module.elmo
    store = None
    if is_stored(cfg, elmo):
        sentences, dtype = data.all_sentences, cfg.store.dtype
        store = find_store(elmo.encoder, sentences, elmo.chosen, folder, dtype=dtype)
    with nullcontext() if store is None else closing(store):
        data.feed(module.model.backbone, store)
        yield


def vocab(cfg: DictConfig, data: TaskData) -> tuple[Vocab, Mapping[str, np.ndarray]]:
    """Build the vocabulary from the words of the training examples and every word of any split that
    has a pretrained vector.
    """
    seen = {
        word for split in data.examples for sentence in data.sentences(split) for word in sentence
    }
    word_vectors = vectors(cfg, seen)
    built = Vocab.build(
        data.sentences("train"),
        data.labels,
        min_count=cfg.vocab.min_count,
        keep=word_vectors,
        lowercase=cfg.vocab.lowercase if word_vectors else True,
    )
    return built, word_vectors


def vectors(cfg: DictConfig, words: Iterable[str]) -> dict[str, np.ndarray]:
    """Read the vectors of some words from the files of `vocab.vectors`; empty without files."""
    lowercase, files = cfg.vocab.lowercase, inputs.vectors(cfg)
    wanted = {form for word in words for form in forms(word, lowercase)}
    parts = []
    for path in files:
        with Bars() as bars:  # a file may have millions of lines
            watch = partial(bars.track, description="vocab.vectors, lines")
            rows, table = read_vectors(Path(path).expanduser(), wanted, watch)
        part = {word: table[row] for word, row in rows.items()}
        parts.append(part)
        if not part:
            raise ValueError(f"vocab.vectors={path}: it has no vector for any word of the data")
        if lowercase is False and all(map(_is_lower, part)) and not all(map(_is_lower, wanted)):
            log.warning(
                "vocab.vectors=%s is lower-cased, so capitalised words have no vector: "
                "vocab.lowercase=fallback looks them up in lower case",
                path,
            )
    return side_by_side(parts, unit=cfg.vocab.get("unit_vectors", False))


def _is_lower(word: str) -> bool:
    return word == word.lower()


def model(cfg: DictConfig, vocab: Vocab, vectors: Mapping[str, np.ndarray], elmo: Elmo) -> Any:
    """Build the task's model on its backbone."""
    embed = instantiate(_taken(cfg.embed))(vocab=vocab, vectors=vectors)
    backbone = partial(Backbone, embed, elmo, instantiate(_taken(cfg.rnn)))
    return instantiate(cfg.task.model)(backbone, vocab.labels)


def _taken(node: DictConfig) -> dict[str, Any]:
    """Keep the settings that the chosen `embed` or `rnn` accepts. A task's settings are for its own
    choice and stay in the config if another is chosen.
    """
    settings: Any = OmegaConf.to_container(node, resolve=True)
    parameters = inspect.signature(get_object(settings["_target_"])).parameters
    if any(each.kind is each.VAR_KEYWORD for each in parameters.values()):
        return settings
    return {key: value for key, value in settings.items() if key in parameters or key[0] == "_"}


def module(cfg: DictConfig, model: Any, vocab: Vocab) -> TaskModule:
    """Build the LightningModule with its metric and optimizer; null arguments of the optimizer are
    not passed.
    """
    return TaskModule(
        model,
        instantiate(cfg.task.metric)(vocab.labels),
        _optimizer(cfg),
        monitor=f"dev/{cfg.task.monitor}",
        finetuning=finetuning(cfg),
        mix_lr=cfg.elmo.mix_lr,
        scheduler=instantiate(cfg.task.get("scheduler")),
        schedule=schedule(cfg),
        encoder_is_elsewhere=model.backbone.elmo.encoder is not None
        and is_pretrained(cfg)
        and not is_finetuned(cfg),
    )


def _optimizer(cfg: DictConfig) -> Any:
    options = {key: value for key, value in cfg.task.optimizer.items() if value is not None}
    return instantiate(options | {"_convert_": "all"})  # checkpoints contain only plain lists


def trainer(cfg: DictConfig, callbacks: list[Callback]) -> pl.Trainer:
    """Build Lightning's Trainer with the chosen loggers and the task's callbacks in addition to
    ours.

    Raises ValueError for devices that this machine does not have, or a logger that is not
    installed.
    """
    settings: dict[str, Any] = {
        "callbacks": callbacks + [instantiate(node) for node in cfg.task.get("callbacks", ())],
        "logger": _loggers(cfg),
        "default_root_dir": cfg.run_dir,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
        # Without a terminal, jobs/train.py logs lines instead.
        "enable_progress_bar": cfg.trainer.get("enable_progress_bar", True) and sys.stdout.isatty(),
    }
    asked = cfg.trainer.accelerator
    if MPSAccelerator.is_available() and asked != "cpu":
        lacks = "Apple's GPU lacks float64, in which metrics are computed"
        if asked != "auto":
            raise ValueError(f"trainer.accelerator={asked}, but {lacks}: use trainer=cpu")
        log.info("trainer.accelerator=auto takes the CPU: %s", lacks)
        settings["accelerator"] = "cpu"
    try:
        built = instantiate(cfg.trainer, **settings)
    except InstantiationException as error:  # an argument that it does not have
        raise ValueError(f"trainer: {error.__cause__ or error}") from error
    except MisconfigurationException as error:
        raise ValueError(
            f"trainer.accelerator={asked} trainer.devices={cfg.trainer.devices}: {error}; use "
            "trainer=auto to use the available devices"
        ) from error
    if isinstance(built.strategy, DDPStrategy) and is_finetuned(cfg):
        # Unmixed or still frozen layers of an encoder have no gradients.
        built.strategy._ddp_kwargs.setdefault("find_unused_parameters", True)
    built.strategy.checkpoint_io = AtomicCheckpoints()
    _check_processes(built, cfg.oversubscribe)
    return built


def _loggers(cfg: DictConfig) -> list[Any]:
    loggers = []
    for name, logger in (cfg.get("logger") or {}).items():  # evaluate and predict have no logger
        try:
            loggers.append(instantiate(logger))
        except ImportError as error:
            raise ValueError(
                f"logger={name} requires a package that is not installed: {error} "
                "(TensorBoard is in pip install 'elmo-bench[tensorboard]')"
            ) from error
    return loggers


def _check_processes(built: pl.Trainer, oversubscribe: bool) -> None:
    """Check the number of the run's processes; those that SLURM has not started end with this."""
    if SLURMEnvironment.detect():  # it assigns cores to each task
        check_slurm_tasks(built.num_devices, built.num_nodes)
        return
    if isinstance(built.accelerator, CPUAccelerator) and not oversubscribe:
        check_cores("trainer.devices", built.num_devices)
    # Lightning's own waits for the other processes, which may wait for this one, and a run that is
    # ended by SIGTERM would pass for one that is done.
    built._signal_connector.register_signal_handlers = lambda: None  # type: ignore[method-assign]
    strategy = weakref.ref(built.strategy)  # a later training must not keep this model alive
    signals.end_before_this(lambda: getattr(getattr(strategy(), "launcher", None), "procs", []))
