"""Write files completely or not at all, find those that are complete, lock what is worked on
against other processes on any machine, by a file beside it, and protect files from being
overwritten: a job only replaces its own earlier output.
"""

import fcntl
import fnmatch
import glob
import json
import logging
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

log = logging.getLogger(__name__)
WITHIN = 1_000_000  # bytes at the beginning of a file, which identify its writer


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a scratch path for the file or small folder `path`, which is renamed if the block
    succeeds; a file is on the disk then.

    The scratch path has the same name, in a hidden folder next to `path` that is always removed;
    one left by a killed process is removed when the same path is written again. A file replaces an
    existing file; an existing folder is kept, since another process was faster. Raises OSError,
    which names `path`, if its folder does not exist or cannot be written to, or the disk is full.
    """
    path = Path(path)
    with scratch_path(path) as scratch:
        try:
            yield scratch
            if scratch.is_file():  # first its content, then its name
                with scratch.open("rb") as file:
                    os.fsync(file.fileno())
        except OSError as error:
            if error.filename is not None or error.errno is None:
                raise
            raise OSError(error.errno, os.strerror(error.errno), str(path)) from error
        try:
            scratch.replace(path)
        except OSError:
            if not (scratch.is_dir() and path.is_dir()):
                raise


@contextmanager
def scratch_path(path: Path) -> Iterator[Path]:
    """Yield a path named like `path` in a hidden folder next to it, which is always removed.

    A lock distinguishes the folder from those of killed processes, which are removed. Raises
    OSError, which names `path`, if the folder cannot be made.
    """
    remove_scratch(path.parent, glob.escape(path.name))
    held = None
    while held is None:  # another process may just have removed the folder
        try:
            folder = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        held = hold(folder)
    try:
        yield folder / path.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(held)


def remove_scratch(folder: Path, name: str = "*") -> None:
    """Remove the scratch files that killed processes left in `folder`; `name` is a pattern."""
    for scratch in folder.glob(f".{name}-????????"):
        with suppress(OSError):  # not a folder, or another process is removing it
            # A user's hidden folder with such a name would contain other files.
            if {path.name for path in scratch.iterdir()} <= {scratch.name[1:-9]}:
                remove_unheld(scratch)


def find_files(folder: str | Path, pattern: str) -> list[Path]:
    """Return the files in or below a folder whose names match a pattern, sorted.

    Those that `atomic` has not finished are no files yet. Linked folders are searched, each once;
    a folder that cannot be read is named in the log.
    """
    files = list[Path]()
    seen = set[str]()
    for inside, folders, names in os.walk(folder, onerror=_log_unread, followlinks=True):
        real = os.path.realpath(inside)
        if real in seen:  # a link, perhaps to a folder above it
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        for name in fnmatch.filter(names, pattern):
            if not Path(inside).name.startswith(f".{name}-"):
                files.append(Path(inside, name))
    return sorted(files)


def _log_unread(lost: OSError) -> None:
    if not isinstance(lost, FileNotFoundError | NotADirectoryError):  # it has just gone
        log.warning("%s cannot be read: its files are left out (%s)", lost.filename, lost.strerror)


def hold(folder: Path) -> int | None:
    """Return a descriptor that protects a folder from `remove_unheld`; None if it has gone."""
    try:
        held = os.open(folder, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with suppress(OSError):  # file systems without locks: `remove_unheld` removes nothing there
        fcntl.flock(held, fcntl.LOCK_SH)
    if folder.is_dir() and os.path.samestat(os.fstat(held), folder.stat()):
        return held
    os.close(held)
    return None


def remove_unheld(folder: Path) -> bool:
    """Delete a folder that no process holds; return whether it was deleted."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder)
            return True
        finally:
            os.close(descriptor)
    return False


def size_of(path: Path) -> int:
    """Return the bytes of a file, or of all files below a folder; others may be deleting some."""
    files = [path]
    if path.is_dir():
        files = [Path(folder, name) for folder, _, names in os.walk(path) for name in names]
    size = 0
    for file in files:
        with suppress(OSError):
            size += file.stat().st_size
    return size


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8, atomically."""
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: str | Path, content: Any) -> None:
    """Write plain data as JSON, atomically."""
    write_text(path, json.dumps(content, indent=2) + "\n")


@contextmanager
def alone(path: str | Path, waiting: str) -> Iterator[None]:
    """Hold `path`.lock, in a folder made for it; if another process on any machine holds it, log
    `waiting` and wait.
    """
    if is_taken(path):
        log.info(waiting)
    with FileLock(f"{path}.lock"):
        yield


@contextmanager
def alone_for_now(path: str | Path, waiting: str) -> Iterator[None]:
    """As `alone`, for a folder of the user: afterwards the lock is gone, and so are folders that
    were made for it, where they are empty.

    While others wait, a process that comes later may work, too, so that the result must be written
    atomically. Raises OSError if nothing can be written there.
    """
    folders = Path(path).absolute().parents
    made = [folder for folder in folders if not folder.exists()]
    try:
        with alone(path, waiting):
            try:
                yield
            finally:
                Path(f"{path}.lock").unlink(missing_ok=True)
    finally:
        for folder in made:
            with suppress(OSError):  # it is not empty
                folder.rmdir()


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
    """Hold `path`.lock, in a folder made for it; raise OSError, which begins with `what`, if
    another process holds it.

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


def check_output(
    key: str, output: str | Path, inputs: Mapping[str, str | None], is_own: Callable[[Path], bool]
) -> None:
    """Raise ValueError if `output` is one of the inputs (paths by key) under any name, or a file
    that `is_own` does not recognise; FileNotFoundError if its folder does not exist.
    """
    path = Path(output)
    if not path.absolute().parent.is_dir():
        raise FileNotFoundError(f"{key}={output}: no such folder; make it first")
    if path.is_dir():
        raise ValueError(f"{key}={output} is a folder: give a file name")
    if not path.exists():
        return
    for name, given in inputs.items():
        if given and Path(given).exists() and path.samefile(given):
            raise ValueError(
                f"{key}={output} is also {name}={given}, which would be overwritten: choose "
                "another name"
            )
    if path.stat().st_size and not is_own(path):
        raise ValueError(
            f"{key}={output} exists and was not written by this job: delete it, or choose another "
            "name"
        )


def begins(pattern: str) -> Callable[[Path], bool]:
    """Return a function that checks how a file begins; dots match everything."""

    def matches(path: Path) -> bool:
        with path.open("rb") as file:
            return re.match(pattern.encode(), file.read(WITHIN), re.DOTALL) is not None

    return matches
