"""`job=cache`: list and clear the contents of `cache_dir`; runs recreate cleared files, but models
trained with `elmo.adapt=true` need their adapted biLM.
"""

import logging
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console
from rich.table import Table

from elmo_bench.files import is_taken, remove_unheld, size_of
from elmo_bench.terminal import plain

log = logging.getLogger(__name__)
# The names of our files and folders of each kind.
KINDS = {
    "layers": r"(v\d+-)?e[0-9a-f]{12}-.+(?<!\.lock)",  # of frozen encoders
    "sample": r"sample-\d+-[0-9a-f]{10}",
    "elmo": r"[0-9a-f]{12}",  # downloaded biLMs
    "adapted": r"[0-9a-f]{16}",  # biLMs
    "runs": r".+-[0-9a-f]{16}",  # unpacked archives
}


def cache(cfg: DictConfig) -> None:
    """Remove the kinds in `clear`, except files in use by a run; print the remaining entries."""
    folder, chosen = prepare(cfg)
    for kind, path in _entries(folder):
        if kind in chosen or "all" in chosen:
            _remove(kind, path)
    rows = [(kind, path, size_of(path) / 1e6) for kind, path in _entries(folder)]
    table = Table("kind", "name", "MB", show_footer=True, title=plain(str(folder)))
    table.columns[2].justify = "right"
    table.columns[2].footer = f"{sum(size for _, _, size in rows):,.1f}"
    for kind, path, size in rows:
        table.add_row(kind, plain(path.name), f"{size:,.1f}")
    Console(markup=False, emoji=False).print(table)


def prepare(cfg: DictConfig) -> tuple[Path, set[str]]:
    """Return the folder and the kinds to remove."""
    clear = cfg["clear"]  # cfg.clear is a method
    chosen = {clear} if isinstance(clear, str) else {str(kind) for kind in clear}
    unknown = sorted(chosen - set(KINDS) - {"all"})
    if unknown:
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


def _entries(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the kind and the path of what is ours below the folder, not of other programs."""
    for kind, name in KINDS.items():
        paths = (folder if kind == "sample" else folder / kind).glob("*")
        ours = re.compile(rf"{name}|\.{name}-[a-z0-9_]{{8}}")  # or the scratch of a write
        for path in sorted(paths):
            if ours.fullmatch(path.name):
                yield kind, path


def _remove(kind: str, path: Path) -> None:
    """Remove a file or folder, or warn that a run is using it."""
    is_held = path.is_dir() and (kind == "layers" or path.name.startswith("."))
    if _is_in_use(path) or (is_held and not remove_unheld(path)):
        log.warning("%s is kept: a run is using it", path)
    elif path.is_dir():
        # Its name goes first, since half of a folder would be taken for all of it.
        shutil.rmtree(path.rename(path.with_name(f".{path.name}-clearing")))
    else:
        path.unlink(missing_ok=True)


def _is_in_use(path: Path) -> bool:
    """Whether somebody has its lock, or downloads a file into it."""
    locks = list(path.glob("*.lock"))  # downloads in progress
    return is_taken(path) or any(is_taken(lock.with_suffix("")) for lock in locks)
