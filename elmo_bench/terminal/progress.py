"""Progress of long work: a bar in a terminal, otherwise a line in the log once a minute."""

import logging
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

from rich.console import RenderableType
from rich.progress import Progress, TaskID

from .words import duration

log = logging.getLogger(__name__)
T = TypeVar("T")
PAUSE = 60.0  # seconds between two lines


class Lines:
    """Logs a line at most once a minute, and none if standard error is a terminal."""

    def __init__(self) -> None:
        self.begun = time.monotonic()
        self.logged = self.begun  # when the last line was
        self.before: int | float | None = None  # amount of work done at the first call

    def at(self, work: str, done: int | float, total: int | float | None) -> None:
        """So much of the `total`, where that is known, is done."""
        if self.before is None:
            self.before = done
        if time.monotonic() - self.logged >= PAUSE and not sys.stderr.isatty():
            self.logged = time.monotonic()
            log.info(self.line(work, done, total))

    def line(self, work: str, done: int | float, total: int | float | None) -> str:
        """Return the line, which says how long the rest will take."""
        if total is None:
            return f"{work}: {done:,.0f} so far"
        left = ""
        new = done - (self.before or 0)
        if new > 0 and done < total:
            seconds = (time.monotonic() - self.begun) * (total - done) / new
            left = f", about {duration(seconds)} left"
        return f"{work}: {done:,.0f} of {total:,.0f}{left}"


class Bars(Progress):
    """The bars of rich; without a terminal it would be silent until the end."""

    def __init__(self, *columns: Any, **settings: Any) -> None:
        self.lines: defaultdict[TaskID, Lines] = defaultdict(Lines)
        super().__init__(*columns, **settings)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Log what is due; rich calls this whenever it draws the bars, in a terminal or not."""
        for task in self.tasks:
            self.lines[task.id].at(task.description, task.completed, task.total)
        return super().get_renderables()


def watched(work: Iterable[T], description: str, total: int | None = None) -> Iterator[T]:
    """Yield the items and show a bar; `total` is needed if the work has no length."""
    with Bars() as bars:
        yield from bars.track(work, total=total, description=description)


def counted(work: Sequence[T], description: str) -> Iterator[T]:
    """Iterate, logging progress as text. Use if a bar is active or stdout carries results."""
    lines = Lines()
    for number, item in enumerate(work):
        lines.at(description, number, len(work))
        yield item
