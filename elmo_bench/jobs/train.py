"""`job=train`: train a task's model, test its best epoch, and write `result.json`, predictions,
checkpoint and curves.
"""

import logging
import platform
import time
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import (
    Callback,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
)

from elmo_bench import checkpoint, wandb_logger
from elmo_bench.config import again, build, inputs
from elmo_bench.data import Example, TaskData, clusters
from elmo_bench.encoders import LayerStore
from elmo_bench.files import Lines, alone, atomic
from elmo_bench.module import TaskModule
from elmo_bench.report.result import print_result
from elmo_bench.runs import (
    GOES_ON,
    Result,
    about,
    as_baseline,
    begin,
    flat_mix,
    goes_on_from,
    is_baseline,
    number_of,
    write_result,
)
from elmo_bench.training import StepCheckpoint, naming

from . import adapt

log = logging.getLogger(__name__)


class EpochLines(Callback):
    """Logs a line for each epoch; `seconds` is the time spent on training batches."""

    def __init__(self, monitor: str, started: float) -> None:
        self.monitor, self.best, self.seconds = monitor, float("-inf"), 0.0
        self.started = started  # start of this process, by time.perf_counter
        self.earlier = 0.0  # seconds that earlier, killed processes of the run took
        self.start: float | None = None  # start of a run of training batches; None outside them
        self.is_scored = False  # whether dev was scored in this epoch
        self.lines = Lines()  # progress of this epoch, or of this pass over dev or test

    @property
    def total(self) -> float:
        """All seconds of the run so far."""
        return self.earlier + time.perf_counter() - self.started

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.begun = self.start = time.perf_counter()

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.begun = self.start = time.perf_counter()
        self.is_scored = False
        self.lines = Lines()

    def on_train_batch_start(self, *_: Any) -> None:
        if self.start is None:  # after a look at dev within the epoch
            self.start = time.perf_counter()

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if not trainer.is_global_zero:
            return
        work = f"epoch {trainer.current_epoch + 1} of at most {trainer.max_epochs}, batch"
        self.lines.at(work, batch_idx + 1, trainer.num_training_batches)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.seconds, self.start, self.is_scored = self._spent(), None, True
        self.lines = Lines()

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if trainer.is_global_zero:
            self.lines.at(f"{'test' if trainer.testing else 'dev'}, batch", batch_idx + 1, None)

    on_test_batch_end = on_validation_batch_end

    def on_test_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.lines = Lines()

    def _spent(self) -> float:
        return self.seconds + (0.0 if self.start is None else time.perf_counter() - self.start)

    def state_dict(self) -> dict[str, float]:
        return {
            "best": self.best,
            "seconds": self._spent(),
            "total": self.total,
            "is_scored": self.is_scored,
        }

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if trainer.training:  # loading the best epoch must not reset the run's times
            state = checkpoint["callbacks"][self.state_key]
            self.best, self.seconds = state["best"], state["seconds"]
            self.earlier, self.is_scored = state["total"], state.get("is_scored", False)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.seconds, self.start = self._spent(), None
        figure, mark = "", ""
        if self.is_scored:
            value = float(trainer.callback_metrics[self.monitor])
            figure = f"   {self.monitor} {100 * value:5.2f}"
            mark = "  best so far" if value > self.best else ""
            self.best = max(value, self.best)
        log.info(
            "epoch %2d of at most %d   train/loss %7.3f%s   %4.1f s%s",
            trainer.current_epoch + 1,
            trainer.max_epochs,
            float(trainer.callback_metrics["train/loss"]),
            figure,
            time.perf_counter() - self.begun,
            mark,
        )


def check(cfg: DictConfig) -> None:
    """Raise the errors of the settings before any file is read; warn of those without effect."""
    build.finetuning(cfg), build.schedule(cfg)
    idle = [key for key in inputs.overridden(cfg) if key.startswith("elmo.")]
    if idle and "_target_" not in cfg.encoder and cfg.elmo.mix != "none":
        log.warning(
            "encoder=%s has no layers, so %s has no effect", cfg.encoder.name, ", ".join(idle)
        )
    if cfg.elmo.adapt and not is_baseline(cfg):
        adapt.pretrained(cfg)


def train(cfg: DictConfig) -> dict[str, float]:
    """Train and test a model; return the metrics of dev and test, as fractions of 1.

    With `resume=true` a killed run continues in its own folder, and a finished run is not repeated.
    """
    started = time.perf_counter()
    log.setLevel(logging.INFO if build.is_first() else logging.WARNING)  # one process reports
    check(cfg)
    if is_baseline(cfg):
        asked = f"encoder={cfg.encoder.name} elmo.mix={cfg.elmo.mix}"
        log.info("%s is the baseline: it has no layers", asked)
        as_baseline(cfg)
    if cfg.resume:
        again.move(cfg)
    Path(cfg.run_dir).mkdir(parents=True, exist_ok=True)
    with (
        alone(Path(cfg.run_dir, "run"), "another process is running this run: waiting for it")
        if build.is_first()
        else nullcontext()
    ):
        if cfg.resume and (metrics := again.finished_figures(cfg)):
            return metrics
        return _train(cfg, started)


