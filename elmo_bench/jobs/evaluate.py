"""`job=evaluate`: score a trained model on a split of any corpus of its task, as a run."""

import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench import build
from elmo_bench.build import hardware
from elmo_bench.build.checkpoint import KEY, MODEL, extend, restore
from elmo_bench.build.task_format import other_scores, reader, task_format
from elmo_bench.report.result import print_line, print_metrics
from elmo_bench.runs import beginning, corpus_of, hash_files, write_result
from elmo_bench.settings import command, inputs
from elmo_bench.text import Vocab
from elmo_bench.training import cautions
from elmo_bench.training.data import TaskData
from elmo_bench.training.log import is_first
from elmo_bench.training.module import TaskModule
from elmo_bench.training.outputs import device_name, measured, write_counts, write_predictions

TRAINING = ("optimizer", "scheduler", "callbacks")  # a task's settings of training


def evaluate(cfg: DictConfig) -> dict[str, float]:
    """Return the scores of `cfg.checkpoint` on `cfg.split` of `cfg.data`, as fractions of 1.

    On the checkpoint's own test file they equal those of its training run, but for the rounding of
    layers in a store of another type than float32: an evaluation runs the encoder.
    """
    started, original = time.perf_counter(), cfg
    cfg, module, vocab = restore(cfg)
    if original.data.name == "checkpoint":  # only the restored config names the corpus
        original = cfg
    hardware.device(cfg)  # raises its error before an earlier evaluation in the folder moves
    with beginning(original, inputs.files(original)) if is_first() else nullcontext():
        file, data = _data(cfg, vocab)
        extend(cfg, module, vocab, data.all_sentences)
    trainer = hardware.trainer(cfg, [])
    data.feed(module.model.backbone)
    metric = module.metrics["test"]
    warnings = cautions.tell(_cautions(cfg, module, data)) if is_first() else {}
    begun = time.perf_counter()
    figures = trainer.test(module, data, verbose=False)[0].items()
    ended = time.perf_counter()
    metrics = {f"{cfg.split}/{name.removeprefix('test/')}": value for name, value in figures}
    predicted = measured(data.examples["test"], module)
    others = other_scores(cfg, *predicted)
    metrics |= {f"{cfg.split}/{name}": value for name, value in others.items()}
    if trainer.is_global_zero:
        folder, examples = Path(cfg.run_dir), data.examples["test"]
        path = folder / "predictions" / f"{cfg.split}{cfg.task.suffix}"
        write_predictions(path, examples, module, task_format(cfg).write)
        write_counts(folder / "counts" / f"{cfg.split}.npz", examples, module)
        said = cautions.of_predictions(metric, cfg.split, *predicted)
        warnings |= cautions.tell(said)
        trained = module.content[KEY]["run"]
        result = {
            "metrics": metrics,
            "mix": module.mix(),
            "parameters": trained["parameters"],  # of which `module` lacks frozen vectors
            "seconds": {"total": ended - started, "training": 0.0},
            "epochs": 0,
            "examples_per_second": len(examples) / (ended - begun),
            "device": device_name(trainer.strategy.root_device),
            "examples": {cfg.split: len(examples)},
            "cautions": warnings,
        }
        vectors = {key: path for key, path in inputs.files(cfg).items() if "vectors" in key}
        own = {f"data.{cfg.split}": file, "checkpoint": Path(cfg.checkpoint)}
        config = _config(cfg, trained["config"])
        write_result(
            config, result, command.choices(cfg), trained["inputs"] | hash_files(vectors | own)
        )
        print_metrics(
            metrics, cfg.split, f"{cfg.task.name} on {cfg.data.name}, {cfg.checkpoint}: {cfg.split}"
        )
        print_line(f"{cfg.run_dir}/result.json")
    return metrics


def _cautions(cfg: DictConfig, module: TaskModule, data: TaskData) -> Iterator[cautions.Caution]:
    """Yield sentences on the split's examples and on words that the encoder cannot read."""
    examples = {cfg.split: data.examples["test"]}
    yield from cautions.of_examples(module.metrics["test"], examples)
    yield from cautions.of_clusters(examples)
    if module.elmo.mixes:
        yield from cautions.of_encoder(cfg.encoder.name, module.elmo.encoder, data.words)


def check(cfg: DictConfig) -> None:
    """Raise what the job raises before it computes: of the checkpoint and of the corpus."""
    cfg, _, vocab = restore(cfg)
    _data(cfg, vocab)


def _data(cfg: DictConfig, vocab: Vocab) -> tuple[Path, TaskData]:
    """Return the split's file and examples."""
    file = inputs.corpus(cfg, [cfg.split])[cfg.split]
    cfg.data.name = cfg.data.name or str(file)  # data=files is named by its training file, if any
    return file, build.data(cfg, {"test": file}, {"test": reader(cfg, "test", cfg.split)}, vocab)


def _config(cfg: DictConfig, trained: dict[str, Any]) -> DictConfig:
    """Return the training run's config with this job's data and model settings; `trained_on` is the
    training run's `data`.

    Single settings of the model may be overridden for an evaluation.
    """
    measured: Any = OmegaConf.to_container(cfg, resolve=True)
    # An evaluation has none of these; in `task` they are those of the training run, or missing.
    kept = {key: trained["task"][key] for key in TRAINING if key in trained["task"]}
    task = {key: value for key, value in measured["task"].items() if key not in TRAINING} | kept
    keys = ("job", "checkpoint", "split", "data", "run_dir", *MODEL)
    overridden = {key: measured[key] for key in keys}
    config = trained | overridden | {"task": task, "trained_on": corpus_of(trained["data"])}
    config["trainer"] = trained["trainer"] | {"precision": measured["trainer"]["precision"]}
    return OmegaConf.create(config)
