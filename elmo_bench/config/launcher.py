"""Hydra's launcher of sweeps: each run is a process of its own, as if started by hand.

A run that fails or is killed does not affect the others, and a run may use several devices
(`trainer.devices`). Hydra's own launcher runs a whole sweep in one process, whose distributed
process group would outlive the run that created it. `hydra_plugins/processes.py` shows this
launcher to Hydra, which imports it at every start.
"""

import contextlib
import itertools
import logging
import queue
import shlex
import shutil
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, configure_log
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf
from rich.console import Console
from rich.table import Table

from elmo_bench.files import Lines, duration, is_taken, plain, signals
from elmo_bench.runs import (
    failure_sentence,
    finished,
    machine,
    read_run,
    settings_digest,
    unfinished,
)
from elmo_bench.runs.processes import Processes

from .check import dry_run_lines, faults
from .inputs import same_run

log = logging.getLogger(__name__)
# Settings of the sweep that are not passed to its runs.
OURS = ("hydra.mode", "hydra.sweep", "hydra/sweeper", "hydra.launcher", "hydra/launcher")
HINTS: dict[int, str] = {
    signal.SIGKILL: ", which the system sends when memory runs out",
    signal.SIGTERM: ", which SLURM sends at the time limit",
}


@dataclass
class Outcome:
    """The outcome of a run, whose files are in `folder`; `reason` says why it has no result."""

    overrides: list[str]
    status: str
    is_done: bool = False
    seconds: float = 0.0
    reason: str = ""
    folder: Path | None = None