def _train(cfg: DictConfig, started: float) -> dict[str, float]:
    inputs.vectors(cfg)  # raises its error before the biLM is adapted
    files = inputs.files(cfg)
    last = (begin if build.is_first() else goes_on_from)(cfg, files)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    asked = cfg
    if cfg.elmo.adapt and cfg.elmo.mix != "none":  # a baseline has nothing to adapt
        cfg = adapt.adapted(cfg)
        # Reset the random state, which differs if the encoder was adapted in this process.
        pl.seed_everything(cfg.seed, workers=True, verbose=False)
    elmo, data = build.elmo(cfg), build.data(cfg, inputs.by_split(files))
    data.vocab, vectors = build.vocab(cfg, data)
    module = build.module(cfg, build.model(cfg, data.vocab, vectors, elmo), data.vocab)
    parameters = count_parameters(module)
    run = about(asked) | {"parameters": parameters}
    module.content = {
        checkpoint.KEY: checkpoint.describe(cfg, data.vocab, vectors, module) | {"run": run}
    }
    sizes = ", ".join(f"{len(examples)} {split}" for split, examples in data.examples.items())
    log.info(
        "%s on %s: %s examples; %s trainable parameters",
        cfg.task.name,
        cfg.data.name,
        sizes,
        f"{parameters['trainable']:,}",
    )

    lines = EpochLines(f"val/{cfg.task.monitor}", started)
    exit_code, store = 1, None
    try:
        keeps = StepCheckpoint(Path(cfg.run_dir, GOES_ON), minutes=cfg.fit.save_minutes)
        trainer = build.trainer(cfg, [keeps, *_callbacks(cfg), lines])
        device = trainer.strategy.root_device
        store = build.store(cfg, elmo, data, device)
        elmo.device_layers = build.device_layers(cfg, store, device)
        data.feed(module.model.backbone, store)
        settings: Any = OmegaConf.to_container(cfg, resolve=True)
        for logger in trainer.loggers:
            logger.log_hyperparams(settings)
        with naming(last, keeps):
            trainer.fit(module, data, ckpt_path=last, weights_only=True)
        # Loggers must not add the best epoch's figures on dev to the curve.
        loggers, trainer.loggers = trainer.loggers, []
        metrics = measure(cfg, trainer, module, data)
        best = {
            key if key.startswith("test/") else f"best/{key}": value
            for key, value in (metrics | flat_mix(module.mix())).items()
        }
        for logger in loggers:
            logger.log_metrics(best, step=trainer.global_step)
        exit_code = 0
    finally:
        if store is not None:
            store.close()
        if "wandb" in (cfg.get("logger") or ()):
            wandb_logger.finish(exit_code)
    if trainer.is_global_zero:
        result = Result(
            task=cfg.task.name,
            seed=cfg.seed,
            metrics=metrics,
            mix=module.mix(),
            parameters=parameters,
            seconds={"total": lines.total, "training": lines.seconds} | reading(store),
            epochs=trainer.current_epoch,
            examples_per_second=len(data.examples["train"]) * trainer.current_epoch / lines.seconds,
            device=device_name(module),
        )
        write_result(result, asked, choices())
        Path(cfg.run_dir, GOES_ON).unlink(missing_ok=True)
        print_result(result, cfg)
    return metrics


def _callbacks(cfg: DictConfig) -> list[Callback]:
    """Return the callbacks for the best epoch, early stopping and learning rates."""
    monitor = f"val/{cfg.task.monitor}"
    goal = 0.9999 if "overfit" in cfg.fit else None  # 100 %, up to rounding
    return [
        ModelCheckpoint(
            cfg.run_dir, "best", monitor=monitor, mode="max", enable_version_counter=False
        ),
        EarlyStopping(
            monitor,
            patience=cfg.fit.patience,
            mode="max",
            stopping_threshold=goal,
            check_on_train_epoch_end=False,  # trainer.max_steps may end an epoch before dev
        ),
        *([LearningRateMonitor("step")] if cfg.get("logger") else []),
    ]


def choices() -> dict[str, str]:
    """Return the chosen option of each config group; empty if Hydra did not compose the config."""
    return dict(HydraConfig.get().runtime.choices) if HydraConfig.initialized() else {}


