"""`job=train`: train a task's model, test its best epoch, and write `result.json`, predictions,
checkpoint and curves.
"""

import logging
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import (
    Callback,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
)

from elmo_bench.config import adaptation, again, build, checkpoint, inputs
from elmo_bench.config.check import applied
from elmo_bench.elmo import Elmo
from elmo_bench.encoders import LayerStore
from elmo_bench.files import alone
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
    write_result,
)
from elmo_bench.training import StepCheckpoint, naming, wandb_logger
from elmo_bench.training.data import TaskData
from elmo_bench.training.log import EpochLines, is_first
from elmo_bench.training.module import TaskModule
from elmo_bench.training.outputs import (
    count_parameters,
    device_name,
    write_counts,
    write_predictions,
)

log = logging.getLogger(__name__)


class Parts(NamedTuple):
    """What a run is built of; `parameters` counts the trainable and the frozen ones."""

    elmo: Elmo
    data: TaskData
    module: TaskModule
    parameters: dict[str, int]


def check(cfg: DictConfig) -> None:
    """Raise the errors of the settings before any file is read; warn of those without effect."""
    build.finetuning(cfg), build.schedule(cfg)
    idle = [key for key in inputs.overridden(cfg) if key.startswith("elmo.")]
    if idle and "_target_" not in cfg.encoder and cfg.elmo.mix != "none":
        log.warning(
            "encoder=%s has no layers, so %s has no effect", cfg.encoder.name, ", ".join(idle)
        )


def train(cfg: DictConfig) -> dict[str, float]:
    """Train and test a model; return the metrics of dev and test, as fractions of 1.

    With `resume=true` a killed run continues in its own folder, and a finished run is not repeated.
    """
    started = time.perf_counter()
    log.setLevel(logging.INFO if is_first() else logging.WARNING)  # one process reports
    check(cfg)
    if is_baseline(cfg):
        asked = f"encoder={cfg.encoder.name} elmo.mix={cfg.elmo.mix}"
        log.info("%s is the baseline: it has no layers", asked)
        as_baseline(cfg)
    if cfg.resume:
        again.move(cfg)
    for line in applied(cfg):
        log.info(line)
    Path(cfg.run_dir).mkdir(parents=True, exist_ok=True)
    with (
        alone(Path(cfg.run_dir, "run"), "another process is running this run: waiting for it")
        if is_first()
        else nullcontext()
    ):
        if cfg.resume and (metrics := again.finished_figures(cfg)):
            return metrics
        return _train(cfg, started)


def _train(cfg: DictConfig, started: float) -> dict[str, float]:
    files, last = _begin(cfg)
    asked, cfg = cfg, _adapted(cfg)
    parts = _build(cfg, asked, files)
    lines = EpochLines(f"dev/{cfg.task.monitor}", started)
    keeps = StepCheckpoint(Path(cfg.run_dir, GOES_ON), minutes=cfg.fit.save_minutes)
    with wandb_logger.ending("wandb" in (cfg.get("logger") or ())):
        trainer = build.trainer(cfg, [keeps, *_callbacks(cfg), lines])
        with _fed(cfg, parts, trainer) as store:
            _fit(cfg, trainer, parts, last, keeps)
            metrics = _measure_best(cfg, trainer, parts)
            seconds = {"training": lines.seconds} | _encoder_seconds(store)
    if trainer.is_global_zero:
        count, epochs = len(parts.data.examples["train"]), trainer.current_epoch
        result = Result(
            task=cfg.task.name,
            seed=cfg.seed,
            metrics=metrics,
            mix=parts.module.mix(),
            parameters=parts.parameters,
            seconds={"total": lines.total} | seconds,
            epochs=epochs,
            examples_per_second=count * epochs / lines.seconds,
            device=device_name(parts.module),
        )
        write_result(result, asked, inputs.choices())
        Path(cfg.run_dir, GOES_ON).unlink(missing_ok=True)
        print_result(result, cfg)
    return metrics


