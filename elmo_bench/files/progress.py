"""Progress of long work: a bar in a terminal, otherwise a line in the log once a minute."""

import logging
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from rich.progress import Progress, TaskID

from .words import duration

log = logging.getLogger(__name__)
T = TypeVar("T")
PAUSE = 60.0  # seconds between two lines


class Lines:
    """Logs a line at most once a minute, and none if standard error is a terminal."""

    def __init__(self) -> None:
        self.begun = self.said = time.monotonic()
        self.before: int | float | None = None  # amount of work done at the first call

    def at(self, work: str, done: int | float, total: int | float | None) -> None:
        """So much of the `total`, where that is known, is done."""
        now = time.monotonic()
        if self.before is None:
            self.before = done
        if now - self.said < PAUSE or sys.stderr.isatty():
            return
        self.said = now
        log.info(self.line(work, done, total))

    def line(self, work: str, done: int | float, total: int | float | None) -> str:
        """Return the line, which says how long the rest will take."""
        new = done - (self.before or 0)
        return _line(work, done, total, time.monotonic() - self.begun, new)


def _line(
    work: str, done: int | float, total: int | float | None, seconds: float, new: int | float
) -> str:
    """How far the work is, and how long the rest takes if `new` of it took so many seconds.

    >>> _line("training", 30, 120, 60.0, 20)
    'training: 30 of 120, about 4.5 minutes left'
    """
    if total is None:
        return f"{work}: {done:,.0f} so far"
    left = f", about {duration(seconds * (total - done) / new)} left" if new > 0 else ""
    return f"{work}: {done:,.0f} of {total:,.0f}{left}"


class Bars(Progress):
    """The bars of rich; without a terminal it would be silent until the end."""

    def __init__(self, *columns: Any, **settings: Any) -> None:
        super().__init__(*columns, **settings)
        self.lines: dict[TaskID, Lines] = {}

    def add_task(self, *about: Any, **settings: Any) -> TaskID:
        task = super().add_task(*about, **settings)
        self.lines[task] = Lines()
        self._say(task)
        return task

    def advance(self, task_id: TaskID, advance: int | float = 1) -> None:
        super().advance(task_id, advance)
        self._say(task_id)

    def update(self, task_id: TaskID, **changes: Any) -> None:
        super().update(task_id, **changes)
        self._say(task_id)

    def line(self, number: TaskID) -> str:
        """Return how far a task is, and how long the rest takes."""
        task = self._tasks[number]
        return self.lines[number].line(task.description, task.completed, task.total)

    def _say(self, number: TaskID) -> None:
        task = self._tasks[number]
        if not self.disable:
            self.lines[number].at(task.description, task.completed, task.total)


def watched(work: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yield the items and show a bar; `total` is needed if the work has no length."""
    with Bars() as bars:
        yield from bars.track(work, total=total, description=description)


def counted(work: Sequence[T], description: str) -> Iterator[T]:
    """Yield the items and log lines, for use while another bar is shown, or standard output has
    results.
    """
    lines = Lines()
    for number, item in enumerate(work):
        lines.at(description, number, len(work))
        yield item
