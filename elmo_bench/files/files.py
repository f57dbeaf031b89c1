"""Write files completely or not at all, and find those that are complete."""

import fcntl
import fnmatch
import glob
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

log = logging.getLogger(__name__)


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """Yield a scratch path for the file or small folder `path`, which is renamed if the block
    succeeds.

    The scratch path has the same name, in a hidden folder next to `path` that is always removed;
    one left by a killed process is removed when the same path is written again. A file replaces an
    existing file; an existing folder is kept, since another process was faster. Raises OSError,
    which names `path`, if its folder does not exist or cannot be written to, or the disk is full.
    """
    path = Path(path)
    with scratch_path(path) as scratch:
        try:
            yield scratch
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
    files, seen = list[Path](), set[str]()
    for inside, folders, names in os.walk(folder, onerror=_log_unread, followlinks=True):
        if (real := os.path.realpath(inside)) in seen:  # a link, perhaps to a folder above it
            folders.clear()
            continue
        seen.add(real)
        folders.sort()
        for name in fnmatch.filter(names, pattern):
            if not Path(inside).name.startswith(f".{name}-"):
                files.append(Path(inside, name))
    return sorted(files)


def _log_unread(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):  # it has just gone
        log.warning(
            "%s cannot be read: its files are left out (%s)", error.filename, error.strerror
        )


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
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def write_text(path: str | Path, text: str) -> None:
    """Write a text in UTF-8, atomically."""
    with atomic(path) as part:
        part.write_text(text, encoding="utf-8")


def write_json(path: str | Path, content: Any) -> None:
    """Write plain data as JSON, atomically."""
    write_text(path, json.dumps(content, indent=2) + "\n")
