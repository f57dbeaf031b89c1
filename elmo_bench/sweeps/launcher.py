"""Hydra's launcher of sweeps: each run is a process of its own, as if started by hand.

A run that fails or is killed does not affect the others, and a run may use several devices
(`trainer.devices`). Hydra's own launcher runs a whole sweep in one process, whose distributed
process group would outlive the run that created it. Hydra finds this launcher by
`hydra_plugins/processes.py`, and imports it at every start.
"""

import contextlib
import itertools
import logging
import re
import shlex
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NamedTuple

from hydra.core.utils import JobReturn, configure_log
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from elmo_bench import CONF
from elmo_bench.runs import failure_sentence, finished, key_of, settings_digest, unfinished
from elmo_bench.settings import machine
from elmo_bench.settings.check import about_sweep, expand_home, faults, not_installed
from elmo_bench.settings.command import quoted
from elmo_bench.settings.earlier import same_run
from elmo_bench.settings.inputs import check_present
from elmo_bench.terminal import counted_noun, duration, signals

from . import processes
from .outcome import Outcome, exit_status, parted, print_outcomes, returned
from .sides import Pace, in_turns, side_of

log = logging.getLogger(__name__)
# Settings of the sweep that are not passed to its runs.
OURS = ("hydra.mode", "hydra.sweep", "hydra/sweeper", "hydra.launcher", "hydra/launcher")
OVERRIDDEN = re.compile(r"^ *- override /?hydra/(launcher|sweeper): *(\w+)", re.M)


class Started(NamedTuple):
    """A process of a run: the run's number, its share of the GPUs, and when it began."""

    number: int
    slot: str | None
    begun: float


