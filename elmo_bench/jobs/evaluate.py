"""`job=evaluate`: a trained model on a split of any data set of its task; leaves `evaluation.json`, predictions and counts."""

import json
from pathlib import Path

from omegaconf import DictConfig

from elmo_bench.data import TaskData
from elmo_bench.files import atomic

from . import build
from .checkpoint import restore
from .result import print_metrics
from .train import write_counts, write_predictions

SPLITS = ("train", "dev", "test")


def evaluate(cfg: DictConfig) -> dict[str, float]:
    """The figures of `cfg.checkpoint` on `cfg.split` of `cfg.data`, as fractions of 1: those that training printed."""
    if cfg.split not in SPLITS:
        raise ValueError(f"split={cfg.split}, but it may be one of {', '.join(SPLITS)}")
    cfg, module, vocab = restore(cfg)
    data = TaskData(
        {"test": build.instantiate(cfg.data.files)[cfg.split]},
        read={"test": build.reader(cfg, "test")},
        collate=build.task_files(cfg).collate,
        batch_size=cfg.fit.batch_size,
        num_workers=cfg.num_workers,
        vocab=vocab,
    )
    trainer = build.trainer(cfg, [])
    measured = trainer.test(module, data, verbose=False)[0]
    metrics = {name.replace("test/", f"{cfg.split}/", 1): value for name, value in measured.items() if name.startswith("test/")}
    if trainer.is_global_zero:
        write_predictions(cfg, data.examples["test"], module, cfg.split)
        write_counts(cfg, data.examples["test"], module, cfg.split)
        content = {"checkpoint": str(cfg.checkpoint), "task": cfg.task.name, "data": cfg.data.name, "metrics": metrics}
        with atomic(Path(cfg.run_dir, "evaluation.json")) as part:
            part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
        print_metrics(metrics, cfg.split, f"{cfg.task.name} on {cfg.data.name}, {cfg.checkpoint}: {cfg.split}")
    return metrics
