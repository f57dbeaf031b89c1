"""Find the files of corpora and encoders, and download those that are missing."""

import hashlib
import logging
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from .files import atomic, scratch_path
from .locks import alone

log = logging.getLogger(__name__)


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
            Other paths are never downloaded.

    Raises:
        FileNotFoundError: a file is missing and cannot be downloaded; the message says where to put
            it by hand.
        ValueError: a download has a wrong checksum (it is deleted), or an archive lacks the member.

    """
    folder, downloads, paths = Path(data_dir).expanduser(), downloads or {}, {}
    for split, file in files.items():
        path = Path(file).expanduser()
        tried = [path, folder / path] if split in given else [folder / path, path]
        if (present := _present(tried)) is None and file in downloads:
            present = _download(folder / path, origin, **downloads[file])
        if present is None:
            relative = "Paths are relative to the working directory or to data_dir"
            names = " or ".join(map(str, dict.fromkeys(tried)))
            raise FileNotFoundError(
                f"data.files.{split}: no file {names} (data_dir={folder}). "
                f"{relative if split in given else origin}"
            )
        paths[split] = present
    return paths


def _present(paths: Sequence[Path]) -> Path | None:
    """Return the first of the files that exists, plain or .gz."""
    plain_or_packed = (each for path in paths for each in (path, Path(f"{path}.gz")))
    return next((path for path in plain_or_packed if path.is_file()), None)


def _download(
    path: Path,
    origin: str,
    *,
    url: str,
    sha256: str,
    member: str | None = None,
    lines: Sequence[int] | None = None,
) -> Path:
    """Download a file, or extract it from a download, which is kept for its other parts."""
    log.info("%s does not exist; downloading %s", path, url)
    try:
        if member is None and lines is None:
            _retrieve(url, path, sha256)
            return path
        download = path.with_name(url.rpartition("/")[2])
        # Keep a different file of this name.
        if download.exists() and not _is_there(download, sha256):
            download = path.with_name(f"{sha256[:12]}-{download.name}")
        _retrieve(url, download, sha256)
        with atomic(path) as part, part.open("wb") as file:
            file.writelines(
                _member(download, member) if member else _lines(download, *(lines or ()))
            )
    except (FileNotFoundError, ValueError) as error:
        raise type(error)(f"{error}. {origin}") from error
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
