"""Write files completely or not at all, by one process at a time; download missing files."""

import errno
import fcntl
import fnmatch
import glob
import hashlib
import logging
import os
import shutil
import socket
import tempfile
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any

from filelock import FileLock, Timeout

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
    while True:
        try:
            folder = tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error
        with folder as name:
            if (held := hold(Path(name))) is None:  # another process has just removed it
                continue
            try:
                yield Path(name, path.name)
            finally:
                os.close(held)
            return


def remove_scratch(folder: Path, name: str = "*") -> None:
    """Remove the scratch files that killed processes left in `folder`; `name` is a pattern."""
    for scratch in folder.glob(f".{name}-????????"):
        with suppress(OSError):  # not a folder, or another process is removing it
            # A user's hidden folder with such a name would contain other files.
            if {path.name for path in scratch.iterdir()} <= {scratch.name[1:-9]}:
                remove_unheld(scratch)


def found(folder: str | Path, pattern: str) -> list[Path]:
    """Return the files in or below a folder whose names match a pattern, sorted.

    Those that `atomic` has not finished are no files yet, and folders that go meanwhile, such as
    its scratch folders, are skipped. Linked folders are searched, each once; a folder that cannot
    be read is named in the log.
    """
    files, seen = list[Path](), set[tuple[int, int]]()
    for inside, folders, names in os.walk(folder, onerror=_unread, followlinks=True):
        with suppress(OSError):  # it has just gone
            about = Path(inside).stat()
            if (about.st_dev, about.st_ino) in seen:  # a link, perhaps to a folder above it
                folders.clear()
                continue
            seen.add((about.st_dev, about.st_ino))
        folders.sort()
        files += [
            Path(inside, name)
            for name in fnmatch.filter(names, pattern)
            if not Path(inside).name.startswith(f".{name}-")
        ]
    return sorted(files)


def _unread(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError | NotADirectoryError):
        log.warning(
            "%s cannot be read: its files are left out (%s)", error.filename, error.strerror
        )


def hold(folder: Path) -> int | None:
    """Return a descriptor that protects a folder from `remove_unheld` until it is closed; None if
    the folder no longer exists.
    """
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


def reserve(file: IO[bytes], size: int) -> None:
    """Reserve `size` bytes of disk space for a file, if the system supports it.

    Raises OSError if there is not enough space.
    """
    try:
        os.posix_fallocate(file.fileno(), 0, size)
    except AttributeError:
        pass  # not supported by this system
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP):  # not supported by the file system
            raise


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
        with atomic(owner) as part:
            part.write_text(f"process {os.getpid()} on {socket.gethostname()}", encoding="utf-8")
        yield
        marks = False
    finally:
        owner.unlink(missing_ok=True)
        if not marks:
            Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def corpus(
    files: Mapping[str, str],
    *,
    data_dir: str | Path,
    given: Collection[str] = (),
    origin: str = "",
    downloads: Mapping[str, Mapping[str, Any]] | None = None,
) -> dict[str, Path]:
    """Return the files of a corpus, plain or .gz; missing files are downloaded below `data_dir`.

    Args:
        files: the path of each split, relative to `data_dir` or to the working directory.
        data_dir: the folder of the corpora.
        given: splits with a path from the user, which is tried relative to the working directory
            first.
        origin: where the files come from and where they belong, for error messages.
        downloads: path -> `url` of the download and its `sha256`. If the file is only a part of the
            download, also `member`, its name in a zip archive, or `lines`, the first and last line.
            Other paths are never downloaded.

    Raises:
        FileNotFoundError: a file is missing and cannot be downloaded; the message says where to put
            it by hand.
        ValueError: a download has a wrong checksum (it is deleted), or an archive lacks the member.

    """
    folder, downloads, paths = Path(data_dir).expanduser(), downloads or {}, {}
    for split, file in files.items():
        is_given, path = split in given, Path(file).expanduser()
        paths_tried = [path, folder / path] if is_given else [folder / path, path]
        candidates = [
            each for plain_path in paths_tried for each in (plain_path, Path(f"{plain_path}.gz"))
        ]
        if present := [candidate for candidate in candidates if candidate.is_file()]:
            paths[split] = present[0]
        elif file in downloads:
            try:
                paths[split] = _download(folder / path, **downloads[file])
            except (FileNotFoundError, ValueError) as error:
                raise type(error)(f"{error}. {origin}") from error
        else:
            hint = (
                "Paths are relative to the working directory or to data_dir" if is_given else origin
            )
            names = " or ".join(map(str, dict.fromkeys(paths_tried)))
            raise FileNotFoundError(
                f"data.files.{split}: no file {names} (data_dir={folder}). {hint}"
            )
    return paths


