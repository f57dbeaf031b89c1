"""`job=train`: train a task's model, test its best epoch, and write the run's files."""

import logging
import time
from contextlib import closing, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf

from elmo_bench import build
from elmo_bench.build import adaptation, checkpoint, hardware, texts
from elmo_bench.build.task_format import task_format
from elmo_bench.files import alone
from elmo_bench.report.result import print_result
from elmo_bench.runs import (
    LAST_CHECKPOINT,
    about,
    beginning,
    flat_mix,
    goes_on_from,
    is_baseline,
    overlap_lines,
    tidy,
    write_result,
)
from elmo_bench.settings import command, earlier, inputs
from elmo_bench.settings.normal_form import normalise
from elmo_bench.training import cautions, wandb_logger
from elmo_bench.training.checkpoint import Content
from elmo_bench.training.data import TaskData
from elmo_bench.training.log import EpochLines, is_first
from elmo_bench.training.measure import measure
from elmo_bench.training.module import TaskModule
from elmo_bench.training.outputs import count_parameters, device_name, write_predictions
from elmo_bench.training.resume import StepCheckpoint, naming_checkpoint, start_of

log = logging.getLogger(__name__)
Metrics = dict[str, float]


def train(cfg: DictConfig) -> Metrics:
    """Train and test a model; return the metrics of dev and test, as fractions of 1.

    With `resume=true` a killed run continues in its own folder, and a finished run is not repeated;
    without it, a finished run in `run_dir` stays until this one has finished.
    """
    started = time.perf_counter()
    log.setLevel(logging.INFO if is_first() else logging.WARNING)  # one process reports
    for line in normalise(cfg):
        log.info(line)
    waiting = "another process is running this run: waiting for it"
    with alone(Path(cfg.run_dir, "run"), waiting) if is_first() else nullcontext():
        finished = earlier.finished_figures(cfg) if cfg.resume else None
        if finished:
            if is_first():
                tidy(Path(cfg.run_dir))
            return finished
        return _train(cfg, started)


def _train(cfg: DictConfig, started: float) -> Metrics:
    # What is missing is said before a finished run in the folder moves.
    inputs.checked_vector_files(cfg)
    hardware.device(cfg)
    files = inputs.files(cfg)
    choices = command.choices(cfg)
    resumed = goes_on_from(cfg, files)
    with beginning(cfg, files) if is_first() else nullcontext():
        parts = build.parts(_adapted(cfg), inputs.by_split(files))
    parameters = count_parameters(parts.module)
    notes = _notes(cfg, parts, parameters) if is_first() else {}
    epoch_lines = EpochLines(f"dev/{cfg.task.monitor}", started)
    last = StepCheckpoint(Path(cfg.run_dir, LAST_CHECKPOINT), minutes=cfg.fit.save_minutes)
    content = Content(_content(cfg, parts, parameters))
    with wandb_logger.ending("wandb" in (cfg.get("logger") or ())):
        callbacks = [last, *hardware.callbacks(cfg), epoch_lines, content]
        trainer = hardware.trainer(cfg, callbacks)
        device = trainer.strategy.root_device
        store = build.store(cfg, parts.elmo, parts.examples.all_sentences, device)
        with nullcontext() if store is None else closing(store):
            _log_settings(cfg, trainer)
            with naming_checkpoint(resumed, last):
                start = start_of(resumed)
                backbone = parts.module.model.backbone
                data = build.data(cfg, parts.examples, parts.vocab, backbone, store, start)
                trainer.fit(parts.module, data, ckpt_path=resumed, weights_only=True)
            metrics, warnings = _measure(cfg, trainer, parts.module, data)
    if trainer.is_global_zero:
        result: dict[str, Any] = {"metrics": metrics, "parameters": parameters}
        result |= _of_training(trainer, parts.module, data, epoch_lines) | notes
        result["cautions"] |= warnings
        if store is not None:
            result["seconds"]["encoder"] = store.seconds  # in whichever run
        print_result(write_result(cfg, result, choices))
    return metrics


