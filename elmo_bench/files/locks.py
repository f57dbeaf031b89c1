"""Locks between processes on any machine: a file beside what is worked on."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

log = logging.getLogger(__name__)


@contextmanager
def alone(path: str | Path, waiting: str) -> Iterator[None]:
    """Hold `path`.lock; if another process on any machine holds it, log `waiting` and wait."""
    if is_taken(path):
        log.info(waiting)
    with FileLock(f"{path}.lock"):
        yield


def is_taken(path: str | Path) -> bool:
    """Whether another process holds the lock of a path in `alone`."""
    if not Path(f"{path}.lock").is_file():
        return False
    try:
        with FileLock(f"{path}.lock", timeout=0):
            return False
    except Timeout:
        return True


@contextmanager
def sole(path: str | Path, what: str, *, marks: bool = False) -> Iterator[None]:
    """Hold `path`.lock; raise OSError, which begins with `what`, if another process holds it.

    The lock file is deleted after the block. With `marks`, it stays if the block fails, as a mark
    of unfinished work.
    """
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        raise OSError(
            f"{what}: another process holds {path}.lock and is writing to it; wait until it ends, "
            "or choose another name"
        ) from error
    try:
        yield
        marks = False
    finally:
        if not marks:
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
