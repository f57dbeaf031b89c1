"""`job=train`: train a task's model, test its best epoch, and write the run's files."""

import logging
import time
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf

from elmo_bench import build
from elmo_bench.build import adaptation, checkpoint, hardware, texts
from elmo_bench.build.task_format import other_scores, task_format
from elmo_bench.files import alone
from elmo_bench.report.result import print_result
from elmo_bench.runs import (
    LAST_CHECKPOINT,
    about,
    as_baseline,
    beginning,
    flat_mix,
    goes_on_from,
    is_baseline,
    overlap_lines,
    reads_apart,
    smoke_batches,
    tidy,
    write_result,
)
from elmo_bench.settings import command, earlier, inputs
from elmo_bench.settings.check import applied_options
from elmo_bench.training import cautions, wandb_logger
from elmo_bench.training.log import EpochLines, is_first
from elmo_bench.training.module import LossError
from elmo_bench.training.outputs import (
    count_parameters,
    device_name,
    measured,
    write_counts,
    write_predictions,
)
from elmo_bench.training.resume import StepCheckpoint, naming_checkpoint

log = logging.getLogger(__name__)
FLOAT32 = "32-true"


def train(cfg: DictConfig) -> dict[str, float]:
    """Train and test a model; return the metrics of dev and test, as fractions of 1.

    With `resume=true` a killed run continues in its own folder, and a finished run is not repeated;
    without it, a finished run in `run_dir` stays until this one has finished.
    """
    started = time.perf_counter()
    log.setLevel(logging.INFO if is_first() else logging.WARNING)  # one process reports
    if is_baseline(cfg):
        said = "encoder=%s elmo.mix=%s is the baseline: it has no layers"
        log.info(said, cfg.encoder.name, cfg.elmo.mix)
        as_baseline(cfg)
    for line in applied_options(cfg):
        log.info(line)
    if reads_apart(cfg):
        cfg.task.joint = False
    if batches := smoke_batches(cfg):
        log.info("a smoke run of %s batches: its scores mean nothing", batches)
    waiting = "another process is running this run: waiting for it"
    with alone(Path(cfg.run_dir, "run"), waiting) if is_first() else nullcontext():
        if cfg.resume and (metrics := earlier.finished_figures(cfg)):
            if is_first():
                tidy(Path(cfg.run_dir))
            return metrics
        return _train(cfg, started)


def _train(cfg: DictConfig, started: float) -> dict[str, float]:
    # Both raise their errors before the biLM is adapted and a finished run in the folder moves.
    inputs.checked_vector_files(cfg)
    hardware.device(cfg)
    files = inputs.files(cfg)
    resumed = goes_on_from(cfg, files)
    # A run goes on with its second attempt.
    is_second = resumed is not None and about(cfg).get("precision") == FLOAT32
    precision = FLOAT32 if is_second else cfg.trainer.precision
    try:
        return _attempt(cfg, files, started, precision, resumed)
    except LossError as error:
        if "16" not in str(precision):
            raise
        said = "%s: with trainer.precision=%s, %s; once more from the start, in float32"
        log.warning(said, cfg.run_dir, precision, str(error).partition(";")[0])
    # Here, behind the exception, the memory of the attempt is free.
    Path(cfg.run_dir, LAST_CHECKPOINT).unlink(missing_ok=True)
    return _attempt(cfg, files, started, FLOAT32, None)


def _attempt(
    asked: DictConfig, files: dict[str, Path], started: float, precision: Any, resumed: Path | None
) -> dict[str, float]:
    """Train and test in this precision; the result is of the config as it was `asked` for."""
    changed: Any = OmegaConf.merge(asked, {"trainer": {"precision": precision}})
    more = {} if precision == asked.trainer.precision else {"precision": precision}
    with beginning(asked, files, **more) if is_first() else nullcontext():
        cfg = _seeded(changed)
        corpus = {split: files[key] for split in inputs.SPLITS if (key := f"data.{split}") in files}
        parts = build.parts(cfg, corpus)
    parameters = count_parameters(parts.module)
    in_others = texts.overlap(cfg, parts.data.examples) if is_first() else {}
    for line in overlap_lines(in_others):
        log.info("%s", line)
    warnings = cautions.tell(build.cautions(cfg, parts)) if is_first() else {}
    parts.module.content = _content(cfg, asked, parts, parameters)
    epoch_lines = EpochLines(f"dev/{cfg.task.monitor}", started)
    last_path = Path(cfg.run_dir, LAST_CHECKPOINT)
    step_checkpoint = StepCheckpoint(last_path, minutes=cfg.fit.save_minutes)
    with wandb_logger.ending("wandb" in (cfg.get("logger") or ())):
        trainer = hardware.trainer(cfg, [step_checkpoint, *hardware.callbacks(cfg), epoch_lines])
        store = build.store(cfg, parts.elmo, parts.data, trainer.strategy.root_device)
        with nullcontext() if store is None else closing(store):
            parts.data.feed(parts.module.model.backbone, store)
            settings: Any = OmegaConf.to_container(cfg, resolve=True)
            for logger in trainer.loggers:
                logger.log_hyperparams(settings)
            with naming_checkpoint(resumed, step_checkpoint):
                trainer.fit(parts.module, parts.data, ckpt_path=resumed, weights_only=True)
            metrics, of_predictions = _measure(cfg, trainer, parts)
            encoder = {} if store is None else {"encoder": store.seconds}  # in whichever run
    if trainer.is_global_zero:
        batches = trainer.fit_loop.epoch_loop.batch_progress.total.completed
        passes = batches / len(parts.data.train_dataloader())  # the last may have ended early
        result = {
            "metrics": metrics,
            "mix": parts.module.mix(),
            "parameters": parameters,
            "seconds": {"total": epoch_lines.total, "training": epoch_lines.seconds} | encoder,
            "epochs": trainer.current_epoch,
            "examples_per_second": len(parts.data.examples["train"]) * passes / epoch_lines.seconds,
            "device": device_name(trainer.strategy.root_device),
            "overlap": in_others,
            "examples": {split: len(part) for split, part in parts.data.examples.items()},
            "cautions": warnings | of_predictions,
        }
        print_result(write_result(asked, result, command.choices(cfg)))
    return metrics