def _adapted(cfg: DictConfig) -> DictConfig:
    """Seed all random numbers; return the config, with an adapted biLM if it asks for one."""
    seed = partial(pl.seed_everything, cfg.seed, workers=True, verbose=False)
    if cfg.elmo.adapt and not is_baseline(cfg):
        seed()
        cfg = adaptation.adapted(cfg)
    seed()  # as if there was no adaptation
    return cfg


def _notes(cfg: DictConfig, parts: build.Parts, parameters: dict[str, int]) -> dict[str, Any]:
    """Log, and return for the result, what is to be known of the data: sizes, what training has in
    common with other texts, and why scores may mean little.
    """
    overlap = texts.overlap(cfg, parts.examples.by_split)
    for line in overlap_lines(overlap):
        log.info("%s", line)
    warnings = cautions.tell(build.cautions(cfg, parts))
    sizes = {split: len(part) for split, part in parts.examples.by_split.items()}
    log.info(
        "%s on %s: %s examples; %s trainable parameters",
        cfg.task.name,
        cfg.data.name,
        ", ".join(f"{size} {split}" for split, size in sizes.items()),
        f"{parameters['trainable']:,}",
    )
    return {"overlap": overlap, "cautions": warnings, "examples": sizes}


def _content(cfg: DictConfig, parts: build.Parts, parameters: dict[str, int]) -> dict[str, Any]:
    """Return what checkpoints contain besides weights: the model, and the run."""
    model = checkpoint.describe(parts)
    return {checkpoint.KEY: model | {"run": about(cfg) | {"parameters": parameters}}}


def _log_settings(cfg: DictConfig, trainer: pl.Trainer) -> None:
    settings: Any = OmegaConf.to_container(cfg, resolve=True)
    for logger in trainer.loggers:
        logger.log_hyperparams(settings)


def _measure(
    cfg: DictConfig, trainer: pl.Trainer, module: TaskModule, data: TaskData
) -> tuple[Metrics, dict[str, str]]:
    """Return and log the best epoch's scores on dev (`dev/...`) and test (`test/...`), and warnings
    about its predictions.

    Writes the counts of each split, and the predictions for test (for dev without a test file). A
    draw of sweep=tune is not tested.
    Raises ValueError if no epoch was scored on dev.
    """
    if not getattr(trainer.checkpoint_callback, "best_model_path", None):
        raise ValueError(
            "training ended before the first pass over dev, so there is no best epoch: raise "
            "trainer.max_steps or fit.max_epochs, or lower trainer.val_check_interval or "
            "trainer.check_val_every_n_epoch"
        )
    # Loggers must not add the best epoch's scores on dev to the curve.
    loggers = trainer.loggers
    trainer.loggers = []
    folder = Path(cfg.run_dir)
    form = task_format(cfg)
    of_split = partial(
        measure, trainer, module, data, folder=folder, other_scores=form.other_scores
    )
    metrics, warnings = of_split("dev", name="dev", best=True)
    split = "dev"
    if "test" in data.examples and cfg.get("trial") is None:
        split = "test"
        of_test, warnings_of_test = of_split("test", name="test")  # the same weights
        metrics |= of_test
        warnings |= warnings_of_test
    if trainer.is_global_zero:
        path = folder / "predictions" / f"{split}{cfg.task.suffix}"
        write_predictions(path, data.examples[split], module, form.write)
    figures = {}
    for name, value in (metrics | flat_mix(module.mix())).items():
        figures[name if name.startswith("test/") else f"best/{name}"] = value
    for logger in loggers:
        logger.log_metrics(figures, step=trainer.global_step)
    return metrics, warnings


def _of_training(
    trainer: pl.Trainer, module: TaskModule, data: TaskData, lines: EpochLines
) -> dict[str, Any]:
    """Return what the result says of the training."""
    batches = trainer.fit_loop.epoch_loop.batch_progress.total.completed
    epochs = batches / len(data.train_dataloader())  # the last may have ended early
    return {
        "mix": module.mix(),
        "seconds": {"total": lines.total, "training": lines.seconds},
        "epochs": trainer.current_epoch,
        "examples_per_second": len(data.examples["train"]) * epochs / lines.seconds,
        "device": device_name(trainer.strategy.root_device),
    }