class ProcessLauncher(Launcher):
    """Runs `n_jobs` processes at a time, which share the cores and GPUs of the machine.

    `prefix`, such as `srun --ntasks=1`, is put before each command; cores and GPUs are then left to
    the command of the prefix. Without a prefix and with `fork`, runs are forked from a process with
    their imports done, if the system supports it.
    """

    def __init__(self, n_jobs: int, prefix: str = "", fork: bool = True) -> None:
        self.n_jobs, self.asked, self.fork = n_jobs, prefix, fork
        self.prefix: list[str] = []
        # Shared by all launches: sweepers that search launch several times.
        self.processes = Processes()
        self.outcomes: dict[int, Outcome] = {}
        self.numbers: dict[str, int] = {}  # number of the first run with these settings
        self.taken = set[Path]()  # folders of runs

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.hydra_context, self.config = hydra_context, config
        self.check()

    def check(self) -> None:
        """Check the settings of the launcher once for all runs; raises CompactHydraException.

        The constructor does not check them, since Hydra wraps its exceptions in another message.
        """
        try:
            if self.n_jobs < 1:
                raise ValueError(f"hydra.launcher.n_jobs={self.n_jobs}, but it must be 1 or more")
            if not (self.asked or self.config.get("oversubscribe")):
                machine.check_cores("hydra.launcher.n_jobs", self.n_jobs)
            if any(override.startswith("hydra.sweep.subdir=") for override in self.overrides()):
                raise ValueError("hydra.sweep.subdir cannot be changed: runs have numbered folders")
        except ValueError as error:
            raise CompactHydraException(str(error)) from error
        asked = f"hydra.launcher.prefix={self.asked}"
        try:
            self.prefix = shlex.split(self.asked)
        except ValueError as error:
            raise CompactHydraException(f"{asked}: {error}; a shell parses it") from error
        if self.prefix and shutil.which(self.prefix[0]) is None:
            raise CompactHydraException(f"{asked}, but there is no command {self.prefix[0]}")

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all jobs and print a table of outcomes.

        A job returns its figure on dev, for sweepers that search. A failed job returns a
        CompactHydraException, which Hydra's own sweeper raises when all jobs are done.
        """
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        configs = self.composed(job_overrides)
        jobs = {number: [*each] for number, each in enumerate(job_overrides, initial_job_idx)}
        if self.config.get("dry_run"):
            self._dry_run(jobs, configs)
        self.outcomes |= self._run_all(jobs, configs)
        print_outcomes(dict(sorted(self.outcomes.items())))
        outcomes = [self.outcomes[number] for number in jobs]
        failed = sum(not outcome.is_done for outcome in outcomes)
        command = resuming(sys.argv)
        rest = f"{failed} of {len(outcomes)} runs did not finish. To run them:\n{command}"
        if self.processes.stopped and failed:
            log.info(rest)
            raise signals.Stopped(128 + self.processes.signal)
        return [returned(outcome, CompactHydraException(rest)) for outcome in outcomes]

    def composed(self, job_overrides: Sequence[Sequence[str]]) -> list[DictConfig]:
        """The configs of all jobs; raises CompactHydraException if any has invalid settings."""
        load = self.hydra_context.config_loader.load_sweep_config
        configs = [load(self.config, [*overrides]) for overrides in job_overrides]
        if messages := dict.fromkeys(line for config in configs for line in faults(config)):
            raise CompactHydraException("\n".join(messages))
        return configs

    def _dry_run(self, jobs: Mapping[int, list[str]], configs: Sequence[DictConfig]) -> None:
        """Log the jobs, and what they would read and keep; then exit."""
        for number, overrides in jobs.items():
            log.info("#%d  %s", number, " ".join(overrides))
        with contextlib.suppress(OSError):  # what Hydra has created for the sweep
            if [path.name for path in self._folder().iterdir()] == ["multirun.yaml"]:
                (self._folder() / "multirun.yaml").unlink()
                self._folder().rmdir()
        for line in dry_run_lines(configs):
            log.info(line)
        log.info("The settings of these %d runs are valid; nothing was run.", len(configs))
        sys.exit()

    def _run_all(
        self, jobs: Mapping[int, list[str]], configs: Sequence[DictConfig]
    ) -> dict[int, Outcome]:
        """Run the jobs, `n_jobs` at a time, and return their outcomes by number."""
        outcomes, same, killed = self._planned(jobs, configs)
        slots, ended, lock = self._slots(configs), itertools.count(1), threading.Lock()
        lines = Lines()  # how long the others take
        if killed and max(jobs) > 0 and self.can_fork() and not self.processes.forks:
            self.processes.start_forks(preloaded(configs), self.environment(None))

        def run(number: int) -> Outcome:
            slot = slots.get()
            try:
                with lock:
                    folder = self._own_folder(number, killed[number])
                outcome = self._run(number, jobs[number], folder, slot)
            except OSError as error:  # its folder cannot be made or written: the others go on
                outcome = Outcome(jobs[number], "failed", reason=str(error))
            finally:
                slots.put(slot)
            if not self.processes.stopped:
                took, said = duration(outcome.seconds), lines.line("runs", next(ended), len(killed))
                log.info("#%d %s in %s; %s", number, outcome.status, took, said)
            return outcome

        log.info("%d runs, %d at a time: %s", len(jobs), self.n_jobs, self._folder())
        with ThreadPoolExecutor(self.n_jobs) as pool, self.processes.stopped_by_signals():
            outcomes |= zip(killed, pool.map(run, killed), strict=True)
        for number, first in same.items():
            known, status = (self.outcomes | outcomes)[first], f"same run as #{first}"
            outcomes[number] = replace(known, overrides=jobs[number], status=status, seconds=0.0)
        return outcomes

    def _planned(
        self, jobs: Mapping[int, list[str]], configs: Sequence[DictConfig]
    ) -> tuple[dict[int, Outcome], dict[int, int], dict[int, Path | None]]:
        """Return the outcomes of the jobs that have finished before, for each repeated job the
        number of the first with its settings, and for each other one the folder of the killed run
        that it resumes; None if it begins anew.
        """
        outputs = Path(self.config.outputs_dir).absolute()
        searched = [self._folder(), outputs] if self.config.resume else []
        finished_runs, killed_runs = finished(searched), unfinished(searched)
        outcomes, same, killed = dict[int, Outcome](), dict[int, int](), dict[int, Path | None]()
        for number, config in zip(jobs, configs, strict=True):
            if (first := self.numbers.setdefault(settings_digest(config), number)) != number:
                same[number] = first
            elif folder := same_run(config, finished_runs):
                outcomes[number] = Outcome(
                    jobs[number], "finished before", True, reason=str(folder), folder=folder
                )
            else:
                killed[number] = same_run(config, killed_runs)
        return outcomes, same, killed

    def _own_folder(self, number: int, killed: Path | None) -> Path:
        """Reserve the folder of a run: that of the killed run it resumes, or the next number's
        without a result or, with `resume`, a checkpoint, in which no other sweep's run goes on. The
        run is about to start, since another sweep may write to the same folders meanwhile.
        """
        left = ("result.json", "last.ckpt") if self.config.resume else ("result.json",)

        def is_free(path: Path) -> bool:
            return not any((path / name).exists() for name in left) and not is_taken(path / "run")

        numbered = (self._folder() / str(n) for n in itertools.count(number))
        choices = itertools.chain([killed] if killed else [], filter(is_free, numbered))
        folder = next(path for path in choices if path not in self.taken)
        self.taken.add(folder)
        return folder

    def can_fork(self) -> bool:
        """Whether runs may be forked.

        macOS's system libraries do not survive a fork, Windows has no fork, and `env_set` would
        come after the imports.
        """
        is_linux = sys.platform == "linux"
        return self.fork and is_linux and not self.prefix and not self.config.hydra.job.env_set

    def _folder(self) -> Path:
        return Path(self.config.hydra.sweep.dir).absolute()

    def _slots(self, configs: Sequence[DictConfig]) -> "queue.SimpleQueue[str | None]":
        """One slot for each run at a time: the numbers of its GPUs, or None.

        A slot has as many GPUs as the run that asks for most; other values than a number ask for an
        equal share.
        """
        ours = machine.gpus() if self.n_jobs > 1 and not self.prefix else []
        share = max(1, len(ours) // self.n_jobs)
        asked = [
            config.trainer.get("devices", 1)
            for config in configs
            if "trainer" in config and config.trainer.get("accelerator") != "cpu"
        ]
        sizes = (size if isinstance(size, int) and size > 0 else share for size in asked)
        size = min(max(sizes, default=1), len(ours))
        slots: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        for slot in range(self.n_jobs):
            some = [ours[number % len(ours)] for number in range(slot * size, (slot + 1) * size)]
            slots.put(",".join(some) or None)
        return slots

    def _run(self, number: int, overrides: list[str], run_dir: Path, gpus: str | None) -> Outcome:
        """Run one job, unless the sweep was stopped."""
        if self.processes.stopped:
            return Outcome(overrides, "not started", reason="the sweep was stopped")
        run_dir.mkdir(parents=True, exist_ok=True)
        error, output = run_dir / "error.txt", run_dir / "output.txt"
        error.unlink(missing_ok=True)
        if not (run_dir / "last.ckpt").exists():
            output.unlink(missing_ok=True)
        log.info("#%d  %s", number, " ".join(overrides))
        begun = time.perf_counter()
        command, environment = self.command(overrides, run_dir), self.environment(gpus)
        code = self.processes.run(command, environment, output if self.n_jobs > 1 else None)
        seconds = time.perf_counter() - begun
        # If the exit status is unknown, a result shows success, as it is written last.
        if code == 0 or (code is None and (run_dir / "result.json").is_file()):
            return Outcome(overrides, "done", True, seconds, folder=run_dir)
        if self.processes.stopped:
            return Outcome(overrides, "stopped", False, seconds, str(run_dir), run_dir)
        message = failure_sentence(error) if error.is_file() else ""
        reason = f"{message or exit_status(code)} ({run_dir})"
        return Outcome(overrides, "failed", False, seconds, reason, run_dir)

    def command(self, overrides: list[str], run_dir: Path) -> list[str]:
        """The command of a single run, with the prefix."""
        hydra = self.config.hydra
        options = {"main": "--config-path", "command-line": "--config-dir"}
        sources = [each for each in hydra.runtime.config_sources if each.provider in options]
        config = [word for each in sources for word in (options[each.provider], each.path)]
        config += ["--config-name", hydra.job.config_name]
        typed = self.overrides()
        ours = [override for override in typed if not override.lstrip("+~").startswith(OURS)]
        own = [f"hydra.run.dir={quoted(str(run_dir))}", "hydra.mode=RUN"]
        return [*self.prefix, sys.executable, script(), *config, *overrides, *ours, *own]

    def overrides(self) -> list[str]:
        """The overrides of Hydra's settings as typed: only a run can resolve their references."""
        typed: Any = OmegaConf.to_container(self.config.hydra.overrides.hydra)
        return typed

    def environment(self, gpus: str | None) -> dict[str, str]:
        """The environment of a run, with its share of the machine and the sweep as W&B group."""
        folder = Path(self.config.hydra.sweep.dir)
        shares = 1 if self.prefix else self.n_jobs
        return machine.environment(shares, gpus, f"{folder.parent.name}/{folder.name}")


