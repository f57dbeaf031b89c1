"""What a run leaves of its model besides the result: predictions, and counts of each example."""

import platform
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_bench.files import atomic
from elmo_bench.runs import number_of

from .data import Example, clusters
from .module import TaskModule


def write_predictions(
    path: Path,
    examples: Sequence[Example],
    module: TaskModule,
    write: Callable[[Sequence[Example], Sequence[Any], Path], None],
) -> None:
    """Write the module's last predictions in the order of the input file; `write` is the task's."""
    path.parent.mkdir(exist_ok=True)
    with atomic(path) as part:
        write(*_measured(examples, module), part)


def write_counts(path: Path, examples: Sequence[Example], module: TaskModule) -> None:
    """Write the metric's counts of each example, for significance tests.

    The file has an array "N S 4" for each figure (see `metrics.py`), in the order of the
    input file. `sentences` identifies each example's content by a number, `groups` numbers its
    cluster, and `unit` says what a cluster is (premise, tree, document, article; bytes of UTF-8).
    Metrics without `by_example` write no file.
    """
    metric = module.metrics["test"]
    if not hasattr(metric, "by_example"):
        return
    examples, predictions = _measured(examples, module)
    counts = metric.by_example(predictions, [example.gold for example in examples])
    arrays = {name: values.numpy() for name, values in counts.items()}
    arrays["sentences"] = np.array(
        [number_of(example.sentences) for example in examples], dtype=np.uint64
    )
    groups, unit = clusters(examples)
    arrays |= {"groups": np.array(groups), "unit": np.frombuffer(unit.encode(), np.uint8)}
    path.parent.mkdir(exist_ok=True)
    with atomic(path) as part:
        np.savez_compressed(part, **arrays)


def _measured(examples: Sequence[Example], module: TaskModule) -> tuple[list[Example], list[Any]]:
    """Return the last predicted examples (all, except with trainer=smoke) and the predictions."""
    numbers = sorted(module.predictions)
    predictions = [module.predictions[number] for number in numbers]
    return [examples[number] for number in numbers], predictions


def device_name(module: TaskModule) -> str:
    """Return the name of the GPU, or of the processor with its instruction set and threads.

    On a CPU, these decide which kernels torch takes, and so the last digits of all figures.
    """
    if module.device.type != "cpu":
        return torch.cuda.get_device_name()
    threads = torch.get_num_threads()
    return (
        f"{_processor()}, {torch.backends.cpu.get_cpu_capability()}, "
        f"{threads} thread{'s' if threads > 1 else ''}"
    )


def _processor() -> str:
    fields: dict[str, str] = {}
    if (path := Path("/proc/cpuinfo")).exists():
        lines = (line.partition(":") for line in path.read_text().partition("\n\n")[0].splitlines())
        fields = {key.strip(): value.strip() for key, _, value in lines}
    name = fields.get("model name") or platform.processor() or platform.machine()
    if {"cpu family", "model"} <= fields.keys():
        name += f", family {fields['cpu family']}, model {fields['model']}"
    return name


def count_parameters(module: TaskModule) -> dict[str, int]:
    """Return the numbers of trainable and of frozen parameters."""
    counts = {True: 0, False: 0}
    for parameter in module.parameters():
        counts[parameter.requires_grad] += parameter.numel()
    return {"trainable": counts[True], "frozen": counts[False]}