def _seeded(cfg: DictConfig) -> DictConfig:
    """Seed all random numbers; return the config, with an adapted biLM if it asks for one."""
    if cfg.elmo.adapt and cfg.elmo.mix != "none":  # a baseline has nothing to adapt
        pl.seed_everything(cfg.seed, workers=True, verbose=False)
        cfg = adaptation.adapted(cfg)
    pl.seed_everything(cfg.seed, workers=True, verbose=False)  # as if there was no adaptation
    return cfg


def _content(
    cfg: DictConfig, asked: DictConfig, parts: build.Parts, parameters: dict[str, int]
) -> dict[str, Any]:
    """Log sizes of data and model; return what checkpoints contain besides weights: the model, and
    the run as it was `asked` for.
    """
    sizes = ", ".join(f"{len(part)} {split}" for split, part in parts.data.examples.items())
    size = f"{parameters['trainable']:,} trainable parameters"
    log.info("%s on %s: %s examples; %s", cfg.task.name, cfg.data.name, sizes, size)
    model = checkpoint.describe(cfg, parts.data.vocab, parts.vectors, parts.module)
    return {checkpoint.KEY: model | {"run": about(asked) | {"parameters": parameters}}}


def _measure(
    cfg: DictConfig, trainer: pl.Trainer, parts: build.Parts
) -> tuple[dict[str, float], dict[str, str]]:
    """Return and log the best epoch's scores on dev (`dev/...`) and test (`test/...`), and warnings
    about its predictions.

    Writes the counts of each split, and the predictions for test (for dev without a test file). A
    draw of sweep=tune is not tested.
    Raises ValueError if no epoch was scored on dev.
    """
    module, data = parts.module, parts.data
    if not getattr(trainer.checkpoint_callback, "best_model_path", None):
        raise ValueError(
            "training ended before the first pass over dev, so there is no best epoch: raise "
            "trainer.max_steps or fit.max_epochs, or lower trainer.val_check_interval or "
            "trainer.check_val_every_n_epoch"
        )
    # Loggers must not add the best epoch's scores on dev to the curve.
    loggers, trainer.loggers = trainer.loggers, []
    is_tested = "test" in data.examples and cfg.get("trial") is None
    splits = ["dev", "test"] if is_tested else ["dev"]
    metrics: dict[str, float] = {}
    warnings: dict[str, str] = {}
    for split in splits:
        if split == "dev":
            figures = trainer.validate(module, data, ckpt_path="best", verbose=False)[0]
        else:
            figures = trainer.test(module, data, verbose=False)[0]  # the same weights
        metrics |= {k: float(v) for k, v in figures.items() if k.startswith(("dev/", "test/"))}
        predicted = measured(data.examples[split], module)
        others = other_scores(cfg, *predicted)
        metrics |= {f"{split}/{name}": value for name, value in others.items()}
        if trainer.is_global_zero:
            folder, examples = Path(cfg.run_dir), data.examples[split]
            write_counts(folder / "counts" / f"{split}.npz", examples, module)
            said = cautions.of_predictions(module.metrics["test"], split, *predicted)
            warnings |= cautions.tell(said)
            if split == splits[-1]:
                path = folder / "predictions" / f"{split}{cfg.task.suffix}"
                write_predictions(path, examples, module, task_format(cfg).write)
    best = metrics | flat_mix(module.mix())
    named = {k if k.startswith("test/") else f"best/{k}": value for k, value in best.items()}
    for logger in loggers:
        logger.log_metrics(named, step=trainer.global_step)
    return metrics, warnings
