"""How soon the runs of a sweep begin: forked from a process that has imported what they need,
against each started by itself.

Training is what `make paper data.size=60` does for a task: NER with the biLM `mini`.
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

from elmo_bench.launch import cores

from .processes import ROOT
from .timing import Comparison, Setting

NOTE = "+task.callbacks=[{_target_: benchmarks.first_step.Note}]"
QUICK = ["data.size=4", "rnn.hidden_size=4", "task.model.hidden_size=4", "fit.max_epochs=1"]


class Spent(NamedTuple):
    """By a sweep: seconds of a run's own CPU until its first training step, and the percentage that
    this is of all that it takes (medians of the runs); seconds of CPU of all processes, the sweep's
    own among them, and of time, a run.
    """

    start: float
    share: float
    all: float
    wall: float


def compare(setting: Setting) -> Iterator[Comparison]:
    """For one run at a time, and two where there are cores: both ways, each swept once."""
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
    """Run one; what the cache is filled with by a first run does not count."""
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
