"""What a run leaves of its model besides the result: predictions, and counts of each example."""

import platform
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo_bench.files import atomic
from elmo_bench.metrics import details
from elmo_bench.runs import number_of
from elmo_bench.terminal import counted_noun
from elmo_bench.text import texts_of

from .data import Example
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
        write(*measured(examples, module), part)


def write_counts(path: Path, examples: Sequence[Example], module: TaskModule) -> None:
    """Write the metric's counts of each example, for significance tests.

    The file has an array "N S M" for each score (see `elmo_bench.metrics`), in the order of the
    input file. `sentences` identifies each example's content by a number, `groups` numbers its
    cluster, and `unit` says what a cluster is (premise, tree, document, article; bytes of UTF-8).
    Metrics without `by_example` write no file.
    """
    by_example = details(module.metrics["test"]).by_example
    if by_example is None:
        return
    scored, predictions = measured(examples, module)
    counts = by_example(predictions, [example.gold for example in scored])
    arrays: dict[str, Any] = {name: values.numpy() for name, values in counts.items()}
    contents = [number_of(texts_of(example)) for example in scored]
    arrays["sentences"] = np.array(contents, dtype=np.uint64)
    groups, unit = clusters(scored)
    arrays["groups"] = np.array(groups)
    arrays["unit"] = np.frombuffer(unit.encode(), np.uint8)
    path.parent.mkdir(exist_ok=True)
    with atomic(path) as part:
        np.savez_compressed(part, **arrays)


def measured(examples: Sequence[Example], module: TaskModule) -> tuple[list[Example], list[Any]]:
    """Return the last predicted examples (all, except with trainer=smoke) and the predictions."""
    scored = []
    predictions = []
    for number in sorted(module.predictions):
        scored.append(examples[number])
        predictions.append(module.predictions[number])
    return scored, predictions


def clusters(examples: Sequence[Example]) -> tuple[list[int], str]:
    """Return the number of each example's cluster, from 0, and the unit of a cluster.

    A cluster is the largest unit of `group` of which there are several: a file whose only document
    is the whole file names no documents. The unit is "cluster" if the examples lack `units`.
    """
    depth = len(examples[0].group)
    level = 0
    groups = [example.group[:1] for example in examples]
    while len(set(groups)) == 1 and level < depth - 1:
        level += 1
        groups = [example.group[: level + 1] for example in examples]
    numbers: dict[tuple[str, ...], int] = {}
    for group in groups:
        numbers.setdefault(group, len(numbers))
    units = getattr(examples[0], "units", ("cluster",) * depth)
    return [numbers[group] for group in groups], units[level]


def device_name(device: torch.device) -> str:
    """Return the name of the GPU, or of the processor with its instruction set and threads.

    On a CPU, these decide which kernels torch takes, and so the last digits of all scores. `device`
    is the Trainer's: after training, Lightning moves the module back to the CPU.
    """
    if device.type != "cpu":
        return torch.cuda.get_device_name(device)
    name = platform.processor() or platform.machine()
    about = Path("/proc/cpuinfo")
    if about.exists():
        model = re.search(r"model name\s*: (.+)", about.read_text())
        if model:
            name = model[1]
    threads = counted_noun(torch.get_num_threads(), "thread")
    return f"{name}, {torch.backends.cpu.get_cpu_capability()}, {threads}"


def count_parameters(module: TaskModule) -> dict[str, int]:
    """Return the numbers of trainable and of frozen parameters."""
    counts = {"trainable": 0, "frozen": 0}
    for parameter in module.parameters():
        kind = "trainable" if parameter.requires_grad else "frozen"
        counts[kind] += parameter.numel()
    return counts