def reading(store: LayerStore | None) -> dict[str, float]:
    """Return the seconds that the frozen encoder took for the store, in the run that filled it.

    The result is empty without a store, because the encoder then runs during training.
    """
    return {} if store is None else {"encoder": store.seconds}


def device_name(module: pl.LightningModule) -> str:
    """Return the name of the GPU, or of the processor with its instruction set and threads.

    On a CPU, these decide which kernels torch takes, and so the last digits of all figures.
    """
    if module.device.type != "cpu":
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return (
        f"{_processor()}, {torch.backends.cpu.get_cpu_capability()}, "
        f"{threads} thread{'s' if threads > 1 else ''}"
    )


def _processor() -> str:
    fields: dict[str, str] = {}
    if (path := Path("/proc/cpuinfo")).exists():
        lines = (line.partition(":") for line in path.read_text().partition("\n\n")[0].splitlines())
        fields = {key.strip(): value.strip() for key, _, value in lines}
    name = fields.get("model name") or platform.processor() or platform.machine()
    if {"cpu family", "model"} <= fields.keys():
        name += f", family {fields['cpu family']}, model {fields['model']}"
    return name


def count_parameters(module: pl.LightningModule) -> dict[str, int]:
    """Return the numbers of trainable and of frozen parameters."""
    counts = {True: 0, False: 0}
    for parameter in module.parameters():
        counts[parameter.requires_grad] += parameter.numel()
    return {"trainable": counts[True], "frozen": counts[False]}


def measure(
    cfg: DictConfig, trainer: pl.Trainer, module: TaskModule, data: TaskData
) -> dict[str, float]:
    """Return the best epoch's figures on dev (`val/...`) and test (`test/...`), if it exists.

    Writes the counts of both splits, and the predictions for test (for dev without a test file).
    Raises ValueError if no epoch was scored on dev.
    """
    if not getattr(trainer.checkpoint_callback, "best_model_path", None):
        raise ValueError(
            "training ended before the first pass over dev, so there is no best epoch: raise "
            "trainer.max_steps or fit.max_epochs, or lower trainer.val_check_interval or "
            "trainer.check_val_every_n_epoch"
        )
    figures = dict(trainer.validate(module, data, ckpt_path="best", verbose=False)[0])
    if trainer.is_global_zero:
        write_counts(cfg, data.examples["dev"], module, "dev")
        if "test" not in data.examples:
            write_predictions(cfg, data.examples["dev"], module, "dev")
    if "test" in data.examples:
        figures |= trainer.test(module, data, verbose=False)[0]
        if trainer.is_global_zero:
            write_predictions(cfg, data.examples["test"], module, "test")
            write_counts(cfg, data.examples["test"], module, "test")
    return {
        name: float(value) for name, value in figures.items() if name.startswith(("val/", "test/"))
    }


def write_predictions(
    cfg: DictConfig, examples: Sequence[Example], module: TaskModule, split: str
) -> None:
    """Write the module's last predictions, in the order and official format of the input file."""
    folder = Path(cfg.run_dir, "predictions")
    folder.mkdir(exist_ok=True)
    with atomic(folder / f"{split}{cfg.task.suffix}") as part:
        build.task_files(cfg).write(*_measured(examples, module), part)


def write_counts(
    cfg: DictConfig, examples: Sequence[Example], module: TaskModule, split: str
) -> None:
    """Write the metric's counts of each example to `counts/SPLIT.npz`, for significance tests.

    The file has an array "N S 4" for each figure (see `elmo_bench.metrics`), in the order of the
    input file. `sentences` identifies each example's content by a number, `groups` numbers its
    cluster, and `unit` says what a cluster is (premise, tree, document, article; bytes of UTF-8).
    Metrics without `by_example` write no file.
    """
    metric = module.metrics["test"]
    if not hasattr(metric, "by_example"):
        return
    examples, predictions = _measured(examples, module)
    counts = metric.by_example(predictions, [example.gold for example in examples])
    arrays = {name: values.numpy() for name, values in counts.items()}
    folder = Path(cfg.run_dir, "counts")
    folder.mkdir(exist_ok=True)
    arrays["sentences"] = np.array(
        [number_of(example.sentences) for example in examples], dtype=np.uint64
    )
    groups, unit = clusters(examples)
    arrays |= {"groups": np.array(groups), "unit": np.frombuffer(unit.encode(), np.uint8)}
    with atomic(folder / f"{split}.npz") as part:
        np.savez_compressed(part, **arrays)


def _measured(examples: Sequence[Example], module: TaskModule) -> tuple[list[Example], list[Any]]:
    """Return the last predicted examples (all, except with trainer=smoke) and the predictions."""
    numbers = sorted(module.predictions)
    predictions = [module.predictions[number] for number in numbers]
    return [examples[number] for number in numbers], predictions
