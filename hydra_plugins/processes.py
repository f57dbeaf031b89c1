"""Hydra's launcher of our sweeps: each run is a process of its own, as if it had been started by
hand.

So a run that is killed or fails leaves the others alone, and several devices inside a run are right
(`trainer.devices`): Hydra's own launcher runs all of a sweep in one process, whose process group
outlives the run that made it. Hydra finds plugins in this package alone, and imports them whenever
it starts: whatever takes time is imported in a function.
"""

import contextlib
import itertools
import logging
import os
import queue
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

log = logging.getLogger(__name__)
# What a process of a distributed run knows of it: no run of a sweep is part of one that started the
# sweep.
RANKS = (
    "LOCAL_RANK",
    "RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PL_GLOBAL_SEED",
    "SLURM_NTASKS",
)
OURS = (
    "hydra.mode",
    "hydra.sweep",
    "hydra/sweeper",
    "hydra.launcher",
    "hydra/launcher",
)  # for the sweep, not for its runs


@dataclass
class ProcessesConf:
    _target_: str = "hydra_plugins.processes.Processes"
    n_jobs: int = 1
    prefix: str = ""


ConfigStore.instance().store(
    group="hydra/launcher", name="processes", node=ProcessesConf, provider="elmo_bench"
)


@dataclass
class Outcome:
    """What became of a run; `reason` where it failed or was not started; the `folder` of one that
    has a result.
    """

    overrides: list[str]
    status: str
    seconds: float
    reason: str = ""
    folder: Path | None = None


class Processes(Launcher):
    """Runs `n_jobs` processes side by side; the threads of the machine are shared out, and its
    GPUs, one for each.

    With a `prefix`, such as `srun --ntasks=1`, each command begins with it: what it starts them on
    is not shared out here.
    """

    def __init__(self, n_jobs: int, prefix: str = "") -> None:
        self.n_jobs, self.asked = n_jobs, prefix
        self.prefix: list[str] = []
        self.running: set[subprocess.Popen] = set()
        self.stopped = False
        self.lock, self.taken = threading.Lock(), set[Path]()
        self.outcomes: list[Outcome] = []  # of all launches: a sweeper that searches has several

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.hydra_context, self.config = hydra_context, config
        self.check()

    def check(self) -> None:
        """Whether the settings can be, said once for all runs: what a constructor raises, Hydra
        wraps in words of its own.
        """
        if self.n_jobs < 1:
            raise CompactHydraException(
                f"hydra.launcher.n_jobs={self.n_jobs}, but it may be 1 or more"
            )
        try:
            self.prefix = shlex.split(self.asked)
        except ValueError as error:
            raise CompactHydraException(
                f"hydra.launcher.prefix={self.asked}: {error}; it is read as a shell reads it"
            ) from error
        if self.prefix and shutil.which(self.prefix[0]) is None:
            raise CompactHydraException(
                f"hydra.launcher.prefix={self.asked}, but there is no command {self.prefix[0]} here"
            )

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all jobs and print what became of them; a job returns its figure on dev, for a
        sweeper that searches.

        One that failed has CompactHydraException in its place, which Hydra's own sweeper raises
        when all are done.
        """
        from elmo_bench.runs import finished, unfinished

        if any(override.startswith("hydra.sweep.subdir=") for override in self.overrides()):
            raise CompactHydraException(
                "hydra.sweep.subdir: the folders of our runs are their numbers, below "
                "hydra.sweep.dir"
            )
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        folder = Path(self.config.hydra.sweep.dir).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        folders = [folder, Path(self.config.outputs_dir).absolute()] if self.config.resume else []
        done, killed = finished(folders), unfinished(folders)
        slots: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        devices = gpus() if self.n_jobs > 1 and not self.prefix else []
        for number in range(self.n_jobs):
            slots.put(devices[number % len(devices)] if devices else None)

        def run(number: int) -> Outcome:
            overrides = list(job_overrides[number])
            if self.stopped:
                return Outcome(overrides, "not started", 0.0, "the sweep was stopped")
            slot = slots.get()
            try:
                return self._run(initial_job_idx + number, overrides, folder, done, killed, slot)
            finally:
                slots.put(slot)

        log.info("%d runs, %d at a time: %s", len(job_overrides), self.n_jobs, folder)
        kinds = [
            kind
            for kind in (signal.SIGTERM, signal.SIGHUP)
            if signal.getsignal(kind) is not signal.SIG_IGN
        ]  # not under nohup
        before = {kind: signal.signal(kind, self._stop) for kind in kinds}
        with ThreadPoolExecutor(self.n_jobs) as pool:
            try:
                outcomes = list(pool.map(run, range(len(job_overrides))))
            except BaseException:  # Ctrl-C, SIGTERM: nothing goes on behind the user's back
                self._stop()
                raise
            finally:
                for kind, handler in before.items():
                    signal.signal(kind, handler)
        self.outcomes += outcomes
        print_outcomes(self.outcomes)
        failed = sum(outcome.folder is None for outcome in outcomes)
        error = CompactHydraException(
            f"{failed} of {len(outcomes)} runs did not finish; the same command with resume=true "
            "runs these"
        )
        if self.stopped and failed:
            raise error
        return [returned(outcome, error) for outcome in outcomes]

    def _run(
        self,
        number: int,
        overrides: list[str],
        folder: Path,
        done: dict[str, Path],
        killed: dict[str, Path],
        gpu: str | None,
    ) -> Outcome:
        from elmo_bench.inputs import same

        config = self.hydra_context.config_loader.load_sweep_config(self.config, overrides)
        if (earlier := same(config, done)) is not None:
            return Outcome(overrides, "finished before", 0.0, str(earlier), earlier)
        run_dir = self._own_folder(folder, number, same(config, killed))
        error = run_dir / "error.txt"
        error.unlink(missing_ok=True)
        log.info("#%d  %s", number, " ".join(overrides))
        begun = time.perf_counter()
        with contextlib.ExitStack() as stack:
            mode = "a" if (run_dir / "last.ckpt").exists() else "w"
            output = (
                None
                if self.n_jobs == 1
                else stack.enter_context((run_dir / "output.txt").open(mode))
            )
            command, environment = self.command(overrides, run_dir), self.environment(gpu)
            process = subprocess.Popen(
                command, stdout=output, stderr=output, env=environment, start_new_session=True
            )
            self.running.add(process)
            if self.stopped:  # while it was being composed
                self._stop()
            code = process.wait()
            self.running.discard(process)
        seconds = time.perf_counter() - begun
        if code == 0:
            return Outcome(overrides, "done", seconds, folder=run_dir)
        reason = (
            error.read_text(encoding="utf-8").strip().rpartition("\n")[2]
            if error.is_file()
            else ended(code)
        )
        if self.stopped:
            reason = "the sweep was stopped"
        return Outcome(overrides, "failed", seconds, f"{reason} ({run_dir})")

    def _own_folder(self, folder: Path, number: int, begun: Path | None) -> Path:
        """That of the run that goes on, or one by its number, a new one where that already belongs
        to another run.

        It may have been of another sweep: one that is finished or, where runs go on, has begun.
        """
        left = ("result.json", "last.ckpt") if self.config.resume else ("result.json",)
        with self.lock:
            numbered = (folder / str(n) for n in itertools.count(number))
            free = (path for path in numbered if not any((path / name).exists() for name in left))
            run_dir = next(
                path
                for path in itertools.chain([begun] if begun else [], free)
                if path not in self.taken
            )
            self.taken.add(run_dir)
        run_dir.mkdir(exist_ok=True)
        return run_dir

    def command(self, overrides: list[str], run_dir: Path) -> list[str]:
        """What a person would type for this run alone, after the prefix."""
        hydra = self.config.hydra
        sources = [(source.provider, source.path) for source in hydra.runtime.config_sources]
        options = {"main": "--config-path", "command-line": "--config-dir"}
        config = [
            word
            for provider, path in sources
            if provider in options
            for word in (options[provider], path)
        ]
        config += ["--config-name", hydra.job.config_name]
        ours = [
            override for override in self.overrides() if not override.lstrip("+~").startswith(OURS)
        ]
        script = [*self.prefix, sys.executable, str(Path(sys.argv[0]).resolve())]
        return [
            *script,
            *config,
            *overrides,
            *ours,
            f"hydra.run.dir={quoted(str(run_dir))}",
            "hydra.mode=RUN",
        ]

    def overrides(self) -> list[str]:
        """Those of Hydra's own settings as they were typed: they may refer to what a run alone
        has.
        """
        given: Any = OmegaConf.to_container(self.config.hydra.overrides.hydra)
        return given

    def environment(self, gpu: str | None) -> dict[str, str]:
        """Ours without what ties it to a distributed run; its share of the threads, its GPU, the
        sweep as its W&B group.
        """
        folder = Path(self.config.hydra.sweep.dir)
        found = {"WANDB_RUN_GROUP": f"{folder.parent.name}/{folder.name}"}
        found |= {name: value for name, value in os.environ.items() if name not in RANKS}
        if self.n_jobs > 1 and not self.prefix:
            found.setdefault("OMP_NUM_THREADS", str(max(1, cores() // self.n_jobs)))
        return found if gpu is None else found | {"CUDA_VISIBLE_DEVICES": gpu}

    def _stop(self, *_: Any) -> None:
        self.stopped = True
        for process in list(self.running):
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.killpg(process.pid, signal.SIGTERM)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def quoted(value: str) -> str:
    """A value as Hydra's grammar reads it whole."""
    return "'" + value.replace("'", "\\'") + "'"


