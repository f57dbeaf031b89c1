"""The same work by several means, timed in turns, so that whatever else the machine does falls on
all of them alike.
"""

import dataclasses
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf

from elmo_bench.encoders.bilm import BiLm, Options

CONF = Path(__file__).parents[1] / "conf"
SIZES: dict[str, Options] = {
    path.stem: instantiate(OmegaConf.load(path)) for path in sorted(CONF.glob("bilm/*.yaml"))
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """What a benchmark measures with."""

    quick: bool
    sizes: Sequence[str]  # of biLMs
    sentences: Sequence[Sequence[str]]
    batch_size: int
    scratch: Path
    peers: Path | None  # where AllenNLP's wheel is unpacked
    device: str = "cpu"  # what runs there
    simple_elmo: Path | None = None  # an interpreter that has it

    def bilm(self, size: str) -> BiLm:
        """A frozen biLM with random weights, the same ones each time."""
        torch.manual_seed(0)
        return BiLm(SIZES[size]).eval().requires_grad_(False)


def seconds(call: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """How long a call takes."""
    start = clock()
    call()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return clock() - start


@dataclasses.dataclass(frozen=True)
class Comparison:
    """One kind of work and the means by which it is done, ours first; `amount` is how many `unit`s
    of it each call does.
    """

    title: str
    means: Mapping[str, Callable[[], object]]
    amount: int = 1
    unit: str = ""
    measure: Callable[[Callable[[], object]], float] = seconds
    measured: str = "s"

    def medians(self, repeats: int) -> dict[str, float]:
        """The median of each means' figure, after a round that does not count."""
        figures: dict[str, list[float]] = {name: [] for name in self.means}
        for _ in range(1 + repeats):
            for name, call in self.means.items():
                figures[name].append(self.measure(call))
        return {name: statistics.median(values[1:]) for name, values in figures.items()}
