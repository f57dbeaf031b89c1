"""`job=archive`: pack the files of runs that reports read into an archive small enough for git."""

import logging
import tempfile
from collections.abc import Iterable
from pathlib import Path

from omegaconf import DictConfig

from elmo_bench.runs import (
    OVERRIDES,
    SUFFIX,
    Run,
    collect,
    copy_begun,
    copy_run,
    failures,
    folder_name,
    overrides,
    pack,
    run_folders,
    unpacked,
)

log = logging.getLogger(__name__)
DIGITS = 8  # hexadecimal digits of each hash in a folder's name
RUNNING = "is running"


def archive(cfg: DictConfig) -> None:
    """Pack the finished and failed runs below `runs` into `output`.

    Runs in an existing archive are kept. Of runs with the same settings, files and seed, the
    archive keeps the one that finished first.

    Raises ValueError if `output` is not an archive of runs, FileNotFoundError if there are no runs.
    """
    output, earlier, finished, failed = check(cfg)
    with tempfile.TemporaryDirectory() as name:
        for run in finished:
            recorded = overrides(run.folder / OVERRIDES)
            copy_run(run.folder, Path(name, _name(run)), recorded)
        for run in failed:
            copy_begun(run, Path(name, _name(run)))
        pack(Path(name), output)
    log.info(
        "written: %s, %d runs (%d before), %d failed, %.2f MB",
        output,
        len(finished),
        len(_first(collect(earlier))),
        len(failed),
        output.stat().st_size / 1e6,
    )


def check(cfg: DictConfig) -> tuple[Path, list[Path], list[Run], list[Run]]:
    """Return the archive, its earlier runs' folder if any, and the finished and failed runs."""
    output = Path(cfg.output)
    if not output.name.endswith(SUFFIX):
        raise ValueError(f"output={output}: the name of an archive must be NAME{SUFFIX}")
    if not output.absolute().parent.is_dir():
        raise FileNotFoundError(f"output={output}: no such folder")
    runs = [cfg.runs] if isinstance(cfg.runs, str) else cfg.runs
    folders = run_folders(runs, cfg.cache_dir)
    earlier = [unpacked(output, cfg.cache_dir)] if output.exists() else []
    finished = _first(collect([*earlier, *folders]))
    failed = [run for run in failures((*earlier, *folders), finished) if run.reason != RUNNING]
    return output, earlier, finished, failed


def _first(runs: Iterable[Run]) -> list[Run]:
    """Return the first finished run of each identity."""
    first: dict[str, Run] = {}
    for run in runs:
        same = first.get(_name(run), run)
        first[_name(run)] = min(same, run, key=lambda one: one.finished)
    return [*first.values()]


def _name(run: Run) -> str:
    """Return a folder name for a run, independent of the machine."""
    if not run.identity:
        raise ValueError(
            f"{run.folder}: a run without the fingerprints that identify it: it cannot be kept"
        )
    settings, _, inputs = run.identity.partition("-")
    return f"{folder_name(run.config)}-{settings[:DIGITS]}-{inputs[:DIGITS]}"
