"""A table of what training cost, and how large the models are."""

from collections.abc import Sequence
from statistics import fmean

from elmo_bench.runs import Run
from elmo_bench.terminal import two_digits

from .grids import by_cell
from .labels import headed
from .table import Report
from .writers import Grid

SECONDS = {"training, s": "training", "in all, s": "total", "encoder, s": "encoder"}
COSTS = [*SECONDS, "epochs", "examples/s"]
SIZES = ["trained parameters", "frozen parameters", "device"]
ABOUT_COSTS = (
    "Means over the runs of a row. In all: with reading the data, measuring and writing. Encoder: "
    "what a frozen one takes to read the corpus; the first run that needs its layers pays for "
    "that, and the others read what it kept."
)


def cost(report: Report) -> Grid | None:
    """Return a table of costs, a row a cell: means over training runs; None without any."""
    rows = []
    for cell in report.cells:
        trained = [run for run in cell.runs if run.epochs]
        if trained:
            rows.append((cell, _costs(trained)))
    if not rows:
        return None
    return by_cell(report, rows, COSTS + SIZES, headed(report, "what a run took"), ABOUT_COSTS)


def _costs(runs: Sequence[Run]) -> list[str]:
    """Return the figures of a cell's runs for the columns of COSTS and SIZES."""
    numbers: dict[str, list[float]] = {head: [] for head in COSTS}
    trained: list[int] = []
    frozen: list[int] = []
    devices: set[str] = set()
    for run in runs:
        for head, part in SECONDS.items():
            if part in run.seconds:
                numbers[head].append(run.seconds[part])
        numbers["epochs"].append(float(run.epochs))
        numbers["examples/s"].append(run.examples_per_second)
        trained.append(run.parameters["trainable"])
        frozen.append(run.parameters["frozen"])
        devices.add(run.device)
    texts: list[str] = []
    for of_runs in numbers.values():
        texts.append(two_digits(fmean(of_runs)) if of_runs else "")
    texts += [f"{fmean(trained):,.0f}", f"{fmean(frozen):,.0f}", "; ".join(sorted(devices))]
    return texts
