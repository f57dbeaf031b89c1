"""`job=cache`: list and clear the contents of `cache_dir`; runs recreate cleared files."""

import logging
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from elmo_bench.files import is_taken, plain, remove_unheld

log = logging.getLogger(__name__)
# Kind -> what it is, and the names of our files and folders of that kind.
KINDS = {
    "layers": ("layers of frozen encoders", r"(v\d+-)?e[0-9a-f]{12}-.+(?<!\.lock)"),
    "sample": ("sample corpora", r"sample-\d+-[0-9a-f]{10}"),
    "vectors": ("word vectors of a corpus", r"[0-9a-f]{16}\.npz"),
    "elmo": ("downloaded biLMs", r"[0-9a-f]{12}"),
    "adapted": ("adapted biLMs", r"[0-9a-f]{16}"),
    "hashes": ("checksums of large files", r"[0-9a-f]{64}"),
    "runs": ("unpacked archives of runs", r".+-[0-9a-f]{16}"),
}


class Entry(NamedTuple):
    """A file or folder below `cache_dir`; `size` is in bytes, `used` is its modification time."""

    kind: str
    path: Path
    size: int
    used: float


def cache(cfg: DictConfig) -> None:
    """Remove the kinds in `clear`, except files in use by a run; print the remaining entries."""
    folder, chosen = check(cfg)
    for entry in _entries(folder):
        if entry.kind in chosen or "all" in chosen:
            _remove(entry)
    entries = [*_entries(folder)]
    table = Table("kind", "", "name", "MB", "last used", show_footer=True, title=plain(str(folder)))
    size = table.columns[3]
    size.justify, size.footer = "right", f"{sum(entry.size for entry in entries) / 1e6:,.1f}"
    for entry in entries:
        when = f"{datetime.fromtimestamp(entry.used):%Y-%m-%d %H:%M}"
        # The folder of a download is named by a hash; its file has the telling name.
        files = entry.path.glob("[!.]*") if entry.kind == "elmo" else ()
        name = next((path.name for path in files if path.suffix != ".lock"), entry.path.name)
        table.add_row(
            entry.kind, KINDS[entry.kind][0], plain(name), f"{entry.size / 1e6:,.1f}", when
        )
    Console(markup=False, emoji=False).print(table)


def check(cfg: DictConfig) -> tuple[Path, set[str]]:
    """Return the folder and the kinds to remove."""
    clear = cfg["clear"]  # cfg.clear is a method
    chosen = {clear} if isinstance(clear, str) else {str(kind) for kind in clear}
    if unknown := sorted(chosen - {*KINDS, "all"}):
        raise ValueError(
            f"clear={unknown[0]}, but it must be all, or a list of {', '.join(KINDS)}, such as "
            "clear=[layers,runs]"
        )
    folder = Path(cfg.cache_dir).expanduser()
    if chosen and folder.resolve() == Path(cfg.data_dir).expanduser().resolve():
        raise ValueError(
            f"cache_dir={folder} is also data_dir, which contains your own files: nothing "
            "is deleted"
        )
    return folder, chosen


def _entries(folder: Path) -> Iterator[Entry]:
    """Yield our entries below the folder by kind, the least recently used first.

    Files of other programs are not listed.
    """
    for kind, (_, name) in KINDS.items():
        paths = (folder if kind == "sample" else folder / kind).glob("*")
        ours = re.compile(rf"{name}|\.{name}-[a-z0-9_]{{8}}")  # or the scratch of a write
        entries = []
        for path in (path for path in paths if ours.fullmatch(path.name)):
            with suppress(FileNotFoundError):  # a run has just removed it
                entries.append(Entry(kind, path, _size(path), path.stat().st_mtime))
        yield from sorted(entries, key=lambda entry: entry.used)


def _size(path: Path) -> int:
    size = 0
    for file in path.rglob("*") if path.is_dir() else (path,):
        with suppress(FileNotFoundError):  # a run has just renamed it
            size += file.stat().st_size if file.is_file() else 0
    return size


def _remove(entry: Entry) -> None:
    path = entry.path
    locks = (lock.with_suffix("") for lock in path.glob("*.lock"))  # downloads in progress
    is_scratch = path.name.startswith(".")
    if any(map(is_taken, (path, *locks))):
        log.warning("%s is kept: a run is writing it", path)
    elif path.is_dir() and (is_scratch or entry.kind == "layers"):
        if not remove_unheld(path):
            log.warning("%s is kept: a run is %s it", path, "writing" if is_scratch else "reading")
    elif path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