def script() -> str:
    """The script that was started, which also starts each run."""
    return str(Path(sys.argv[0]).resolve())


def preloaded(configs: Sequence[DictConfig]) -> list[str]:
    """The modules of ours that the runs need; those of users may not survive a fork.

    >>> preloaded([OmegaConf.create({"job": {"_target_": "elmo_bench.jobs.train.train"}})])
    ['elmo_bench.jobs.train']
    """
    nodes = [config.get(key) or {} for config in configs for key in ("job", "encoder")]
    modules = [node.get("_target_", "").rpartition(".")[0] for node in nodes]
    return [*dict.fromkeys(module for module in modules if module.startswith("elmo_bench."))]


def resuming(command: Sequence[str]) -> str:
    """The shell command that resumes a sweep, given the arguments that started it.

    >>> resuming(["run.py", "-m", "elmo.mix=all,[0,1]", "resume=false"])
    "python run.py -m 'elmo.mix=all,[0,1]' resume=true"
    """
    script, *settings = command
    settings = [word for word in settings if not word.startswith("resume=")]
    begin = ["python", script] if script.endswith(".py") else [Path(script).name]
    return shlex.join([*begin, *settings, "resume=true"])


def quoted(value: str) -> str:
    """Quote a value for Hydra's override grammar."""
    return "'" + value.replace("'", "\\'") + "'"


