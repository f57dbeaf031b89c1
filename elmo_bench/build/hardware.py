"""Build Lightning's Trainer from a config; choose devices and the number of workers."""

import os
import sys
import weakref
from collections.abc import Sequence
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.errors import InstantiationException
from omegaconf import DictConfig, ListConfig
from pytorch_lightning.accelerators import CPUAccelerator
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from pytorch_lightning.plugins.environments import SLURMEnvironment
from pytorch_lightning.strategies import DDPStrategy
from pytorch_lightning.utilities.exceptions import MisconfigurationException

from elmo_bench.settings.machine import check_cores, check_slurm_tasks, cores
from elmo_bench.settings.targets import instantiate
from elmo_bench.terminal import signals
from elmo_bench.training.resume import AtomicCheckpoints
from elmo_bench.training.stop import StopAgain

WORKERS = 4  # maximum for a GPU; a worker prepares a batch in a few milliseconds
ADVICE = "use trainer=auto to use the available devices"


def device(cfg: DictConfig) -> str:
    """Return the device of an encoder outside training: the GPU if there is one, unless `trainer`
    says otherwise; of a list of `trainer.devices` the first. Raises ValueError if it must be a GPU
    and there is none.
    """
    asked = cfg.trainer.accelerator
    if asked == "cpu" or (asked == "auto" and not torch.cuda.is_available()):
        return "cpu"
    if not torch.cuda.is_available():
        raise ValueError(f"trainer.accelerator={asked}, but torch finds no GPU; {ADVICE}")
    chosen = cfg.trainer.devices
    return f"cuda:{chosen[0]}" if isinstance(chosen, ListConfig) else "cuda"


def workers(cfg: DictConfig) -> int:
    """Return the number of processes that prepare batches for each training process.

    With a GPU, `auto` is its share of the cores minus one, at most `WORKERS`. In a sweep,
    OMP_NUM_THREADS is the share of a run.
    """
    if cfg.num_workers != "auto":
        return cfg.num_workers
    if cfg.trainer.accelerator == "cpu" or not torch.cuda.is_available():
        return 0
    threads = os.environ.get("OMP_NUM_THREADS", "")  # may be a list: 4,2
    share = int(threads) if threads.isdigit() else cores() // torch.cuda.device_count()
    return min(WORKERS, max(0, share - 1))


def callbacks(cfg: DictConfig) -> list[pl.Callback]:
    """Build the callbacks for the best epoch, early stopping and learning rates."""
    monitor = f"dev/{cfg.task.monitor}"
    best = ModelCheckpoint(
        cfg.run_dir, "best", monitor=monitor, mode="max", enable_version_counter=False
    )
    stop = EarlyStopping(
        monitor=monitor,
        mode="max",
        patience=cfg.fit.patience,
        stopping_threshold=0.9999 if "overfit" in cfg.fit else None,  # 100 %, up to rounding
        check_on_train_epoch_end=False,  # trainer.max_steps may end an epoch before dev
    )
    built: list[pl.Callback] = [best, stop]
    if cfg.get("logger"):
        built.append(LearningRateMonitor("step"))
    return built


def trainer(cfg: DictConfig, callbacks: Sequence[pl.Callback] = ()) -> pl.Trainer:
    """Build the Trainer with the chosen loggers, these callbacks and those of the task.

    Raises ValueError for devices that this machine does not have, and ImportError for a logger that
    is not installed.
    """
    of_task = [instantiate(node) for node in cfg.task.get("callbacks", ())]
    settings: dict[str, Any] = {
        # Never Apple's GPU: it lacks float64, in which metrics are computed.
        "accelerator": device(cfg).partition(":")[0],
        "callbacks": [StopAgain()] + list(callbacks) + of_task,
        "logger": list(map(instantiate, (cfg.get("logger") or {}).values())),
        "default_root_dir": cfg.run_dir,
        "enable_model_summary": False,
        "use_distributed_sampler": False,
        # Without a terminal, EpochLines logs lines instead.
        "enable_progress_bar": cfg.trainer.get("enable_progress_bar", True) and sys.stdout.isatty(),
    }
    try:
        built: pl.Trainer = instantiate(cfg.trainer, **settings)
    except InstantiationException as error:  # an argument that it does not have
        raise ValueError(f"trainer: {error.__cause__ or error}") from error
    except MisconfigurationException as error:
        raise ValueError(
            f"trainer.accelerator={cfg.trainer.accelerator} "
            f"trainer.devices={cfg.trainer.devices}: {error}; {ADVICE}"
        ) from error
    if isinstance(built.strategy, DDPStrategy) and cfg.finetune.name != "none":
        # Unmixed layers of an encoder have no gradients.
        built.strategy._ddp_kwargs.setdefault("find_unused_parameters", True)
    built.strategy.checkpoint_io = AtomicCheckpoints()
    _check_processes(built, cfg.oversubscribe)
    return built


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
