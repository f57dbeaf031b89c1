"""`error.txt`: what a run that fails leaves in its folder."""

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from elmo_bench import signals


@contextmanager
def leaves_error(run_dir: str | None) -> Iterator[None]:
    """Make the folder of a run, and write the traceback of an exception to its error.txt.

    An earlier run's error.txt goes. That of another process of this run stays: of several processes
    the first that fails says why.
    """
    started, path = time.time(), Path(run_dir, "error.txt") if run_dir else None
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_mtime < started:
            path.unlink(missing_ok=True)
    try:
        yield
    except Exception:
        signals.outlive_parent()
        from elmo_bench.files import atomic  # a command that succeeds does not wait for it

        if path and path.parent.is_dir() and not path.exists():
            # The disk is full, say: what failed is told all the same.
            with suppress(OSError), atomic(path) as part:
                part.write_text(traceback.format_exc(), encoding="utf-8")
        raise
