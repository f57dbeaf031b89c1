"""`job=evaluate`: score a trained model on a split of any corpus of its task, as a run."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench import build
from elmo_bench.build import hardware
from elmo_bench.build.checkpoint import MODEL, Restored, extend, restore
from elmo_bench.build.task_format import reader, task_format
from elmo_bench.report.result import print_line, print_metrics
from elmo_bench.runs import beginning, corpus_of, hash_files, write_result
from elmo_bench.settings import command, inputs
from elmo_bench.training import cautions
from elmo_bench.training.data import Examples
from elmo_bench.training.log import is_first
from elmo_bench.training.measure import measure
from elmo_bench.training.module import TaskModule
from elmo_bench.training.outputs import device_name, write_predictions

TRAINING = ("optimizer", "scheduler", "callbacks")  # a task's settings of training


def evaluate(cfg: DictConfig) -> dict[str, float]:
    """Return the scores of `cfg.checkpoint` on `cfg.split` of `cfg.data`, as fractions of 1.

    On the checkpoint's own test file they equal those of its training run, but for the rounding of
    layers in a store of another type than float32: an evaluation runs the encoder.
    """
    started = time.perf_counter()
    restored = restore(cfg)
    config = restored.config
    module = restored.module
    form = task_format(config)
    # Of a corpus of the checkpoint, only the restored config has the name.
    named = config if cfg.data.name == "checkpoint" else cfg
    hardware.device(config)  # raises its error before an earlier evaluation in the folder moves
    with beginning(named, inputs.files(named)) if is_first() else nullcontext():
        file, examples = _examples(config, restored)
        extend(config, module, restored.vocab, examples.all_sentences)
    trainer = hardware.trainer(config, [])
    data = build.data(config, examples, restored.vocab, module.model.backbone)
    warnings = cautions.tell(_cautions(config, module, examples)) if is_first() else {}
    begun = time.perf_counter()
    metrics, of_predictions = measure(
        trainer,
        module,
        data,
        "test",
        name=config.split,
        folder=Path(config.run_dir),
        other_scores=form.other_scores,
    )
    ended = time.perf_counter()
    if trainer.is_global_zero:
        scored = examples.by_split["test"]
        path = Path(config.run_dir, "predictions", f"{config.split}{config.task.suffix}")
        write_predictions(path, scored, module, form.write)
        trained = restored.content["run"]
        result = {
            "metrics": metrics,
            "mix": module.mix(),
            "parameters": trained["parameters"],  # of which `module` lacks frozen vectors
            "seconds": {"total": ended - started, "training": 0.0},
            "epochs": 0,
            "examples_per_second": len(scored) / (ended - begun),
            "device": device_name(trainer.strategy.root_device),
            "examples": {config.split: len(scored)},
            "cautions": warnings | of_predictions,
        }
        _write_result(config, trained, file, result)
    return metrics


def _write_result(
    cfg: DictConfig, trained: dict[str, Any], file: Path, result: dict[str, Any]
) -> None:
    """Write the result of an evaluation on `file`, with the hashes of what it and the training run
    read, and print its scores.
    """
    evaluated_on = {f"data.{cfg.split}": file, "checkpoint": Path(cfg.checkpoint)}
    vectors = {key: path for key, path in inputs.files(cfg).items() if "vectors" in key}
    hashes = trained["inputs"] | hash_files(vectors | evaluated_on)
    write_result(_config(cfg, trained["config"]), result, command.choices(cfg), hashes)
    title = f"{cfg.task.name} on {cfg.data.name}, {cfg.checkpoint}: {cfg.split}"
    print_metrics(result["metrics"], cfg.split, title)
    print_line(f"{cfg.run_dir}/result.json")


def _cautions(
    cfg: DictConfig, module: TaskModule, examples: Examples
) -> Iterator[cautions.Caution]:
    """Yield sentences on the split's examples and on words that the encoder cannot read."""
    by_split = {cfg.split: examples.by_split["test"]}
    yield from cautions.of_examples(module.metrics["test"], by_split)
    yield from cautions.of_clusters(by_split)
    if module.elmo.mixes:
        yield from cautions.of_encoder(cfg.encoder.name, module.elmo.encoder, examples.words)


def prepare(cfg: DictConfig) -> None:
    """Raise what the job raises before it computes: of the checkpoint and of the corpus."""
    restored = restore(cfg)
    _examples(restored.config, restored)


def _check_folds(file: Path, restored: Restored, source: str) -> None:
    """Raise ValueError for a file of which a model that was trained on folds has seen a part."""
    trained = restored.content["run"]
    folds = trained["config"]["data"].get("folds")
    if folds is None:
        return
    digest = hash_files({"file": file})["file"]
    seen = {name: known for name, known in trained["inputs"].items() if name.startswith("data.")}
    if digest in seen.values():
        raise ValueError(
            f"checkpoint={source} was trained with data.folds={folds} on a part of {file}: the "
            "result.json beside it has the scores of its test fold; data=NAME, or data=files "
            "data.files.test=FILE, gives another corpus"
        )


def _examples(cfg: DictConfig, restored: Restored) -> tuple[Path, Examples]:
    """Return the split's file and examples."""
    file = inputs.corpus(cfg, [cfg.split])[cfg.split]
    _check_folds(file, restored, cfg.checkpoint)
    cfg.data.name = cfg.data.name or str(file)  # data=files is named by its training file, if any
    read = {"test": reader(cfg, "test", cfg.split)}
    return file, build.examples(cfg, {"test": file}, read, restored.vocab)


def _config(cfg: DictConfig, trained: dict[str, Any]) -> DictConfig:
    """Return the training run's config with this job's data and model settings; `trained_on` is the
    training run's `data`.

    Single settings of the model may be overridden for an evaluation.
    """
    measured: Any = OmegaConf.to_container(cfg, resolve=True)
    config = dict(trained)
    for key in ("job", "checkpoint", "split", "data", "run_dir", *MODEL):
        config[key] = measured[key]
    # An evaluation has none of these; in `task` they are those of the training run, or missing.
    task = {key: value for key, value in measured["task"].items() if key not in TRAINING}
    for key in TRAINING:
        if key in trained["task"]:
            task[key] = trained["task"][key]
    config["task"] = task
    config["trained_on"] = corpus_of(trained["data"])
    config["trainer"] = trained["trainer"] | {"precision": measured["trainer"]["precision"]}
    return OmegaConf.create(config)
