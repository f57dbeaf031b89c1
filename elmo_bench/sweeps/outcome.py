"""What came of the runs of a sweep: for Hydra, and as a table for people."""

import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hydra.core.utils import JobReturn, JobStatus
from rich.console import Console
from rich.table import Table

from elmo_bench.runs import read_run
from elmo_bench.terminal import plain

HINTS: dict[int, str] = {
    signal.SIGKILL: ", which the system sends when memory runs out",
    signal.SIGTERM: ", which SLURM sends at the time limit",
}


@dataclass
class Outcome:
    """A run of a sweep, whose files are in `folder`; `reason` says why it has no result."""

    overrides: list[str]
    status: str = "not started"
    is_done: bool = False
    seconds: float = 0.0
    reason: str = "the sweep was stopped"
    folder: Path | None = None


class Returned(JobReturn):
    """The outcome of a run for Hydra; of a failed one, its own class would write another line."""

    @property  # type: ignore[misc]
    def return_value(self) -> Any:
        if self.status == JobStatus.FAILED:
            raise self._return_value
        return self._return_value


def returned(outcome: Outcome, error: ValueError) -> JobReturn:
    """The outcome for Hydra: the monitored dev score, as a fraction of 1; None without a model."""
    if not outcome.is_done or outcome.folder is None:
        return Returned(outcome.overrides, status=JobStatus.FAILED, _return_value=error)
    score = None
    path = outcome.folder / "result.json"
    if path.is_file():
        run = read_run(path)
        score = run.metrics.get(f"dev/{run.config['task']['monitor']}")
    return Returned(outcome.overrides, status=JobStatus.COMPLETED, _return_value=score)


def exit_status(code: int) -> str:
    """Return an exit status in words; it is negative or above 128 if a signal ended the process.

    >>> exit_status(255), exit_status(139)
    ('exit status 255', 'killed by signal 11')
    >>> exit_status(-9)
    'killed by signal 9, which the system sends when memory runs out'
    """
    number = code - 128 if code > 128 else -code
    if number not in range(1, signal.NSIG):
        return f"exit status {code}"
    return f"killed by signal {number}{HINTS.get(number, '')}"


def parted(jobs: Mapping[int, Sequence[str]]) -> tuple[str, dict[int, str]]:
    """Return the overrides that all of several jobs share, and the others of each.

    >>> parted({0: ["task=ner", "seed=1"], 1: ["task=ner", "seed=2"]})
    ('task=ner', {0: 'seed=1', 1: 'seed=2'})
    """
    first = next(iter(jobs.values()))
    shared = list(first) if len(jobs) > 1 else []
    for overrides in jobs.values():
        shared = [override for override in shared if override in overrides]
    own = dict[int, str]()
    for number, overrides in jobs.items():
        own[number] = " ".join(override for override in overrides if override not in shared)
    return " ".join(shared), own


def print_outcomes(outcomes: Mapping[int, Outcome]) -> None:
    """Print a table of runs: number, overrides that differ among runs, status, seconds, reason."""
    _, own = parted({number: outcome.overrides for number, outcome in outcomes.items()})
    table = Table("", "run", "", "seconds", "")
    for number, outcome in outcomes.items():
        table.add_row(
            str(number),
            plain(own[number]),
            outcome.status,
            f"{outcome.seconds:.0f}",
            plain(outcome.reason),
            style="" if outcome.is_done else "red",
        )
    Console(markup=False, emoji=False).print(table)
