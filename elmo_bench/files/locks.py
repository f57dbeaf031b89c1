"""Locks between processes on any machine: a file beside what is worked on."""

import logging
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from .files import write_text

log = logging.getLogger(__name__)


@contextmanager
def alone(path: str | Path, waiting: str) -> Iterator[None]:
    """Hold `path`.lock; if another process on any machine holds it, log `waiting` and wait."""
    lock = FileLock(f"{path}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        log.info(waiting)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


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
    """Hold `path`.lock; raise OSError if another process holds it.

    The error begins with `what` and names the process and machine from `path`.owner. The lock file
    is deleted after the block. With `marks`, it stays if the block fails, as a mark of unfinished
    work.
    """
    lock, owner = FileLock(f"{path}.lock"), Path(f"{path}.owner")
    try:
        lock.acquire(timeout=0)
    except Timeout as error:
        try:
            holder = owner.read_text(encoding="utf-8")
        except (OSError, ValueError):  # the owner is just acquiring or releasing the lock
            holder = "another process"
        raise OSError(
            f"{what}: {holder} is writing to it; wait until it ends, or choose another name"
        ) from error
    try:
        write_text(owner, f"process {os.getpid()} on {socket.gethostname()}")
        yield
        marks = False
    finally:
        owner.unlink(missing_ok=True)
        if not marks:
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()
