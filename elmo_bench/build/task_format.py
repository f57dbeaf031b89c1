"""The module of a task's format, such as `tasks.ner.data`: `read`, `collate`, `write` and more."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench.runs import reads_apart
from elmo_bench.training.data import Example


def task_format(cfg: DictConfig) -> ModuleType:
    """Return the module; raises ValueError for one that is missing or cannot read."""
    name = cfg.task.data
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise ValueError(f"task.data={name}, but there is no module {error.name}") from error
        raise
    required(module, "read", f"task.data={name}")
    return module


def required(task: ModuleType, name: str, needed_by: str) -> Callable[..., Any]:
    """Return a function of a task's module; raises ValueError if it lacks this function."""
    if not hasattr(task, name):
        raise ValueError(f"{task.__name__} has no function {name}, which {needed_by} requires")
    return getattr(task, name)


def other_scores(
    cfg: DictConfig, examples: Sequence[Example], predictions: Sequence[Any]
) -> dict[str, float]:
    """Return the figures of another scorer beside the metric's; none if the task has none."""
    scorer = getattr(task_format(cfg), "other_scores", None)
    return scorer(examples, predictions) if scorer else {}


def reader(cfg: DictConfig, split: str, file: str = "") -> Callable[[Path], Iterator[Example]]:
    """Return the task's `read` with the arguments of `task.read.SPLIT`, with those of
    `data.read.TASK.SPLIT`, which the corpus has for its file of this split (or of split `file`),
    with those of `data.columns`, and with `joint`.
    """
    options = OmegaConf.select(cfg, f"task.read.{split}") or {}
    of_file = OmegaConf.select(cfg, f"data.read.{cfg.task.name}.{file or split}") or {}
    columns: Any = OmegaConf.to_container(OmegaConf.create(cfg.data.get("columns") or {}))
    arguments = {**options, **of_file}
    for name, value in columns.items():
        if value is not None:
            arguments[name] = value
    return partial(task_format(cfg).read, **arguments, **joint(cfg))


def parser(cfg: DictConfig) -> Callable[[Any, str], Example]:
    """Return the task's `parse`, with the arguments of `task.parse` and with `joint`."""
    parse = required(task_format(cfg), "parse", "job=predict")
    return partial(parse, **(cfg.task.get("parse") or {}), **joint(cfg))


def joint(cfg: DictConfig) -> dict[str, bool]:
    """Return the argument of `read` and `parse` by which the texts of an example are one sentence;
    none if they are read apart (`task.joint`, and whether the encoder can).
    """
    return {"joint": True} if cfg.task.get("joint") and not reads_apart(cfg) else {}
