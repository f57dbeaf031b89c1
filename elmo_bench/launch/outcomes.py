"""The outcomes of a sweep's runs: status, progress and summary table."""

import signal
import statistics
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from elmo_bench.files import duration


@dataclass
class Outcome:
    """The outcome of a run.

    `reason` says why it failed or was not started. `folder` has its result, or `left` what a failed
    run wrote. `same_as` is the number of an earlier run with the same settings.
    """

    overrides: list[str]
    status: str
    seconds: float = 0.0
    reason: str = ""
    folder: Path | None = None
    same_as: int | None = None
    left: Path | None = None

    def share(self, first: "Outcome") -> None:
        """Take over the outcome of an earlier run with the same settings."""
        self.folder, self.reason = first.folder, "" if first.folder else first.reason


class Progress:
    """The progress of a sweep; thread-safe."""

    def __init__(self, runs: int, at_once: int) -> None:
        self.runs, self.at_once = runs, at_once
        self.lock, self.ended, self.seconds = threading.Lock(), 0, list[float]()

    def line(self, number: int, outcome: Outcome) -> str:
        """Return the progress line for a run that has ended: how many have, and the time left.

        Empty for the last run, and for runs that took no time.
        """
        with self.lock:
            self.ended += 1
            if outcome.seconds:
                self.seconds.append(outcome.seconds)
            left = self.runs - self.ended
            if not outcome.seconds or not left:
                return ""
            rest = statistics.fmean(self.seconds) * left / min(self.at_once, left)
            return (
                f"#{number} {outcome.status} in {duration(outcome.seconds)}: {self.ended} of "
                f"{self.runs}, about {duration(rest)} left"
            )


def exit_status(code: int | None) -> str:
    """Return an exit status in words.

    `code` is negative or above 128 if a signal ended the process, and None if nobody knows.
    """
    if code is None:
        return "its exit status is unknown: the process that forked it has ended"
    if code > 128:  # a signal, as shells and srun report it
        code = 128 - code
    hints: dict[int, str] = {
        signal.SIGKILL: ", which the system sends when memory runs out",
        signal.SIGTERM: ", which SLURM sends at the time limit",
    }
    return f"killed by signal {-code}{hints.get(-code, '')}" if code < 0 else f"exit status {code}"


def print_outcomes(outcomes: Mapping[int, Outcome]) -> None:
    """Print a table of runs: number, overrides that differ among runs, status, seconds, reason."""
    shared = (
        set.intersection(*({*outcome.overrides} for outcome in outcomes.values()))
        if len(outcomes) > 1
        else set()
    )
    from elmo_bench.files import plain

    table = Table("", "run", "", "seconds", "")
    for number, outcome in outcomes.items():
        own = " ".join(override for override in outcome.overrides if override not in shared)
        table.add_row(
            str(number),
            plain(own),
            outcome.status,
            f"{outcome.seconds:.0f}",
            plain(outcome.reason),
            style="" if outcome.folder else "red",
        )
    Console(markup=False, emoji=False).print(table)
