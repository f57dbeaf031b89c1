"""A task's format: the functions of a module such as `tasks.ner.data`."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from omegaconf import DictConfig, OmegaConf

from elmo_bench.runs import reads_apart
from elmo_bench.text import Vocab
from elmo_bench.training.data import Example


def no_scores(examples: Sequence[Example], predictions: Sequence[Any]) -> dict[str, float]:
    """Return the figures of another scorer where a task has none."""
    return {}


class TaskFormat(NamedTuple):
    """The functions of a task's module; None for one that it may lack, and lacks."""

    name: str  # of the module
    read: Callable[..., Iterator[Example]]  # a file
    collate: Callable[[Sequence[Example], Vocab], Any]  # examples into a batch
    write: Callable[[Sequence[Example], Sequence[Any], Path], None]  # predictions
    parse: Callable[..., Example] | None = None  # a record without labels
    render: Callable[[Example, Any], dict[str, Any]] | None = None  # a prediction as a record
    read_texts: Callable[..., list[tuple[int, dict[str, Any]]] | None] | None = None  # of a table
    read_predictions: Callable[[Path, Sequence[Example]], Sequence[Any]] | None = None
    # Figures of another scorer beside the metric's.
    other_scores: Callable[[Sequence[Example], Sequence[Any]], dict[str, float]] = no_scores


def task_format(cfg: DictConfig) -> TaskFormat:
    """Return the format; raises ValueError for a module that is missing, or that lacks `read`,
    `collate` or `write`.
    """
    name = cfg.task.data
    try:
        content = vars(import_module(name))
    except ModuleNotFoundError as error:
        if error.name and name.startswith(error.name):
            raise ValueError(f"task.data={name}, but there is no module {error.name}") from error
        raise
    for function in ("read", "collate", "write"):
        if function not in content:
            raise _lacking(name, function, f"task.data={name}")
    functions = {field: content[field] for field in TaskFormat._fields if field in content}
    return TaskFormat(**(functions | {"name": name}))


def required(form: TaskFormat, name: str, needed_by: str) -> Callable[..., Any]:
    """Return a function of a task's format; raises ValueError if its module lacks it."""
    function = form._asdict()[name]
    if function is None:
        raise _lacking(form.name, name, needed_by)
    return function


def _lacking(module: str, function: str, needed_by: str) -> ValueError:
    return ValueError(f"{module} has no function {function}, which {needed_by} requires")


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
