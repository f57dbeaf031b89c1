"""`job=evaluate`: evaluate a trained model on a split of any data set of its task, and write
`result.json`, predictions and counts.
"""

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Set
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench.config import build, inputs
from elmo_bench.config.checkpoint import KEY, MODEL, extend, restore, trained
from elmo_bench.report.result import print_line, print_metrics
from elmo_bench.runs import Result, begin, corpus_of, hash_files, write_result
from elmo_bench.text import Vocab, kinds, label_map, named, types
from elmo_bench.training.data import Example, TaskData
from elmo_bench.training.log import is_first
from elmo_bench.training.module import TaskModule
from elmo_bench.training.outputs import (
    count_parameters,
    device_name,
    write_counts,
    write_predictions,
)

Read = Callable[[Path], Iterator[Example]]
log = logging.getLogger(__name__)
TRAINING = ("optimizer", "scheduler", "callbacks")  # a task's settings of training


def evaluate(cfg: DictConfig) -> dict[str, float]:
    """Return the figures of `cfg.checkpoint` on `cfg.split` of `cfg.data`, as fractions of 1.

    On the checkpoint's own test file they equal those of its training run.
    """
    started, original = time.perf_counter(), cfg
    log.setLevel(logging.INFO if is_first() else logging.WARNING)  # one process reports
    cfg, module, vocab = _restored(cfg)
    if is_first():
        if original.data.name == "checkpoint":  # only the restored config names the corpus
            original = cfg
        begin(original, inputs.files(original))
    file, data, left_out = _data(cfg, module, vocab)
    extend(cfg, module, vocab, data.all_sentences)
    trainer = build.trainer(cfg, [])
    with build.fed(cfg, module, data):
        begun = time.perf_counter()
        figures = trainer.test(module, data, verbose=False)[0]
        ended = time.perf_counter()
    metrics = {
        name.replace("test/", f"{cfg.split}/", 1): value
        for name, value in figures.items()
        if name.startswith("test/")
    }
    if left_out:
        log.info("data.labels: predictions left out: %s", _listed(left_out))
    if trainer.is_global_zero:
        folder, examples = Path(cfg.run_dir), data.examples["test"]
        path = folder / "predictions" / f"{cfg.split}{cfg.task.suffix}"
        write_predictions(path, examples, module, build.task_files(cfg).write)
        write_counts(folder / "counts" / f"{cfg.split}.npz", examples, module)
        speed = len(examples) / (ended - begun)
        _write(cfg, file, module, metrics, seconds=ended - started, speed=speed)
        print_metrics(
            metrics, cfg.split, f"{cfg.task.name} on {cfg.data.name}, {cfg.checkpoint}: {cfg.split}"
        )
        print_line(f"{cfg.run_dir}/result.json")
    return metrics


def check(cfg: DictConfig) -> None:
    """Raise what the job raises before it computes: of the checkpoint and of the corpus."""
    cfg, module, vocab = _restored(cfg)
    _data(cfg, module, vocab)


def _restored(cfg: DictConfig) -> tuple[DictConfig, TaskModule, Vocab]:
    cfg, module, vocab = restore(cfg)
    if Path(cfg.run_dir).resolve() in (
        Path(cfg.checkpoint).parent.resolve(),
        Path(cfg.checkpoint).resolve().parent,
    ):
        raise ValueError(
            f"run_dir={cfg.run_dir} contains the checkpoint's own run: choose another "
            "folder for the results"
        )
    return cfg, module, vocab


def _data(cfg: DictConfig, module: TaskModule, vocab: Vocab) -> tuple[Path, TaskData, Counter[str]]:
    """Return the split's file and examples, and a count of what `data.labels` will leave out."""
    file = inputs.corpus(cfg, [cfg.split])[cfg.split]
    cfg.data.name = cfg.data.name or str(file)  # data=files is named by its training file, if any
    read = build.reader(cfg, "test", cfg.split)
    left_out: Counter[str] = Counter()
    if cfg.data.labels:
        read, module.rename = renamed(cfg, vocab, read, left_out)
    data = TaskData(
        {"test": file},
        read={"test": read},
        collate=build.task_files(cfg).collate,
        **build.batches(cfg),
        num_workers=build.workers(cfg),
        vocab=vocab,
    )
    return file, data, left_out