def _download(
    path: Path,
    *,
    url: str,
    sha256: str,
    member: str | None = None,
    lines: Sequence[int] | None = None,
) -> Path:
    """Download a file, or extract it from a download, which is kept for its other parts."""
    log.info("%s does not exist; downloading %s", path, url)
    if member is None and lines is None:
        _retrieve(url, path, sha256)
    else:
        download = path.with_name(url.rpartition("/")[2])
        # Keep a different file of this name.
        if download.exists() and not _is_there(download, sha256):
            download = path.with_name(f"{sha256[:12]}-{download.name}")
        _retrieve(url, download, sha256)
        with atomic(path) as part, part.open("wb") as file:
            file.writelines(
                _member(download, member) if member else _lines(download, *(lines or ()))
            )
    return path


def _member(archive: Path, member: str) -> Iterator[bytes]:
    """Yield the lines of a member; without extraction, its name cannot become a path here."""
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as file:
            yield from file
    except (KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot read {member!r} in {archive}: {error.args[0]}") from error


def _lines(path: Path, first: int, last: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from islice(file, first - 1, last)


def fetch(url: str, *, folder: str, sha256: str | None = None) -> str:
    """Return the path of a file below `folder`; a missing file is downloaded.

    Without `sha256`, the file is not checked, except that it must not begin with "<", as a web page
    does. Raises FileNotFoundError, which says where to put the file by hand, if the download fails,
    and ValueError for a wrong checksum or a web page.
    """
    path = fetch_path(url, folder=folder, sha256=sha256)
    _retrieve(url, path, sha256)
    return str(path)


def fetch_path(url: str, *, folder: str, sha256: str | None = None) -> Path:
    """Return where `fetch` keeps a file; URL and checksum determine it."""
    key = hashlib.sha256(f"{url} {sha256}".encode()).hexdigest()[:12]
    return Path(folder).expanduser() / key / url.rpartition("/")[2]


def _retrieve(url: str, path: Path, sha256: str | None) -> None:
    """Download to `path`, unless the complete file exists; one process downloads, others wait."""
    if _is_there(path, sha256):
        return
    import pooch  # takes 0.1 s, and few commands need it

    checksum = f"sha256:{sha256}" if sha256 else None
    path.parent.mkdir(parents=True, exist_ok=True)
    with alone(path, f"another run is downloading {path.name}: waiting for it"):
        if _is_there(path, sha256):
            return
        try:
            with scratch_path(path) as scratch:  # a folder, in which pooch has scratch of its own
                pooch.retrieve(url, checksum, fname=path.name, path=scratch, progressbar=True)
                with (scratch / path.name).open("rb") as file:
                    if sha256 is None and file.read(1000).lstrip().startswith(b"<"):
                        raise ValueError(
                            "it begins with '<', as a web page does; download it elsewhere and "
                            f"save it as {path}, or give its sha256"
                        )
                (scratch / path.name).replace(path)
        except ValueError as error:
            raise ValueError(f"{url}: the download is not the expected file: {error}") from error
        except Exception as error:  # networks fail with many types of errors
            raise FileNotFoundError(
                f"cannot download {url} ({type(error).__name__}: {error}). Download it "
                f"elsewhere and save it as {path}"
            ) from error
    if sha256 is None:
        digest = pooch.file_hash(str(path))
        log.warning("%s has no published checksum; the sha256 of the download is %s", path, digest)


def _is_there(path: Path, sha256: str | None) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return sha256 is None or hashlib.file_digest(file, "sha256").hexdigest() == sha256