def returned(outcome: Outcome, error: CompactHydraException) -> JobReturn:
    """The outcome of a run in Hydra's format."""
    if not outcome.is_done or outcome.folder is None:
        return JobReturn(overrides=outcome.overrides, status=JobStatus.FAILED, _return_value=error)
    figure = dev_figure(outcome.folder)
    return JobReturn(overrides=outcome.overrides, status=JobStatus.COMPLETED, _return_value=figure)


def dev_figure(folder: Path) -> float | None:
    """Return the monitored dev metric of a finished run, as a fraction of 1; None if no model was
    trained.
    """
    if not (path := folder / "result.json").is_file():
        return None
    run = read_run(path)
    return run.metrics.get(f"dev/{run.config['task']['monitor']}")


def exit_status(code: int | None) -> str:
    """Return an exit status in words.

    `code` is negative or above 128 if a signal ended the process, and None if nobody knows.

    >>> exit_status(3), exit_status(139)
    ('exit status 3', 'killed by signal 11')
    >>> exit_status(-9)
    'killed by signal 9, which the system sends when memory runs out'
    """
    if code is None:
        return "its exit status is unknown: the process that forked it has ended"
    if (number := code - 128 if code > 128 else -code) <= 0:
        return f"exit status {code}"
    return f"killed by signal {number}{HINTS.get(number, '')}"


def print_outcomes(outcomes: Mapping[int, Outcome]) -> None:
    """Print a table of runs: number, overrides that differ among runs, status, seconds, reason."""
    overrides = [{*outcome.overrides} for outcome in outcomes.values()]
    shared = set.intersection(*overrides) if len(overrides) > 1 else set()
    table = Table("", "run", "", "seconds", "")
    for number, each in outcomes.items():
        own = plain(" ".join(override for override in each.overrides if override not in shared))
        row = (str(number), own, each.status, f"{each.seconds:.0f}", plain(each.reason))
        table.add_row(*row, style="" if each.is_done else "red")
    Console(markup=False, emoji=False).print(table)
