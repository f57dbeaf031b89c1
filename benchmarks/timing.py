"""Time the same work done in several ways, in turns.

Turns spread the load of other processes evenly over all ways.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from omegaconf import OmegaConf

from elmo_bench.encoders.bilm import BiLm, Options
from elmo_bench.settings.targets import instantiate

CONF = Path(__file__).parents[1] / "conf"
SIZES: dict[str, Options] = {
    path.stem: instantiate(OmegaConf.load(path)) for path in sorted(CONF.glob("bilm/*.yaml"))
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """The settings of a benchmark."""

    quick: bool
    sizes: Sequence[str]  # of biLMs
    sentences: Sequence[Sequence[str]]
    batch_size: int
    scratch: Path
    peers: Path | None  # folder of AllenNLP's unpacked wheel
    device: str = "cpu"  # not all benchmarks use it
    simple_elmo: Path | None = None  # a Python interpreter with simple_elmo installed

    def bilm(self, size: str) -> BiLm:
        """A frozen biLM with random weights, the same ones each time."""
        torch.manual_seed(0)
        return BiLm(SIZES[size]).eval().requires_grad_(False)


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """The seconds that a call takes, including work that it queued on a GPU."""
    start = clock()
    call()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return clock() - start


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One kind of work done by several means, ours first; each call does `amount` units of it."""

    title: str
    means: Mapping[str, Callable[[], object]]
    amount: int = 1
    unit: str = ""
    measure: Callable[[Callable[[], object]], float] = seconds
    measured: str = "s"

    def medians(self, repeats: int) -> dict[str, float]:
        """The median figure of each of the means, after a warm-up round; of that round itself
        without repetitions.
        """
        figures: dict[str, list[float]] = {name: [] for name in self.means}
        for _ in range(1 + repeats):
            for name, call in self.means.items():
                figures[name].append(self.measure(call))
        return {name: statistics.median(values[1:] or values) for name, values in figures.items()}