def _begin(cfg: DictConfig) -> tuple[dict[str, Path], Path | None]:
    """Prepare the run's folder; return the files that it reads and the checkpoint to go on from."""
    inputs.vectors(cfg)  # raises its error before the biLM is adapted
    files = inputs.files(cfg)
    return files, (begin if is_first() else goes_on_from)(cfg, files)


def _adapted(cfg: DictConfig) -> DictConfig:
    """Seed all random numbers; return the config, with an adapted biLM if it asks for one."""
    pl.seed_everything(cfg.seed, workers=True, verbose=False)
    if cfg.elmo.adapt and cfg.elmo.mix != "none":  # a baseline has nothing to adapt
        cfg = adaptation.adapted(cfg)
        # Reset the random state, which differs if the encoder was adapted in this process.
        pl.seed_everything(cfg.seed, workers=True, verbose=False)
    return cfg


def _build(cfg: DictConfig, asked: DictConfig, files: dict[str, Path]) -> Parts:
    """Build the parts; checkpoints will contain their description and the config as `asked`."""
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
    return Parts(elmo, data, module, parameters)


@contextmanager
def _fed(cfg: DictConfig, parts: Parts, trainer: pl.Trainer) -> Iterator[LayerStore | None]:
    """Have batches read the store of a frozen encoder, which is closed after the body."""
    elmo, device = parts.elmo, trainer.strategy.root_device
    store = build.store(cfg, elmo, parts.data, device)
    with nullcontext() if store is None else closing(store):
        elmo.device_layers = build.device_layers(cfg, store, device)
        parts.data.feed(parts.module.model.backbone, store)
        yield store


def _fit(
    cfg: DictConfig, trainer: pl.Trainer, parts: Parts, last: Path | None, keeps: StepCheckpoint
) -> None:
    """Train, from the state in `last` if there is one."""
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    for logger in trainer.loggers:
        logger.log_hyperparams(settings)
    with naming(last, keeps):
        trainer.fit(parts.module, parts.data, ckpt_path=last, weights_only=True)


def _measure_best(cfg: DictConfig, trainer: pl.Trainer, parts: Parts) -> dict[str, float]:
    """Return the best epoch's figures and log them."""
    # Loggers must not add the best epoch's figures on dev to the curve.
    loggers, trainer.loggers = trainer.loggers, []
    metrics = _measure(cfg, trainer, parts.module, parts.data)
    best = {
        key if key.startswith("test/") else f"best/{key}": value
        for key, value in (metrics | flat_mix(parts.module.mix())).items()
    }
    for logger in loggers:
        logger.log_metrics(best, step=trainer.global_step)
    return metrics


def _callbacks(cfg: DictConfig) -> list[Callback]:
    """Return the callbacks for the best epoch, early stopping and learning rates."""
    monitor = f"dev/{cfg.task.monitor}"
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


def _encoder_seconds(store: LayerStore | None) -> dict[str, float]:
    """Return the seconds that the frozen encoder took for the store, in the run that filled it.

    The result is empty without a store, because the encoder then runs during training.
    """
    return {} if store is None else {"encoder": store.seconds}


def _measure(
    cfg: DictConfig, trainer: pl.Trainer, module: TaskModule, data: TaskData
) -> dict[str, float]:
    """Return the best epoch's figures on dev (`dev/...`) and test (`test/...`), if it exists.

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
        _write_outputs(cfg, data, module, "dev", predictions="test" not in data.examples)
    if "test" in data.examples:
        figures |= trainer.test(module, data, verbose=False)[0]
        if trainer.is_global_zero:
            _write_outputs(cfg, data, module, "test")
    return {
        name: float(value) for name, value in figures.items() if name.startswith(("dev/", "test/"))
    }


def _write_outputs(
    cfg: DictConfig, data: TaskData, module: TaskModule, split: str, *, predictions: bool = True
) -> None:
    """Write the counts of a split to `counts/` and its predictions, in the official format, to
    `predictions/`.
    """
    folder, examples = Path(cfg.run_dir), data.examples[split]
    write_counts(folder / "counts" / f"{split}.npz", examples, module)
    if predictions:
        path = folder / "predictions" / f"{split}{cfg.task.suffix}"
        write_predictions(path, examples, module, build.task_files(cfg).write)
