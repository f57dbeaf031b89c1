"""`job=evaluate`: a trained model on a split of any data set of its task; leaves `result.json`, predictions and counts."""

import time
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench.data import TaskData
from elmo_bench.module import TaskModule
from elmo_bench.runs import Result, begin, hash_files, write_result

from . import build, inputs
from .checkpoint import KEY, MODEL, restore
from .result import print_metrics
from .train import choices, count_parameters, device, is_first, write_counts, write_predictions

SPLITS = {"train": "train", "dev": "val", "test": "test"}  # and what `result.json` calls their figures


def evaluate(cfg: DictConfig) -> dict[str, float]:
    """The figures of `cfg.checkpoint` on `cfg.split` of `cfg.data`, as fractions of 1: those that training printed."""
    if cfg.split not in SPLITS:
        raise ValueError(f"split={cfg.split}, but it may be one of {', '.join(SPLITS)}")
    started, asked = time.perf_counter(), cfg
    cfg, module, vocab = restore(cfg)
    if Path(cfg.run_dir).absolute() == Path(cfg.checkpoint).absolute().parent:
        raise ValueError(f"run_dir={cfg.run_dir} holds the checkpoint's own run: choose another folder for what is measured")
    if is_first():
        begin(asked, inputs.files(asked, [cfg.split]))
    file = inputs.corpus(cfg, [cfg.split])[cfg.split]
    data = TaskData(
        {"test": file},
        read={"test": build.reader(cfg, "test")},
        collate=build.task_files(cfg).collate,
        **build.batches(cfg),
        num_workers=cfg.num_workers,
        vocab=vocab,
    )
    trainer = build.trainer(cfg, [])
    measured = trainer.test(module, data, verbose=False)[0]
    metrics = {name.replace("test/", f"{cfg.split}/", 1): value for name, value in measured.items() if name.startswith("test/")}
    if trainer.is_global_zero:
        write_predictions(cfg, data.examples["test"], module, cfg.split)
        write_counts(cfg, data.examples["test"], module, cfg.split)
        seconds = time.perf_counter() - started
        _write(cfg, file, module, metrics, len(data.examples["test"]), seconds)
        print_metrics(metrics, cfg.split, f"{cfg.task.name} on {cfg.data.name}, {cfg.checkpoint}: {cfg.split}")
    return metrics


def _write(cfg: DictConfig, file: Path, module: TaskModule, metrics: dict[str, float], examples: int, seconds: float) -> None:
    """`result.json`: the figures of this split, and the config and the inputs of the training run, tested on this file.

    `trained_on` is then the training run's `data`. A checkpoint of an earlier version does not know its run.
    """
    run = module.content[KEY].get("run") or {"config": OmegaConf.to_container(cfg, resolve=True), "inputs": {}}
    config = _config(cfg, run["config"])
    result = Result(
        task=cfg.task.name,
        seed=config.seed,
        metrics={name.replace(f"{cfg.split}/", f"{SPLITS[cfg.split]}/", 1): float(value) for name, value in metrics.items()},
        mix=module.mix(),
        parameters=count_parameters(module),
        seconds={"total": seconds, "training": 0.0},
        epochs=0,
        examples_per_second=examples / seconds,
        device=device(module),
    )
    hashes = hash_files({f"data.{cfg.split}": file, "checkpoint": Path(cfg.checkpoint)}, cfg.cache_dir)
    write_result(result, config, choices(), run["inputs"] | hashes)


def _config(cfg: DictConfig, trained: dict[str, Any]) -> DictConfig:
    """The config of the training run with the model as it is measured (single settings may differ) and the data of this one."""
    measured: Any = OmegaConf.to_container(cfg, resolve=True)
    task = measured["task"] | {
        key: value for key, value in trained["task"].items() if key in ("optimizer", "scheduler", "callbacks")
    }
    own = {key: measured[key] for key in ("job", "checkpoint", "split", "data", "run_dir", *MODEL)}
    trained_on = {key: value for key, value in trained["data"].items() if key not in ("files", "origin", "downloads")}
    config = trained | own | {"task": task, "trained_on": trained_on}
    config["trainer"] = trained["trainer"] | {"precision": measured["trainer"]["precision"]}
    return OmegaConf.create(config)
