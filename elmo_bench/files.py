"""Files: written whole or not at all, by one process at a time, and fetched from outside where they are not there."""

import logging
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

log = logging.getLogger(__name__)


@contextmanager
def atomic(path: str | Path) -> Iterator[Path]:
    """A scratch path for what is to be `path`, a file or a small folder: it gets that name when the block has ended well.

    The scratch path has the same name, in a hidden folder beside `path` that is removed in any case. A file replaces the one that
    is there; a folder that is there already stays, as another process was faster. Raises OSError where `path` has no folder.
    """
    path = Path(path)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as folder:
        scratch = Path(folder, path.name)
        yield scratch
        try:
            scratch.replace(path)
        except OSError:
            if not (scratch.is_dir() and path.is_dir()):
                raise


@contextmanager
def alone(path: str | Path, waiting: str) -> Iterator[None]:
    """Hold `path`.lock; where another process has it, here or on a machine that shares the disk, log `waiting` once and wait."""
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


def corpus(
    *,
    name: str,
    data_dir: str,
    train: str,
    dev: str,
    test: str,
    origin: str,
    downloads: Mapping[str, Mapping[str, Any]] | None = None,
) -> Mapping[str, Path]:
    """The three files of a corpus, plain or .gz: as the user has put them under `data_dir`, else downloaded to there.

    Args:
        name: what the option is called, for errors.
        data_dir: the folder below which corpora lie.
        train: a file by its path below that folder; so are `dev` and `test`.
        dev: may be the same file as `test`.
        test: as `dev`.
        origin: where the files come from and where they belong, for errors.
        downloads: under such a path, the `url` it is downloaded from and the `sha256` of what lies there; where the file
            is but a part of that, also which `member` of a zip archive it is, or the first and the last of its `lines`.
            A path that is not here is never downloaded.

    Raises:
        FileNotFoundError: a file is neither there nor to be had; it says what failed and where to put the file by hand.
        ValueError: a download has another checksum (nothing of it is kept), or an archive has not the member.

    """
    downloads = downloads or {}
    found = {}
    for split, path in (("train", train), ("dev", dev), ("test", test)):
        try:
            found[split] = _find(path, Path(data_dir).expanduser(), downloads.get(path))
        except (FileNotFoundError, ValueError) as error:
            raise type(error)(f"{error}. data={name}: {origin}") from error
    return found


def _find(path: str, folder: Path, download: Mapping[str, Any] | None) -> Path:
    """A file by its path below a folder, by its name alone in that folder, or as it stands; gzipped or not; or downloaded."""
    places = [folder / path, folder / Path(path).name, Path(path)]
    for place in places:
        for candidate in (place, place.with_name(place.name + ".gz")):
            if candidate.is_file():
                return candidate
    if download is None:
        raise FileNotFoundError(f"no file {places[0]} (data_dir={folder})")
    return _download(places[0], **download)


def _download(path: Path, *, url: str, sha256: str, member: str | None = None, lines: Sequence[int] | None = None) -> Path:
    """A file made of what lies at `url`; where it is but a part, the whole stays beside it, for the parts still to be taken."""
    log.info("%s is not there: taking it from %s", path, url)
    if member is None and lines is None:
        _retrieve(url, path, sha256)
    else:
        whole = path.with_name(url.rpartition("/")[2])
        _retrieve(url, whole, sha256)
        with atomic(path) as part, part.open("wb") as file:
            file.writelines(_member(whole, member) if member else _lines(whole, *(lines or ())))
    return path


def _member(archive: Path, member: str) -> Iterator[bytes]:
    """The lines of one member; it is read, not extracted, so that its name is never a path here."""
    try:
        with zipfile.ZipFile(archive) as opened, opened.open(member) as file:
            yield from file
    except (KeyError, zipfile.BadZipFile) as error:
        raise ValueError(f"cannot read {member!r} in {archive}: {error.args[0]}") from error


def _lines(path: Path, first: int, last: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        yield from islice(file, first - 1, last)


def fetch(url: str, *, folder: str, sha256: str | None = None) -> str:
    """The path of a downloaded file: as it lies in `folder`, or fetched there with progress and checked.

    Raises FileNotFoundError that says where to put the file by hand, and ValueError for a wrong checksum.
    """
    path = Path(folder).expanduser() / url.rpartition("/")[2]
    if sha256 is not None or not path.is_file():
        _retrieve(url, path, sha256)
    return str(path)


def _retrieve(url: str, path: Path, sha256: str | None) -> None:
    """Download to `path`, whole or not at all, unless a file with that checksum is there."""
    import pooch  # a tenth of a second that few commands need

    try:
        known = f"sha256:{sha256}" if sha256 else None
        pooch.retrieve(url, known, fname=path.name, path=path.parent, progressbar=True)
    except ValueError as error:
        raise ValueError(f"{url} is not the file it should be: {error}") from error
    except Exception as error:  # the many ways in which a network fails
        raise FileNotFoundError(
            f"could not download {url} ({type(error).__name__}: {error}). Fetch it elsewhere and put it at {path}"
        ) from error
    if sha256 is None:
        log.warning("%s has no published checksum; what came has sha256 %s", path, pooch.file_hash(str(path)))