def gpus() -> list[str]:
    """The GPUs that runs may have, by number."""
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [number for number in visible.split(",") if number]
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--query-gpu=index", "--format=csv,noheader"],
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return listed.stdout.split()


def ended(code: int) -> str:
    """An exit status in words."""
    if code > 128:  # a signal, as a shell or srun tells it
        code = 128 - code
    hints: dict[int, str] = {
        signal.SIGKILL: ", as the system does where memory runs out",
        signal.SIGTERM: ", as SLURM does where time is up",
    }
    return f"killed by signal {-code}{hints.get(-code, '')}" if code < 0 else f"exit status {code}"


def returned(outcome: Outcome, error: CompactHydraException) -> JobReturn:
    """What Hydra is told of a run."""
    from elmo_bench.runs import dev_figure

    if outcome.folder is None:
        return JobReturn(overrides=outcome.overrides, status=JobStatus.FAILED, _return_value=error)
    return JobReturn(
        overrides=outcome.overrides,
        status=JobStatus.COMPLETED,
        _return_value=dev_figure(outcome.folder),
    )


def print_outcomes(outcomes: Sequence[Outcome]) -> None:
    """A row for each run: by which overrides it differs from the others, what became of it, why."""
    from rich.console import Console
    from rich.table import Table

    shared = (
        set.intersection(*({*outcome.overrides} for outcome in outcomes))
        if len(outcomes) > 1
        else set()
    )
    table = Table("", "run", "", "seconds", "")
    for number, outcome in enumerate(outcomes):
        named = " ".join(override for override in outcome.overrides if override not in shared)
        style = "red" if outcome.status in ("failed", "not started") else ""
        table.add_row(
            str(number),
            named,
            outcome.status,
            f"{outcome.seconds:.0f}",
            outcome.reason,
            style=style,
        )
    Console(markup=False, emoji=False).print(table)
