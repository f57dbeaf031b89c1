"""A run's folder: its start, `run.json`, and which earlier run it continues or repeats; its end,
`result.json`, with the versions and the commit of its code, or `error.txt`, where it fails.
"""

import importlib.metadata
import math
import os
import shutil
import subprocess
import time
import traceback
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench import IS_CLONE, __version__
from elmo_bench.files import read_json, remove_scratch, signals, write_json, write_text

from .identity import hash_files, identity_of, num_layers_in
from .read import BEGUN, ENDED, ERROR, Run, read_run, readable

LAST_CHECKPOINT = "last.ckpt"
# Files of a run that the next run in its folder must not find, in the order in which they go: the
# first two say that a run may continue, or has ended.
LEFT = (LAST_CHECKPOINT, ENDED, "metrics.csv", "best.ckpt", "predictions", "counts", "tensorboard")
PACKAGES = ("torch", "pytorch-lightning", "hydra-core")  # whose versions a result has
SLURMS = "hpc_ckpt_*.ckpt"  # Lightning's under SLURM, which it would test or resume from


@contextmanager
def leaves_error(run_dir: str | None) -> Iterator[None]:
    """Make the folder of a run, and write the traceback of an exception to its error.txt.

    An earlier run's error.txt goes. That of another process of this run stays: of several processes
    the first that fails says why.
    """
    started, path = time.time(), Path(run_dir, ERROR) if run_dir else None
    if path:
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists() and path.stat().st_mtime < started:
            path.unlink(missing_ok=True)
    try:
        yield
    except Exception:
        signals.outlive_parent()
        if path and path.parent.is_dir() and not path.exists():
            # The disk is full, say: what failed is told all the same.
            with suppress(OSError):
                write_text(path, traceback.format_exc())
        raise


def begin(cfg: DictConfig, files: Mapping[str, Path], **more: Any) -> Path | None:
    """Prepare `run_dir` for a run that reads these files, write its `run.json`, and return the
    checkpoint to continue from, or None. `more` is also written, if the run does not continue.

    With `resume=true` an unfinished run of the same identity continues from its `last.ckpt`; one of
    another identity raises ValueError. Otherwise the files of an earlier run in the folder are
    removed; ValueError if they are not those of a run. One process of a run calls this, before it
    writes anything.
    """
    folder = Path(cfg.run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    _check_loss(cfg, files)
    for name in LEFT:
        remove_scratch(folder, name)
    for left in folder.glob(SLURMS):
        left.unlink()
    inputs = hash_files(files)
    identity = identity_of(cfg, inputs, num_layers_in(files))
    if cfg.resume and (last := last_checkpoint(folder, identity)):
        return last
    if cfg.resume and (folder / LAST_CHECKPOINT).is_file() and not (folder / ENDED).exists():
        raise ValueError(
            f"resume=true, but run_dir={folder} contains the last.ckpt of a run with other "
            "settings or files: repeat its command to continue it, choose another folder "
            "with hydra.run.dir=FOLDER, or set resume=false, which deletes it"
        )
    # An earlier run.json stays until it is replaced: without it, what a kill leaves here would look
    # like a user's own files.
    for path in (folder / name for name in LEFT):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    config = OmegaConf.to_container(cfg, resolve=True)  # identifies the run if it fails
    begun = {"identity": identity, "inputs": inputs, "started": now(), "config": config}
    write_json(folder / BEGUN, begun | more)
    return None


def write_result(
    cfg: DictConfig,
    measured: Mapping[str, Any],
    choices: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Run:
    """Write `result.json`, completely or not at all, and return the run: its config, versions and
    commit, and what it has `measured`, by fields of `Run`.

    `choices` are the options of the config groups. Identity and start are those that `begin` wrote,
    and so are the inputs unless they are given. Raises FloatingPointError for a metric that is not
    finite, since nothing could read the file.
    """
    for name, value in measured["metrics"].items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} is {value}, but a score in {ENDED} must be finite: see the metric's code"
            )
    content = {"task": cfg.task.name, "seed": cfg.seed, **measured, "choices": dict(choices or {})}
    content |= about(cfg) | ({"inputs": dict(inputs)} if inputs is not None else {})
    content |= {"finished": now(), **code()}
    write_json(path := Path(cfg.run_dir, ENDED), content)
    return read_run(path)