class ProcessLauncher(Launcher):
    """Runs `n_jobs` processes at a time, which share the cores and GPUs of the machine.

    `prefix`, such as `srun --ntasks=1`, is put before each command; cores and GPUs are then left to
    the command of the prefix. Without a prefix and with `fork`, runs are forked from a process with
    their imports done, if the system supports it.
    """

    def __init__(self, n_jobs: int, prefix: str = "", fork: bool = True) -> None:
        self.n_jobs = n_jobs
        self.asked = prefix
        self.fork = fork
        self.prefix: list[str] = []
        # Shared by all launches: sweepers that search launch several times.
        self.processes = processes.Processes()
        self.outcomes: dict[int, Outcome] = {}
        self.numbers: dict[str, int] = {}  # number of the first run with these settings
        self.sides: dict[int, str] = {}  # by number of the run
        self.pace = Pace()
        self.later = 0  # number of runs whose settings these runs choose

    def setup(
        self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig
    ) -> None:
        self.hydra_context = hydra_context
        self.config = config
        self.check()

    def check(self) -> None:
        """Check the settings once for all runs; Hydra would wrap what the constructor raises."""
        if not isinstance(self.n_jobs, int) or self.n_jobs < 1:
            raise ValueError(f"hydra.launcher.n_jobs={self.n_jobs}, but it must be 1 or more")
        if not isinstance(self.fork, bool):
            raise ValueError(f"hydra.launcher.fork={self.fork}, but it must be true or false")
        if not (self.asked or self.config.get("oversubscribe")):
            machine.check_cores("hydra.launcher.n_jobs", self.n_jobs)
        for override in self.overrides():
            if override.startswith("hydra.sweep.subdir="):
                raise ValueError("hydra.sweep.subdir cannot be changed: runs have numbered folders")
        given = dict[str, str]()
        for override in self.config.hydra.overrides.task:
            key, _, value = override.partition("=")
            given[key_of(key)] = value
        if "run_dir" in given:
            raise ValueError(
                "run_dir=FOLDER would be the folder of all runs: set outputs_dir=FOLDER"
            )
        _check_sweeps(given)
        try:
            self.prefix = shlex.split(str(self.asked))
        except ValueError as error:
            raise ValueError(f"hydra.launcher.prefix={self.asked}: {error}") from error
        if self.prefix and shutil.which(self.prefix[0]) is None:
            raise ValueError(
                f"hydra.launcher.prefix={self.asked}, but there is no command {self.prefix[0]}"
            )

    def launch(
        self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int
    ) -> Sequence[JobReturn]:
        """Run all jobs and print a table of outcomes.

        A job returns its score on dev, for sweepers that search. A failed job returns a
        ValueError, which Hydra's own sweeper raises when all jobs are done.
        """
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        configs = self.composed(job_overrides)
        jobs = dict[int, list[str]]()
        for number, overrides in enumerate(job_overrides, initial_job_idx):
            jobs[number] = list(overrides)
        for line in self._unread_launchers():
            log.warning(line)
        shared, _ = parted(jobs)
        if shared:
            log.info("all runs: %s", shared)
        if self.config.get("dry_run"):
            self._dry_run(jobs, configs)
        self._check_machine(configs)
        self._run_all(jobs, configs)
        print_outcomes(self.outcomes)
        outcomes = [self.outcomes[number] for number in jobs]
        failed = [outcome for outcome in outcomes if not outcome.is_done]
        advice = (
            f"{len(failed)} of {len(outcomes)} runs did not finish; the same command with "
            "resume=true runs them"
        )
        if self.processes.stopped and failed:
            log.info(advice)
            raise signals.Stopped(128 + self.processes.signal)
        return [returned(outcome, ValueError(advice)) for outcome in outcomes]

    def composed(self, job_overrides: Sequence[Sequence[str]]) -> list[DictConfig]:
        """The configs of all jobs; raises ValueError if any has invalid settings."""
        load = self.hydra_context.config_loader.load_sweep_config
        configs = list[DictConfig]()
        for overrides in job_overrides:
            config = load(self.config, list(overrides))
            expand_home(config)
            configs.append(config)
        if not self.config.get("dry_run"):  # it imports while the settings are checked
            self.processes.serve(self.environment(None), self._modules(configs))
        for kind in (faults, not_installed):
            messages = dict[str, None]()  # each once
            for config in configs:
                messages |= dict.fromkeys(kind(config))
            if messages:
                raise ValueError("\n".join(messages))
        return configs

    def _unread_launchers(self) -> Iterator[str]:
        """Yield a line for each option whose file chooses a launcher or a sweeper, which Hydra
        leaves out: config.yaml has chosen one.
        """
        runtime = self.config.hydra.get("runtime") or {}
        choices = runtime.get("choices") or {}
        sources = runtime.get("config_sources") or ()
        folders = [source.path for source in sources if source.schema == "file"]
        for group in ("experiment", "recipe", "data", "task", "trainer"):
            option = choices.get(group)
            for folder in folders:
                path = Path(folder, group, f"{option}.yaml")
                text = path.read_text(encoding="utf-8") if path.is_file() else ""
                for kind, name in OVERRIDDEN.findall(text):
                    if choices.get(f"hydra/{kind}") != name:
                        yield (
                            f"{group}={option} has hydra/{kind}: {name}, which is not read there: "
                            f"add hydra/{kind}={name} to the command"
                        )

    def _check_machine(self, configs: Sequence[DictConfig]) -> None:
        """Raise ValueError or OSError for what runs would not find here: files, a GPU. With a
        prefix they may be on another machine.
        """
        seen = set[str]()
        for config in configs:
            if self.prefix or OmegaConf.select(config, "job.name") != "train":
                continue
            chosen = [str(key) for key in config if key not in ("hydra", "run_dir", "seed")]
            settings = OmegaConf.to_yaml(OmegaConf.masked_copy(config, chosen))
            if settings not in seen:
                seen.add(settings)
                check_present(config)
                if config.trainer.accelerator in ("gpu", "cuda"):
                    from elmo_bench.build.hardware import device  # imports torch and Lightning

                    device(config)

    def _dry_run(self, jobs: Mapping[int, list[str]], configs: Sequence[DictConfig]) -> None:
        """Log the jobs, and what they would read and keep; then exit."""
        from elmo_bench.build import dry_run  # imports torch

        _, own = parted(jobs)
        for number, overrides in own.items():
            log.info("#%d  %s", number, overrides)
        folder = self._folder()
        settings = folder / "multirun.yaml"
        with contextlib.suppress(OSError):  # what Hydra has created for the sweep
            if list(folder.iterdir()) == [settings]:
                settings.unlink()
                folder.rmdir()
        for line in dry_run.lines(configs):
            log.info(line)
        for line in about_sweep(self.config):
            log.info(line)
        log.info("%s: the settings are valid; nothing was run.", counted_noun(len(configs), "run"))
        if self.later:
            log.info("%d runs with the settings that dev selects would follow.", self.later)
        sys.exit()

    def _run_all(self, jobs: Mapping[int, list[str]], configs: Sequence[DictConfig]) -> None:
        """Run the jobs, `n_jobs` at a time, and keep their outcomes."""
        same, waiting = self._plan(jobs, configs)
        modules = self._modules(configs)
        slots = self._slots()
        running = dict[BaseProcess, Started]()
        num_new = len(waiting)
        _, own = parted(jobs)
        log.info("%d runs, %d at a time: %s", len(jobs), self.n_jobs, self._folder())
        with self.processes.stopped_by_signals():
            while waiting or running:
                while waiting and slots and not self.processes.stopped:
                    number = waiting.pop(0)
                    log.info("#%d  %s", number, own[number])
                    process = self._start(number, slots[0], modules)
                    if process:
                        running[process] = Started(number, slots.pop(0), time.perf_counter())
                for process in self.processes.ended():
                    started = running.pop(process)
                    slots.append(started.slot)
                    self._end(started, process.exitcode)
                    others = waiting + [other.number for other in running.values()]
                    self._log_end(started.number, others, num_new)
                if self.processes.stopped:
                    waiting.clear()
        for number, first in same.items():
            same_as = replace(self.outcomes[first], overrides=jobs[number], seconds=0.0)
            same_as.status = f"same run as #{first}"
            self.outcomes[number] = same_as

    def _plan(
        self, jobs: Mapping[int, list[str]], configs: Sequence[DictConfig]
    ) -> tuple[dict[int, int], list[int]]:
        """Return by job the first with its settings, and the jobs to run, new or to be resumed, in
        the order in which they start.
        """
        searched = [self._folder(), Path(self.config.outputs_dir).absolute()]
        if not self.config.resume:
            searched = []
        finished_runs = finished(searched)
        killed_runs = unfinished(searched)
        same = dict[int, int]()
        waiting = set[int]()
        for number, config in zip(jobs, configs, strict=True):
            outcome = Outcome(jobs[number])
            self.outcomes[number] = outcome
            self.sides[number] = side_of(config)
            first = self.numbers.setdefault(settings_digest(config), number)
            if first != number:
                same[number] = first
                continue
            folder = same_run(config, finished_runs)
            if folder:
                outcome.status = "finished before"
                outcome.is_done = True
                outcome.folder = folder
                outcome.reason = str(folder)
                continue
            killed = same_run(config, killed_runs)
            taken = [other.folder for other in self.outcomes.values()]
            if killed not in taken:
                outcome.folder = killed
            waiting.add(number)
        order = in_turns({number: self.sides[number] for number in jobs})
        return same, [number for number in order if number in waiting]

    def _modules(self, configs: Sequence[DictConfig]) -> list[str] | None:
        """The modules that forked runs have imported; None if runs may not be forked.

        Only ours: those of users may not survive a fork. macOS's system libraries do not, Windows
        has no fork, and `env_set` would come after the imports.
        """
        env_set = self.config.hydra.job.env_set
        if not self.fork or sys.platform != "linux" or self.prefix or env_set:
            return None
        modules = list[str]()
        for config in configs:
            for key in ("job", "encoder"):
                target = (config.get(key) or {}).get("_target_", "")
                module = target.rpartition(".")[0]
                if module.startswith("elmo_bench.") and module not in modules:
                    modules.append(module)
        return modules

    def _folder(self) -> Path:
        return Path(self.config.hydra.sweep.dir).absolute()

    def _slots(self) -> list[str | None]:
        """One slot for each run at a time: the numbers of its share of the GPUs, or None."""
        gpus = machine.gpus() if self.n_jobs > 1 and not self.prefix else []
        size = max(1, len(gpus) // self.n_jobs)
        dealt = itertools.cycle(gpus)
        slots = list[str | None]()
        for _ in range(self.n_jobs):
            share = ",".join(itertools.islice(dealt, size))
            slots.append(share or None)
        return slots

    def _start(self, job: int, gpus: str | None, modules: list[str] | None) -> BaseProcess | None:
        """Start a run in its folder, new or of a killed run; None if that fails."""
        outcome = self.outcomes[job]
        try:
            folder = outcome.folder or self._new_folder(job)
            outcome.folder = folder
            (folder / "error.txt").unlink(missing_ok=True)
            output = folder / "output.txt" if self.n_jobs > 1 else None
            command = self.command(outcome.overrides, folder)
            return self.processes.start(command, self.environment(gpus), output, modules)
        except (OSError, EOFError) as error:
            outcome.status = "failed"
            outcome.reason = str(error) or "its process did not start"
            return None

    def _new_folder(self, number: int) -> Path:
        """Make the folder of this number or, if there is one, as of another sweep, of the next."""
        while True:
            folder = self._folder() / str(number)
            try:
                folder.mkdir(parents=True)
                return folder
            except FileExistsError:
                number += 1

    def _end(self, started: Started, code: int | None) -> None:
        """Note what came of a run that has ended, and how long it took."""
        outcome = self.outcomes[started.number]
        outcome.seconds = time.perf_counter() - started.begun
        self.pace.add(self.sides[started.number], outcome.seconds)
        outcome.is_done = code == 0
        if outcome.is_done:
            outcome.status = "done"
            outcome.reason = ""
        elif self.processes.stopped:
            outcome.status = "stopped"
            outcome.reason = str(outcome.folder)
        else:
            error = Path(str(outcome.folder), "error.txt")
            message = failure_sentence(error) if error.is_file() else ""
            message = message.removeprefix("ValueError: ").removeprefix("FileNotFoundError: ")
            outcome.status = "failed"
            outcome.reason = f"{message or exit_status(code or 0)} ({outcome.folder})"

    def _log_end(self, number: int, others: Sequence[int], num_new: int) -> None:
        """Log that a run has ended, and how long these `others`, of `num_new` in all, will take."""
        outcome = self.outcomes[number]
        sides = [self.sides[other] for other in others]
        left = self.pace.left(sides, self.n_jobs)
        log.info(
            "#%d %s in %s; runs: %s of %s%s",
            number,
            outcome.status,
            duration(outcome.seconds),
            f"{num_new - len(others):,}",
            f"{num_new:,}",
            f", {left}" if left else "",
        )

    def command(self, overrides: list[str], run_dir: Path) -> list[str]:
        """The command of a single run, with the prefix."""
        hydra = self.config.hydra
        options = {"main": "--config-path", "command-line": "--config-dir"}
        words = list(self.prefix)
        words += [sys.executable, script()]
        for source in hydra.runtime.config_sources:
            if source.provider in options:
                words += [options[source.provider], source.path]
        words += ["--config-name", hydra.job.config_name]
        words += overrides
        for override in self.overrides():
            if not override.lstrip("+~").startswith(OURS):
                words.append(override)
        words += [f"hydra.run.dir={quoted(str(run_dir))}", "hydra.mode=RUN"]
        return words

    def overrides(self) -> list[str]:
        """The overrides of Hydra's settings as typed: only a run can resolve their references."""
        typed: Any = OmegaConf.to_container(self.config.hydra.overrides.hydra)
        return typed

    def environment(self, gpus: str | None) -> dict[str, str]:
        """The environment of a run, with its share of the machine and the sweep as W&B group."""
        folder = Path(self.config.hydra.sweep.dir)
        shares = 1 if self.prefix else self.n_jobs
        return processes.environment(shares, gpus, f"{folder.parent.name}/{folder.name}")


def _check_sweeps(given: Mapping[str, str]) -> None:
    """Raise ValueError if two of the chosen sweeps have a key with different values, of which Hydra
    would take the last, and the command does not have it.
    """
    chosen = given.get("sweep", "").strip("[]").split(",")
    first: dict[str, tuple[str, str]] = {}
    for name in map(str.strip, chosen):
        path = CONF / "sweep" / f"{name}.yaml"
        whole: Any = OmegaConf.to_container(OmegaConf.load(path)) if path.is_file() else {}
        params = whole.get("hydra", {}).get("sweeper", {}).get("params", {})
        for key in params.keys() - given.keys():
            other, values = first.setdefault(key, (name, params[key]))
            if values != params[key]:
                raise ValueError(
                    f"sweep={other} has {key}={values}, and sweep={name} {key}={params[key]}: give "
                    f"{key}=VALUES, or only one of these sweeps"
                )


def script() -> str:
    """The script that was started, which also starts each run."""
    return str(Path(sys.argv[0]).resolve())