def _write(
    cfg: DictConfig,
    file: Path,
    module: TaskModule,
    metrics: dict[str, float],
    *,
    seconds: float,
    speed: float,
) -> None:
    """Write `result.json` with the figures of this split and the training run's config and inputs.

    Its `trained_on` is the training run's `data`.
    """
    run = trained(module.content[KEY], Path(cfg.checkpoint))
    config = _config(cfg, run["config"])
    result = Result(
        task=cfg.task.name,
        seed=config.seed,
        metrics={name: float(value) for name, value in metrics.items()},
        mix=module.mix(),
        parameters=run.get("parameters")
        or count_parameters(module),  # the run's counts are better: `module` lacks frozen vectors
        seconds={"total": seconds, "training": 0.0},
        epochs=0,
        examples_per_second=speed,
        device=device_name(module),
    )
    hashes = hash_files(
        {f"data.{cfg.split}": file, "checkpoint": Path(cfg.checkpoint)}, cfg.cache_dir
    )
    write_result(result, config, inputs.choices(), run.get("inputs", {}) | hashes)


def _config(cfg: DictConfig, trained: dict[str, Any]) -> DictConfig:
    """Return the training run's config with this job's data and model settings.

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


def renamed(
    cfg: DictConfig, vocab: Vocab, read: Read, left_out: Counter[str]
) -> tuple[Read, Callable[[Any], Any]]:
    """Return a `read` that maps the corpus's labels to the model's, and a function for predictions.

    The map is `data.labels`. Gold labels outside the map are removed and counted, with the example
    if it has no other label. Predicted chunks of types outside the map are removed and counted in
    `left_out`; a predicted class outside the map is kept and counts as an error.

    Raises ValueError if the task has no labels to map, or the model or corpus lacks a mapped label.
    """
    task = build.task_files(cfg)
    relabel = getattr(task, "relabel", None)
    if relabel is None:
        raise ValueError(
            f"data.labels: task={cfg.task.name} has no labels that a corpus could rename"
        )
    labels = _labels(cfg, vocab)
    names = label_map(getattr(task, "complete_labels", dict)(labels))

    def rename(prediction: Any) -> Any:
        left_out.update(kind for kind in kinds(prediction) if kind not in names.predicted)
        return names.rename(prediction)

    return partial(_read_renamed, read, relabel, names.gold, label_map(labels).gold.keys()), rename


def _labels(cfg: DictConfig, vocab: Vocab) -> dict[str, list[str]]:
    """Return `data.labels`: the corpus's names of each of the model's labels."""
    given: Any = OmegaConf.to_container(cfg.data.labels, resolve=True)
    labels = named(given)
    if unknown := [
        label
        for label in labels
        if not any(f"-{model_label}".endswith(f"-{label}") for model_label in vocab.labels)
    ]:
        raise ValueError(
            f"data.labels: the model does not have {', '.join(unknown)}; its labels are "
            f"{', '.join(types(vocab.labels))}"
        )
    return labels


def _read_renamed(
    read: Read,
    relabel: Callable[[Example, Mapping[str, str]], Example | None],
    names: Mapping[str, str],
    required: Set[str],
    path: Path,
) -> Iterator[Example]:
    """Yield the examples with the model's labels; `names` has them by the corpus's labels, of which
    those `required` must occur.
    """
    counts: Counter[str] = Counter()
    for example in read(path):
        counts.update(kinds(example.gold))
        if (relabelled := relabel(example, names)) is not None:
            yield relabelled
    if missing := required - counts.keys():
        raise ValueError(
            f"data.labels: {path} does not have {', '.join(sorted(missing))}; it has "
            f"{', '.join(sorted(counts))}"
        )
    unmapped = Counter({label: count for label, count in counts.items() if label not in names})
    log.info(
        "data.labels: %d gold labels; left out: %s", counts.total(), _listed(unmapped) or "none"
    )


def _listed(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {label}" for label, count in counts.most_common())
