"""`.tar.xz` archives: what a report needs of many runs, in a small file for others.

Runs have much in common: the counts of the gold standard, names of settings. So arrays are stored
uncompressed, and xz compresses all runs together.
"""

import hashlib
import json
import lzma
import re
import tarfile
from collections.abc import Iterable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from elmo_bench.files import PACKED_RATIO, atomic, find_files, read_arrays, read_json

from .portable import OVERRIDES, overrides, portable
from .read import BEGUN, ENDED, Run, text

SUFFIX = ".tar.xz"
COUNTS = ("counts/dev.npz", "counts/test.npz", "counts/train.npz")
FILES = (OVERRIDES.as_posix(), *COUNTS, "metrics.csv", ENDED)  # of a finished run, in order
NAME = re.compile(r"[A-Za-z0-9_][\w.-]{0,150}", re.ASCII)  # name of a run's folder
LONGEST = 100  # characters of its first part
UNPACKED_FREE = 1 << 28  # bytes that any archive may unpack to
MEMORY = 1 << 28  # bytes of memory for unpacking an archive
DIGITS = 16  # hexadecimal digits of the archive's hash in its folder's name


def pack(runs: Iterable[Run], archive: Path) -> None:
    """Write finished and failed runs to an archive, without checkpoints, texts and paths of the
    machine; equal runs give equal bytes.

    Raises ValueError, with the file, for a link, which might lead to a file that the run has not
    written, and for damaged counts.
    """
    with (
        atomic(archive) as part,
        lzma.open(part, "wb") as file,
        tarfile.open(fileobj=file, mode="w|", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for run in sorted(runs, key=_name):
            for name, content in _files(run):
                about = tarfile.TarInfo(f"{_name(run)}/{name}")
                about.size = len(content)
                tar.addfile(about, BytesIO(content))


def _name(run: Run) -> str:
    """Return a folder name for a run, independent of the machine."""
    settings, _, inputs = run.identity.partition("-")
    keys = ("task.name", "encoder.name", "elmo.mix")
    words = portable([run.settings.get(key) for key in keys])  # a stranger's run may lack some
    settings_told = "-".join(map(text, words))
    name = f"{settings_told}-seed{run.settings.get('seed')}"
    plain_name = re.sub(r"[^\w.-]+", "_", name, flags=re.ASCII).lstrip(".-")[:LONGEST]
    return f"{plain_name}-{settings[:8]}-{inputs[:8]}"


def _files(run: Run) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of the files that a report reads of a run."""
    config = {"config": portable(run.config)}
    if run.reason:  # it has no result
        about = {
            "identity": run.identity,
            "inputs": run.inputs,
            "started": run.started,
            "reason": run.reason,
        }
        yield BEGUN, _json(about | config)
        return
    for name in FILES:
        _check_no_link(run.folder, name)
        path = run.folder / name
        if name == OVERRIDES.as_posix():
            yield name, json.dumps(overrides(path)).encode()  # JSON is YAML
        elif name == ENDED:
            yield name, _json(read_json(path) | config)
        elif path.is_file():
            yield name, _arrays(path) if name in COUNTS else path.read_bytes()


def _check_no_link(folder: Path, name: str) -> None:
    """Raise ValueError if a file of a run, or its folder in the run's folder, is a link."""
    for path in (folder / Path(name).parts[0], folder / name):
        if path.is_symlink():
            raise ValueError(f"{path}: a link, but only a run's own files are kept: remove it")


def _json(content: Any) -> bytes:
    return (json.dumps(content, indent=2) + "\n").encode()


def _arrays(path: Path) -> bytes:
    """Return the same arrays as an uncompressed .npz."""
    arrays: dict[str, Any] = read_arrays(path)
    file = BytesIO()
    np.savez(file, **arrays)
    return file.getvalue()


def run_folders(paths: Iterable[str | Path], cache_dir: str | Path) -> list[Path]:
    """Return folders of runs for paths that may be folders or archives; archives, also those inside
    a folder, are unpacked below `cache_dir`.

    Raises the errors of `unpacked`.
    """
    folders: list[Path] = []
    for given in paths:
        path = Path(given).expanduser()
        archives = [path] if path.is_file() else find_files(path, f"*{SUFFIX}")
        for archive in archives:
            folders.append(unpacked(archive, cache_dir))
        # A folder may contain only archives.
        if not archives or find_files(path, ENDED) or find_files(path, BEGUN):
            folders.append(path)
    return folders


def unpacked(archive: Path, cache_dir: str | Path) -> Path:
    """Return the folder with the runs of an archive, which is unpacked once.

    Raises OSError if it cannot be read, and ValueError, with its name, if it is damaged or was not
    written by `pack`; then nothing of it is kept.
    """
    packed = archive.read_bytes()
    digest = hashlib.sha256(packed).hexdigest()[:DIGITS]
    # Notes on runs show this folder's name and the run's.
    name = f"{archive.name.removesuffix(SUFFIX)}-{digest}"
    folder = Path(cache_dir).expanduser() / "runs" / name
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        with (
            atomic(folder) as part,
            tarfile.open(fileobj=BytesIO(_plain(packed)), mode="r:") as tar,
        ):
            tar.extractall(part, _members(tar), filter="data")
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(
            f"{archive}: not an archive of runs written by job=archive, or damaged: {error}; "
            "copy it again, or write it again with job=archive"
        ) from error
    return folder


def _plain(packed: bytes) -> bytes:
    most = max(UNPACKED_FREE, PACKED_RATIO * len(packed))
    decoder = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
    content = decoder.decompress(packed, max_length=most)
    if not decoder.eof or decoder.unused_data:
        raise ValueError(f"it expands to over {most:,} bytes, or its end is missing or not its own")
    return content


def _members(tar: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Return the files. Raises ValueError for a name that is not a file of a run."""
    members: dict[str, tarfile.TarInfo] = {}
    for member in tar:  # one by one, since a negative size would lead back to another
        folder, _, file = member.name.partition("/")
        is_file = member.type == tarfile.REGTYPE and not member.issparse() and member.size >= 0
        if not is_file or file not in (*FILES, BEGUN) or not NAME.fullmatch(folder):
            raise ValueError(f"{member.name[:200]!r} is not a file of a run")
        if member.name in members:
            raise ValueError(f"{member.name} occurs twice")
        members[member.name] = member
    if not members:
        raise ValueError("it is empty")
    return list(members.values())
