"""Hydra launcher of sweeps: each run is a separate process, as if started by hand.

A run that fails or is killed does not affect the others, and a run may use several devices
(`trainer.devices`). Hydra's own launcher runs a whole sweep in one process, whose distributed
process group would outlive the run that created it. Hydra looks for plugins in this package only
and imports them at every start, so slow imports are inside functions.
"""

import contextlib
import logging
import queue
import shlex
import shutil
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log
from hydra.errors import CompactHydraException
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

if TYPE_CHECKING:
    from elmo_bench.launch import Outcome, Parent, RunFolders

log = logging.getLogger(__name__)
OURS = (
    "hydra.mode",
    "hydra.sweep",
    "hydra/sweeper",
    "hydra.launcher",
    "hydra/launcher",
)  # settings of the sweep that are not passed to its runs


@dataclass
class ProcessesConf:
    _target_: str = "hydra_plugins.processes.Processes"
    n_jobs: int = 1
    prefix: str = ""
    fork: bool = True


ConfigStore.instance().store(
    group="hydra/launcher", name="processes", node=ProcessesConf, provider="elmo_bench"
)


class Processes(Launcher):
    """Runs `n_jobs` processes at a time, which share the cores and GPUs of the machine.

    `prefix`, such as `srun --ntasks=1`, is put before each command; cores and GPUs are then left to
    the command of the prefix. Without a prefix and with `fork`, runs are forked from a process with
    their imports done, if the system supports it.
    """

    def __init__(self, n_jobs: int, prefix: str = "", fork: bool = True) -> None:
        from elmo_bench.launch import Children

        self.n_jobs, self.asked, self.fork = n_jobs, prefix, fork
        self.prefix: list[str] = []
        # Shared by all launches: sweepers that search launch several times.
        self.children = Children()
        self.parent: Parent | None = None
        self.folders: RunFolders | None = None
        self.outcomes: dict[int, Outcome] = {}

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.hydra_context, self.config = hydra_context, config
        self.check()

    def check(self) -> None:
        """Check the settings of the launcher once for all runs; raises CompactHydraException.

        The constructor does not check them, since Hydra wraps its exceptions in another message.
        """
        from elmo_bench.launch import machine

        if self.n_jobs < 1:
            raise CompactHydraException(
                f"hydra.launcher.n_jobs={self.n_jobs}, but it must be 1 or more"
            )
        cores = machine.cores()
        if self.n_jobs > cores and not (self.asked or self.config.get("oversubscribe")):
            raise CompactHydraException(
                f"hydra.launcher.n_jobs={self.n_jobs}, but only {cores} cores are available "
                "for these processes; oversubscribe=true starts them anyway"
            )
        try:
            self.prefix = shlex.split(self.asked)
        except ValueError as error:
            raise CompactHydraException(
                f"hydra.launcher.prefix={self.asked}: {error}; it is parsed as in a shell"
            ) from error
        if self.prefix and shutil.which(self.prefix[0]) is None:
            raise CompactHydraException(
                f"hydra.launcher.prefix={self.asked}, but the command {self.prefix[0]} was "
                "not found"
            )

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all jobs and print a table of outcomes.

        A job returns its figure on dev, for sweepers that search. A failed job returns a
        CompactHydraException, which Hydra's own sweeper raises when all jobs are done.
        """
        from elmo_bench import signals
        from elmo_bench.config.settings import dry_run_lines
        from elmo_bench.launch import Outcome, Progress, print_outcomes

        if any(override.startswith("hydra.sweep.subdir=") for override in self.overrides()):
            raise CompactHydraException(
                "hydra.sweep.subdir cannot be changed: runs have numbered folders below "
                "hydra.sweep.dir"
            )
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        configs = self.composed(job_overrides)
        numbers = range(initial_job_idx, initial_job_idx + len(job_overrides))
        if self.config.get("dry_run"):
            first: dict[str, int] = {}
            for number, overrides in zip(numbers, job_overrides, strict=True):
                command = " ".join(overrides)
                same = first.setdefault(command, number)
                again = "" if same == number else f"  (the same run as #{same}: it runs once)"
                log.info("#%d  %s%s", number, command, again)
            folder = Path(self.config.hydra.sweep.dir)
            with contextlib.suppress(OSError):  # what Hydra has created for the sweep
                if [path.name for path in folder.iterdir()] == ["multirun.yaml"]:
                    (folder / "multirun.yaml").unlink()
                    folder.rmdir()
            for line in dry_run_lines(configs):
                log.info(line)
            log.info("The settings of these %d runs are valid; nothing was run.", len(configs))
            sys.exit()
        folders, slots = self._folders(), self._slots(configs)
        if self.fork and not self.parent and initial_job_idx + len(configs) > 1:
            self.parent = self.children.parent = self._parent(configs)
        progress = Progress(len(configs), self.n_jobs)

        def run(number: int, overrides: Sequence[str], config: DictConfig) -> "Outcome":
            slot = slots.get()
            try:
                outcome = self._run(number, [*overrides], config, folders, slot)
            except OSError as error:  # its folder cannot be made or written: the others go on
                outcome = Outcome([*overrides], "failed", reason=str(error))
            finally:
                slots.put(slot)
            line = progress.line(number, outcome)
            if line and not self.children.stopped:
                log.info(line)
            return outcome

        log.info("%d runs, %d at a time: %s", len(job_overrides), self.n_jobs, folders.folder)
        with ThreadPoolExecutor(self.n_jobs) as pool, self.children.stopped_by_signals():
            results = pool.map(run, numbers, job_overrides, configs)
            outcomes = dict(zip(numbers, results, strict=True))
        self.outcomes |= outcomes
        for outcome in outcomes.values():
            if outcome.same_as is not None:
                outcome.share(self.outcomes[outcome.same_as])
        print_outcomes(self.outcomes)
        failed = sum(outcome.folder is None for outcome in outcomes.values())
        command = resuming(sys.argv)
        rest = f"{failed} of {len(outcomes)} runs did not finish. To run them:\n{command}"
        if self.children.stopped and failed:
            log.info(rest)
            raise signals.Stopped(128 + self.children.signal)
        error = CompactHydraException(rest)
        return [returned(outcome, error) for outcome in outcomes.values()]

    def composed(self, job_overrides: Sequence[Sequence[str]]) -> list[DictConfig]:
        """The configs of all jobs; raises CompactHydraException if any has invalid settings."""
        from elmo_bench.config.settings import faults

        load = self.hydra_context.config_loader.load_sweep_config
        configs = [load(self.config, [*overrides]) for overrides in job_overrides]
        if messages := dict.fromkeys(line for config in configs for line in faults(config)):
            raise CompactHydraException("\n".join(messages))
        return configs

    def _folders(self) -> "RunFolders":
        """The folders shared by all launches, after a new search for earlier runs."""
        from elmo_bench.launch import RunFolders

        if self.folders is None:
            folder = Path(self.config.hydra.sweep.dir).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            outputs = Path(self.config.outputs_dir).absolute()
            self.folders = RunFolders(folder, outputs, resume=self.config.resume)
        self.folders.search()
        return self.folders

    def _parent(self, configs: Sequence[DictConfig]) -> "Parent | None":
        """The process from which the runs are forked; None if forking is not possible.

        macOS's system libraries do not survive a fork, Windows has no fork, and `env_set` would
        come after the imports.
        """
        from elmo_bench.launch import Parent

        if self.prefix or sys.platform != "linux" or self.config.hydra.job.env_set:
            return None
        targets = [
            node["_target_"]
            for config in configs
            for node in (config.get("job"), config.get("encoder"))
            if "_target_" in (node or ())
        ]
        modules = [target.rpartition(".")[0] for target in targets]
        return Parent(script(), [*dict.fromkeys(["hydra.main", *modules])], self.environment(None))

    def _slots(self, configs: Sequence[DictConfig]) -> "queue.SimpleQueue[str | None]":
        """One slot for each run at a time: the numbers of its GPUs, or None.

        A slot has as many GPUs as the run that asks for most; `auto` asks for an equal share.
        """
        from elmo_bench.launch import devices, gpus

        ours = gpus() if self.n_jobs > 1 and not self.prefix else []
        share = max(1, len(ours) // self.n_jobs)
        asked = [
            1 + max(devices(config.trainer.get("devices", 1), share), default=0)
            for config in configs
            if "trainer" in config and config.trainer.get("accelerator") != "cpu"
        ]
        size = min(max(asked, default=1), len(ours))
        slots: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        for slot in range(self.n_jobs):
            some = [ours[number % len(ours)] for number in range(slot * size, (slot + 1) * size)]
            slots.put(",".join(some) or None)
        return slots

    def _run(
        self,
        number: int,
        overrides: list[str],
        config: DictConfig,
        folders: "RunFolders",
        gpus: str | None,
    ) -> "Outcome":
        """Run one job, unless the sweep was stopped, contains the same run, or it is finished."""
        from elmo_bench.launch import Outcome, exit_status
        from elmo_bench.runs import failure_sentence

        if self.children.stopped:
            return Outcome(overrides, "not started", reason="the sweep was stopped")
        if (first := folders.first(config, number)) != number:
            return Outcome(overrides, f"same run as #{first}", same_as=first)
        if earlier := folders.finished(config):
            return Outcome(overrides, "finished before", reason=str(earlier), folder=earlier)
        run_dir = folders.own(config, number)
        error = run_dir / "error.txt"
        error.unlink(missing_ok=True)
        log.info("#%d  %s", number, " ".join(overrides))
        begun = time.perf_counter()
        with contextlib.ExitStack() as stack:
            output = None
            if self.n_jobs > 1:
                mode = "a" if (run_dir / "last.ckpt").exists() else "w"
                output = stack.enter_context((run_dir / "output.txt").open(mode))
            command, environment = self.command(overrides, run_dir), self.environment(gpus)
            code = self.children.run(command, environment, output)
        seconds = time.perf_counter() - begun
        # If the exit status is unknown, a result shows success, as it is written last.
        if code == 0 or (code is None and (run_dir / "result.json").is_file()):
            return Outcome(overrides, "done", seconds, folder=run_dir)
        if self.children.stopped:
            return Outcome(overrides, "stopped", seconds, str(run_dir), left=run_dir)
        message = failure_sentence(error) if error.is_file() else ""
        reason = f"{message or exit_status(code)} ({run_dir})"
        return Outcome(overrides, "failed", seconds, reason, left=run_dir)

    def command(self, overrides: list[str], run_dir: Path) -> list[str]:
        """The command of a single run, with the prefix."""
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
        return [
            *self.prefix,
            sys.executable,
            str(script()),
            *config,
            *overrides,
            *ours,
            f"hydra.run.dir={quoted(str(run_dir))}",
            "hydra.mode=RUN",
        ]

    def overrides(self) -> list[str]:
        """The overrides of Hydra's settings as typed: only a run can resolve their references."""
        typed: Any = OmegaConf.to_container(self.config.hydra.overrides.hydra)
        return typed

    def environment(self, gpus: str | None) -> dict[str, str]:
        """The environment of a run, with its share of the machine and the sweep as W&B group."""
        from elmo_bench.launch import environment

        folder = Path(self.config.hydra.sweep.dir)
        shares = 1 if self.prefix else self.n_jobs
        return environment(shares, gpus, f"{folder.parent.name}/{folder.name}")


def script() -> Path:
    """The script that was started, which also starts each run."""
    return Path(sys.argv[0]).resolve()


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


def returned(outcome: "Outcome", error: CompactHydraException) -> JobReturn:
    """The outcome of a run in Hydra's format."""
    from elmo_bench.runs import dev_figure

    if outcome.folder is None:
        return JobReturn(overrides=outcome.overrides, status=JobStatus.FAILED, _return_value=error)
    return JobReturn(
        overrides=outcome.overrides,
        status=JobStatus.COMPLETED,
        _return_value=dev_figure(outcome.folder),
    )
