"""Find the files of corpora and encoders, and download those that are missing."""

import hashlib
import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

from .files import alone_for_now, atomic
from .read import BUFFER, opened

log = logging.getLogger(__name__)
_offline = ContextVar("_offline", default=False)


class NotHereError(OSError):
    """What a run downloads, and a dry run does not."""


@contextmanager
def offline() -> Iterator[None]:
    """Within, what would be downloaded raises NotHereError."""
    token = _offline.set(True)
    try:
        yield
    finally:
        _offline.reset(token)


def is_offline() -> bool:
    """Whether nothing may be downloaded."""
    return _offline.get()


def check_online(what: str) -> None:
    """Raise NotHereError, within `offline`."""
    if _offline.get():
        raise NotHereError(f"{what}: not here; a run downloads it")


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
        given: splits with a path from the user, tried relative to the working directory first.
        origin: where the files come from and where they belong, for error messages.
        downloads: path -> `url` of the download and its `sha256`. If the file is only a part of the
            download, also `member`, its name in a zip archive, or `lines`, the first and last line.

    Raises FileNotFoundError if a file is missing and cannot be downloaded, and ValueError if a
    download has a wrong checksum (it is deleted), or an archive lacks the member. A download that
    fails leaves nothing in `data_dir`.

    """
    folder = Path(data_dir).expanduser()
    paths: dict[str, Path] = {}
    for split, file in files.items():
        path = Path(file).expanduser()
        tried = [path, folder / path] if split in given else [folder / path, path]
        present = _plain_or_packed(tried)
        if present is None and downloads and file in downloads:
            present = _download(folder / path, origin, **downloads[file])
        if present is None:
            for candidate in tried:
                if candidate.is_dir():
                    raise FileNotFoundError(
                        f"data.files.{split}={candidate} is a folder, but it must be a file: give "
                        "one of its files"
                    )
            relative = "Paths are relative to the working directory or to data_dir"
            names = " or ".join(map(str, dict.fromkeys(tried)))
            raise FileNotFoundError(
                f"data.files.{split}: no file {names} (data_dir={folder}). "
                f"{relative if split in given else origin}"
            )
        paths[split] = present
    return paths


def _plain_or_packed(paths: Sequence[Path]) -> Path | None:
    """Return the first of these files that exists, as it is or with .gz."""
    for path in paths:
        for candidate in (path, Path(f"{path}.gz")):
            if candidate.is_file():
                return candidate
    return None


def _download(
    path: Path, origin: str, *, url: str, sha256: str, member: str = "", lines: Sequence[int] = ()
) -> Path:
    """Download a file, or extract it from a download, which is kept for its other parts."""
    is_part = member or lines
    download = path.with_name(f"{sha256[:12]}-{url.rpartition('/')[2]}") if is_part else path
    try:
        _retrieve(url, download, sha256, "data_dir")
        if is_part:
            with atomic(path) as part, part.open("wb") as file:
                file.writelines(_part(download, member, *lines))
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"{error}. {origin}") from error
    return path


def _part(path: Path, member: str, first: int = 1, last: int | None = None) -> Iterator[bytes]:
    """Yield the lines of a file or of a member of an archive; without extraction, the member's name
    cannot become a path here.
    """
    try:
        with ZipFile(path).open(member) if member else path.open("rb") as file:
            yield from islice(file, first - 1, last)
    except (KeyError, BadZipFile) as error:
        raise ValueError(f"cannot read {member!r} in {path}: {error.args[0]}") from error


def fetch(url: str, *, folder: str, sha256: str | None = None) -> str:
    """Return the path of a file below `folder`, which URL and checksum determine; a missing file is
    downloaded.

    Raises FileNotFoundError, which says where to put the file by hand, if the download fails, and
    ValueError for a wrong checksum. Without `sha256`, the checksum is logged.
    """
    key = hashlib.sha256(f"{url} {sha256}".encode()).hexdigest()[:12]
    path = Path(folder).expanduser() / key / url.rpartition("/")[2]
    _retrieve(url, path, sha256, "cache_dir")
    return str(path)


def _retrieve(url: str, path: Path, sha256: str | None, key: str) -> None:
    """Download to `path`, unless the complete file exists; one process downloads, others wait. The
    setting `key` has the folder.
    """
    if _is_there(path, sha256):
        return
    if path.is_file():
        log.warning("%s is incomplete or another file: its sha256 is not %s", path, sha256)
    check_online(str(path))
    log.info("downloading %s to %s", url, path)
    from pooch import HTTPDownloader  # takes 0.1 s, and few commands need it

    _check_writable(url, path, key)
    with alone_for_now(path, f"another run is downloading {path.name}: waiting for it"):
        if _is_there(path, sha256):
            return
        try:
            with atomic(path) as part:
                HTTPDownloader(progressbar=True)(url, str(part), None)
                digest = hash_file(part)
                if sha256 and digest != sha256:
                    raise ValueError(f"{url}: the download has sha256 {digest}, not {sha256}")
        except OSError as error:  # also of requests
            raise FileNotFoundError(
                f"cannot download {url} ({type(error).__name__}: {error}). Download it "
                f"elsewhere and save it as {path}"
            ) from error
    if sha256 is None:
        log.warning("%s has no published checksum; the sha256 of the download is %s", path, digest)


def _check_writable(url: str, path: Path, key: str) -> None:
    """Raise FileNotFoundError if nothing can be made where a download belongs."""
    above = next(folder for folder in path.absolute().parents if os.path.lexists(folder))
    if not above.is_dir():
        fault = "is not a folder"
    elif not os.access(above, os.W_OK | os.X_OK):
        fault = "cannot be written to"
    else:
        return
    raise FileNotFoundError(
        f"cannot download {url}: {above} {fault}. Set {key}=FOLDER to a folder of yours, or "
        f"have the download saved as {path}"
    )


def _is_there(path: Path, sha256: str | None) -> bool:
    return path.is_file() and (sha256 is None or hash_file(path) == sha256)


def hash_file(path: Path) -> str:
    """Return the sha256 of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def hash_content(path: Path) -> str:
    """Return the sha256 of a file's content, that of a `.gz` unpacked; ValueError for a damaged
    one.
    """
    if path.suffix != ".gz":
        return hash_file(path)
    sha256 = hashlib.sha256()
    with opened(path) as file:
        while piece := file.read(BUFFER):
            sha256.update(piece)
    return sha256.hexdigest()
