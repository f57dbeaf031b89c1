"""Hydra's launcher of our sweeps: each run is a process of its own, as if it had been started by
hand.

So a run that is killed or fails leaves the others alone, and several devices inside a run are right
(`trainer.devices`): Hydra's own launcher runs all of a sweep in one process, whose process group
outlives the run that made it. Hydra finds plugins in this package alone, and imports them whenever
it starts: whatever takes time is imported in a function.
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
)  # for the sweep, not for its runs


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
    """Runs `n_jobs` processes side by side; the threads of the machine are shared out, and its
    GPUs, one for each.

    With a `prefix`, such as `srun --ntasks=1`, each command begins with it: what it starts them on
    is not shared out here. Else the runs are forked, where the system can, from a process that has
    imported what they need.
    """

    def __init__(self, n_jobs: int, prefix: str = "", fork: bool = True) -> None:
        from elmo_bench.launch import Children

        self.n_jobs, self.asked, self.fork = n_jobs, prefix, fork
        self.prefix: list[str] = []
        # Of all launches: a sweeper that searches has several.
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
        """Whether the settings can be, said once for all runs: what a constructor raises, Hydra
        wraps in words of its own.
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
        """Run all jobs and print what became of them; a job returns its figure on dev, for a
        sweeper that searches.

        One that failed has CompactHydraException in its place, which Hydra's own sweeper raises
        when all are done.
        """
        from elmo_bench import signals
        from elmo_bench.launch import Progress, print_outcomes
        from elmo_bench.schema import dry_run_lines

        if any(override.startswith("hydra.sweep.subdir=") for override in self.overrides()):
            raise CompactHydraException(
                "hydra.sweep.subdir cannot be changed: runs have numbered folders below "
                "hydra.sweep.dir"
            )
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        configs = self.composed(job_overrides)
        numbers = range(initial_job_idx, initial_job_idx + len(job_overrides))
        if self.config.get("dry_run"):
            for number, overrides in zip(numbers, job_overrides, strict=True):
                log.info("#%d  %s", number, " ".join(overrides))
            with contextlib.suppress(OSError):  # what Hydra has made for the runs
                (folder := Path(self.config.hydra.sweep.dir)).joinpath("multirun.yaml").unlink()
                folder.rmdir()
                folder.parent.rmdir()
            for line in dry_run_lines(configs):
                log.info(line)
            log.info("All settings of these %d runs are valid; nothing was run.", len(configs))
            sys.exit()
        folders, slots = self._folders(), self._slots()
        if self.fork and not self.parent and initial_job_idx + len(configs) > 1:
            self.parent = self.children.parent = self._parent(configs)
        progress = Progress(len(configs), self.n_jobs)

        def run(number: int, overrides: Sequence[str], config: DictConfig) -> "Outcome":
            slot = slots.get()
            try:
                outcome = self._run(number, [*overrides], config, folders, slot)
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
        """The configs of all jobs, compared with what they may be."""
        from elmo_bench.schema import faults

        load = self.hydra_context.config_loader.load_sweep_config
        configs = [load(self.config, [*overrides]) for overrides in job_overrides]
        if wrong := dict.fromkeys(line for config in configs for line in faults(config)):
            raise CompactHydraException("\n".join(wrong))
        return configs

    def _folders(self) -> "RunFolders":
        """The folders of all launches; what other runs have left is looked for anew."""
        from elmo_bench.launch import RunFolders

        if self.folders is None:
            folder = Path(self.config.hydra.sweep.dir).absolute()
            folder.mkdir(parents=True, exist_ok=True)
            outputs = Path(self.config.outputs_dir).absolute()
            self.folders = RunFolders(folder, outputs, resume=self.config.resume)
        self.folders.search()
        return self.folders

    def _parent(self, configs: Sequence[DictConfig]) -> "Parent | None":
        """What the runs may be forked from; None where each has to start by itself.

        macOS's own libraries forbid forks, Windows has none, and `env_set` comes too late for what
        has been imported.
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

    def _slots(self) -> "queue.SimpleQueue[str | None]":
        """What the runs that go side by side have each: a GPU, or None."""
        from elmo_bench.launch import gpus

        devices = gpus() if self.n_jobs > 1 and not self.prefix else []
        slots: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        for number in range(self.n_jobs):
            slots.put(devices[number % len(devices)] if devices else None)
        return slots

    def _run(
        self,
        number: int,
        overrides: list[str],
        config: DictConfig,
        folders: "RunFolders",
        gpu: str | None,
    ) -> "Outcome":
        """Run one, unless the sweep was stopped, has the same run already, or it is finished."""
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
            command, environment = self.command(overrides, run_dir), self.environment(gpu)
            code = self.children.run(command, environment, output)
        seconds = time.perf_counter() - begun
        # Where nobody can tell how it ended, its result may: that is written last.
        if code == 0 or (code is None and (run_dir / "result.json").is_file()):
            return Outcome(overrides, "done", seconds, folder=run_dir)
        if self.children.stopped:
            return Outcome(overrides, "stopped", seconds, str(run_dir), left=run_dir)
        said = failure_sentence(error) if error.is_file() else ""
        reason = f"{said or exit_status(code)} ({run_dir})"
        return Outcome(overrides, "failed", seconds, reason, left=run_dir)

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
        """Those of Hydra's own settings as they were typed: they may refer to what a run alone
        has.
        """
        given: Any = OmegaConf.to_container(self.config.hydra.overrides.hydra)
        return given

    def environment(self, gpu: str | None) -> dict[str, str]:
        """The variables of a run, its share of the machine among them; the sweep is its W&B
        group.
        """
        from elmo_bench.launch import environment

        folder = Path(self.config.hydra.sweep.dir)
        shares = 1 if self.prefix else self.n_jobs
        return environment(shares, gpu, f"{folder.parent.name}/{folder.name}")


def script() -> Path:
    """What was started, and each run is a command of."""
    return Path(sys.argv[0]).resolve()


def resuming(command: Sequence[str]) -> str:
    """The command that resumes a sweep, as a shell reads it, from the words that began it.

    >>> resuming(["run.py", "-m", "elmo.mix=all,[0,1]", "resume=false"])
    "python run.py -m 'elmo.mix=all,[0,1]' resume=true"
    """
    script, *settings = command
    settings = [word for word in settings if not word.startswith("resume=")]
    begin = ["python", script] if script.endswith(".py") else [Path(script).name]
    return shlex.join([*begin, *settings, "resume=true"])


def quoted(value: str) -> str:
    """A value as Hydra's grammar reads it whole."""
    return "'" + value.replace("'", "\\'") + "'"


def returned(outcome: "Outcome", error: CompactHydraException) -> JobReturn:
    """What Hydra is told of a run."""
    from elmo_bench.runs import dev_figure

    if outcome.folder is None:
        return JobReturn(overrides=outcome.overrides, status=JobStatus.FAILED, _return_value=error)
    return JobReturn(
        overrides=outcome.overrides,
        status=JobStatus.COMPLETED,
        _return_value=dev_figure(outcome.folder),
    )
