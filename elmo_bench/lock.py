"""One process at a time, on one machine or several that share a file system."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

log = logging.getLogger(__name__)


@contextmanager
def alone(path: str | Path, waiting: str) -> Iterator[None]:
    """Hold `path`.lock; where another process has it, log `waiting` once and wait."""
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
