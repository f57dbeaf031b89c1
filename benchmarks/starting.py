"""Start-up of a sweep's runs: forked from a process with the imports done, or started separately.

Training is the NER run of `make paper data.size=60`, with the biLM `mini`.
"""

import itertools
import json
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from elmo_bench.settings.machine import cores

from .processes import ROOT
from .timing import Comparison, Setting

NOTE = "+task.callbacks=[{_target_: benchmarks.first_step.Note}]"
QUICK = ["data.size=4", "rnn.hidden_size=4", "task.model.hidden_size=4", "fit.max_epochs=1"]


class Spent(NamedTuple):
    """The time that a sweep takes per run."""

    start: float  # CPU seconds of a run until its first training step, median
    share: float  # `start` as a percentage of the run's CPU seconds, median
    all: float  # CPU seconds of all processes, including the sweep's own
    wall: float  # seconds


def compare(setting: Setting) -> Iterator[Comparison]:
    """Sweep once with and once without forks, one run at a time and, given the cores, two."""
    count = 2 if setting.quick else 4
    settings = [*(QUICK if setting.quick else ["data.size=60"]), f"cache_dir={setting.scratch}"]
    for n_jobs in (1,) if setting.quick or cores() < 2 else (1, 2):
        means = {
            "forked": cache(partial(sweep, setting.scratch, count, n_jobs, settings, fork=True)),
            "each by itself": cache(
                partial(sweep, setting.scratch, count, n_jobs, settings, fork=False)
            ),
        }
        title = f"a sweep of {count} runs, {n_jobs} at a time"
        for what, field, unit in (
            ("until a run's first training step", "start", "s of CPU"),
            ("the same, of what the run takes", "share", "% of CPU"),
            ("all processes, a run", "all", "s of CPU"),
            ("all, a run, by the clock", "wall", "s"),
        ):
            yield Comparison(
                f"{title}: {what}",
                means,
                measure=partial(_figure, field),
                measured=unit,
            )


numbers = itertools.count()


def sweep(scratch: Path, count: int, n_jobs: int, settings: list[str], fork: bool) -> Spent:
    """Run one sweep; a first run, which fills the cache, is not measured."""
    folder = scratch / f"sweep-{next(numbers)}"
    command = [
        *(sys.executable, "run.py", "--multirun", "task=ner", "encoder=mini", "trainer=cpu", NOTE),
        *(*settings, f"seed={','.join(map(str, range(1, count + 1)))}"),
        *(f"hydra.sweep.dir={folder}", f"outputs_dir={folder}"),
        *(f"hydra.launcher.n_jobs={n_jobs}", f"hydra.launcher.fork={str(fork).lower()}"),
    ]
    if not any(scratch.glob("sample-*")):
        first = [*command, "seed=1", "fit.max_epochs=1", f"hydra.run.dir={folder}/first"]
        first = [word for word in first if "launcher" not in word and "seed=1," not in word]
        first.remove("--multirun")
        subprocess.run(first, cwd=ROOT, check=True, capture_output=True)
    before, begun = _cpu(), time.perf_counter()
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    seconds, cpu = time.perf_counter() - begun, _cpu() - before
    runs = [json.loads(path.read_text()) for path in folder.glob("?/cpu.json")]
    return Spent(
        start=statistics.median(run["first_step"] for run in runs),
        share=statistics.median(100 * run["first_step"] / run["end"] for run in runs),
        all=cpu / count,
        wall=seconds / count,
    )


def _figure(field: str, swept: Callable[[], object]) -> float:
    figure: float = getattr(swept(), field)
    return figure


def _cpu() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime
