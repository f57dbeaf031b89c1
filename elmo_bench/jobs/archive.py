"""`job=archive`: pack the files of runs that reports read into an archive small enough for git."""

import logging
from pathlib import Path

from omegaconf import DictConfig

from elmo_bench.report.learning import after_epochs
from elmo_bench.runs import RUNNING, SUFFIX, Run, collect, failures, pack, run_folders, unpacked

log = logging.getLogger(__name__)


def archive(cfg: DictConfig) -> None:
    """Pack the finished and failed runs below `runs` into `output`.

    Runs in an existing archive are kept. Of runs with the same settings, files and seed, the
    archive keeps the one that finished first.

    Raises ValueError if `output` is not an archive of runs, or for curves or counts that no report
    could read, and FileNotFoundError if there are no runs.
    """
    finished, failed = prepare(cfg)
    output = Path(cfg.output)
    pack(finished + failed, output)
    size = output.stat().st_size / 1e6
    log.info("written: %s, %d runs, %d failed, %.2f MB", output, len(finished), len(failed), size)


def prepare(cfg: DictConfig) -> tuple[list[Run], list[Run]]:
    """Return the finished and the failed runs of the archive."""
    output = Path(cfg.output)
    if not output.name.endswith(SUFFIX):
        raise ValueError(f"output={output}: the name of an archive must be NAME{SUFFIX}")
    if not output.absolute().parent.is_dir():
        raise FileNotFoundError(f"output={output}: no such folder; make it first")
    runs = [cfg.runs] if isinstance(cfg.runs, str) else cfg.runs
    folders = run_folders(runs, cfg.cache_dir)
    if output.exists():
        folders.insert(0, unpacked(output, cfg.cache_dir))
    finished = collect(folders)
    for run in finished:
        if not run.identity:
            raise ValueError(f"{run.folder}: its result.json has no identity; train it again")
        after_epochs(run, None)  # nobody could mend the curves of a run in the archive
    failed = [run for run in failures(folders, finished) if run.reason != RUNNING]
    return finished, failed