def about(cfg: DictConfig) -> dict[str, Any]:
    """Return what `begin` wrote about a run (identity, inputs, start, more), and its config."""
    config = OmegaConf.to_container(cfg, resolve=True)
    return read_or_empty(Path(cfg.run_dir, BEGUN)) | {"config": config}


def read_or_empty(path: Path) -> dict[str, Any]:
    """Return a JSON object; an empty one if the file is missing or damaged."""
    try:
        return read_json(path)
    except (OSError, ValueError):
        return {}


def now() -> str:
    return datetime.now(UTC).isoformat()


def code() -> dict[str, Any]:
    """Return the `versions` and the `commit` of the code."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    versions["elmo-bench"] = __version__
    return {"versions": versions, "commit": _commit()}


def _commit() -> str | None:
    """Return the code's commit, with a + if it has changes; None outside a checkout."""
    if not IS_CLONE:  # the packages may be installed inside another project's clone
        return None
    command = "git --no-optional-locks describe --always --abbrev=40 --dirty=+ --exclude=*"
    here, quiet = Path(__file__).parent, subprocess.DEVNULL
    try:
        return subprocess.check_output(
            command.split(), cwd=here, stderr=quiet, text=True, timeout=10
        ).strip()
    except (OSError, subprocess.SubprocessError):
        return None


def _check_loss(cfg: DictConfig, files: Mapping[str, Path]) -> None:
    """Raise ValueError if a file to remove from `run_dir` is an input of this run, or belongs to
    another job or to no run.
    """
    folder, other = Path(cfg.run_dir), "choose another folder with hydra.run.dir=FOLDER"
    for name, path in files.items():
        if any(path.resolve().is_relative_to((folder / left).resolve()) for left in LEFT):
            raise ValueError(
                f"{name}={path} is inside run_dir={folder}, which this run would delete: {other}"
            )
    ours = OmegaConf.select(cfg, "job._target_")
    job = (read_or_empty(folder / ENDED).get("config") or {}).get("job") or {}
    # A job that reads a checkpoint writes none.
    is_training = "checkpoint" in cfg and (folder / "best.ckpt").exists()
    if job.get("_target_", ours) != ours or is_training:
        raise ValueError(f"run_dir={folder} contains a run of another job: {other}")
    left = [name for name in LEFT if os.path.lexists(folder / name)]
    left += [path.name for path in folder.glob(SLURMS)]
    if left and not any((folder / name).exists() for name in (BEGUN, ENDED)):
        raise ValueError(
            f"run_dir={folder} contains {left[0]}, which this run would delete, but neither "
            f"{BEGUN} nor {ENDED}, so no run of elmo-bench wrote it: {other}"
        )


def goes_on_from(cfg: DictConfig, files: Mapping[str, Path]) -> Path | None:
    """Return the `last.ckpt` in `run_dir`, of the same identity, that resume=true continues."""
    if not cfg.resume:
        return None
    identity = identity_of(cfg, hash_files(files), num_layers_in(files))
    return last_checkpoint(Path(cfg.run_dir), identity)


def last_checkpoint(folder: Path, identity: str) -> Path | None:
    """Return the `last.ckpt` of an unfinished run of this identity in the folder, or None."""
    is_same = read_or_empty(folder / BEGUN).get("identity") == identity
    can_continue = (folder / LAST_CHECKPOINT).is_file() and not (folder / ENDED).exists()
    return folder / LAST_CHECKPOINT if is_same and can_continue else None


def finished(folders: Iterable[Path]) -> dict[str, Path]:
    """Return a folder of each finished run in or below some folders, by identity."""
    return {run.identity: run.folder for run in readable(folders, ENDED)}


def unfinished(folders: Iterable[Path]) -> dict[str, Path]:
    """Return by identity a folder of each run that can continue: `last.ckpt`, but no result."""
    begun = readable(folders, BEGUN)
    return {run.identity: run.folder for run in begun if last_checkpoint(run.folder, run.identity)}
