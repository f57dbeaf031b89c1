"""A run's folder: `run.json` at its start, `result.json` at its end, and the files in between."""

import dataclasses
import importlib.metadata
import json
import logging
import math
import os
import shutil
import subprocess
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench import IS_CLONE, __version__, signals
from elmo_bench.files import atomic, found, read_json, remove_scratch

from .identity import Identity, hash_files
from .read import BEGUN, ENDED, Mix, read_result

log = logging.getLogger(__name__)
GOES_ON, ERROR = "last.ckpt", "error.txt"
# Files of a run that the next run in its folder must not find, in the order in which they go: the
# first two say that a run may continue, or has ended.
LEFT = (
    GOES_ON,
    ENDED,
    "evaluation.json",
    "metrics.csv",
    "best.ckpt",
    "predictions",
    "counts",
    "tensorboard",
)
SLURMS = "hpc_ckpt_*.ckpt"  # Lightning's under SLURM, which it would test or resume from
PACKAGES = ("torch", "pytorch-lightning", "hydra-core")


@dataclasses.dataclass(frozen=True)
class Result:
    """The results of one run; metrics are fractions of 1."""

    task: str
    seed: int
    metrics: dict[str, float]
    mix: dict[str, Mix]  # by place
    parameters: dict[str, int]
    seconds: dict[str, float]
    epochs: int
    examples_per_second: float
    device: str


def begin(cfg: DictConfig, files: Mapping[str, Path]) -> Path | None:
    """Prepare `run_dir` for a run that reads these files, write its `run.json`, and return the
    checkpoint to continue from, or None.

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
    inputs = hash_files(files, cfg.cache_dir)
    identity = str(Identity.of(cfg, inputs))
    if cfg.resume and (last := checkpoint(folder, identity)):
        return last
    if cfg.resume and (folder / GOES_ON).is_file() and not (folder / ENDED).exists():
        raise ValueError(
            f"resume=true, but run_dir={folder} contains the last.ckpt of a run with other "
            "settings or files: repeat its command to continue it, choose another folder "
            "with hydra.run.dir=FOLDER, or set resume=false, which deletes it"
        )
    # An earlier run.json stays until it is replaced: without it, what a kill leaves here would look
    # like a user's own files.
    for name in LEFT:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    config = OmegaConf.to_container(cfg, resolve=True)  # identifies the run if it fails
    begun = {"identity": identity, "inputs": inputs, "started": _now(), "config": config}
    _write(folder / BEGUN, begun)
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
    config = _read(folder / ENDED).get("config") or {}
    theirs = (config.get("job") or {}).get("_target_", ours)
    # A job that reads a checkpoint writes none.
    if theirs != ours or ("checkpoint" in cfg and (folder / "best.ckpt").exists()):
        raise ValueError(f"run_dir={folder} contains a run of another job: {other}")
    left = [name for name in LEFT if os.path.lexists(folder / name)]
    left += [path.name for path in folder.glob(SLURMS)]
    if left and not any((folder / name).exists() for name in (BEGUN, ENDED)):
        raise ValueError(
            f"run_dir={folder} contains {left[0]}, which this run would delete, but neither "
            f"{BEGUN} nor {ENDED}, so no run of elmo-bench wrote it: {other}"
        )


def goes_on_from(cfg: DictConfig, files: Mapping[str, Path]) -> Path | None:
    """Return the `last.ckpt` in `run_dir` from which a run with `resume=true` continues, which must
    have the same identity.
    """
    if not cfg.resume:
        return None
    return checkpoint(Path(cfg.run_dir), str(Identity.of(cfg, hash_files(files, cfg.cache_dir))))


def checkpoint(folder: Path, identity: str) -> Path | None:
    """Return the `last.ckpt` of an unfinished run of this identity in the folder, or None."""
    last = folder / GOES_ON
    if (
        not last.is_file()
        or (folder / ENDED).exists()
        or _read(folder / BEGUN).get("identity") != identity
    ):
        return None
    return last


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
            with suppress(OSError), atomic(path) as part:
                part.write_text(traceback.format_exc(), encoding="utf-8")
        raise


def about(cfg: DictConfig) -> dict[str, Any]:
    """Return what `begin` wrote about a run (identity, inputs, start), and its config."""
    return _read(Path(cfg.run_dir, BEGUN)) | {"config": OmegaConf.to_container(cfg, resolve=True)}


def write_result(
    result: Result,
    cfg: DictConfig,
    choices: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> None:
    """Write `result.json`, completely or not at all: the metrics, the config, the versions and the
    commit.

    `choices` are the options of the config groups. Identity and start are those that `begin` wrote,
    and so are the inputs unless they are given. Raises FloatingPointError for a metric that is not
    finite, since nothing could read the file.
    """
    for name, value in result.metrics.items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} is {value}, but a figure in {ENDED} must be finite: see the metric's code"
            )
    content = dataclasses.asdict(result) | {
        "choices": dict(choices or {}),
        **about(cfg),
        **({"inputs": dict(inputs)} if inputs is not None else {}),
        "finished": _now(),
        **code(),
    }
    _write(Path(cfg.run_dir, ENDED), content)


def code() -> dict[str, Any]:
    """Return the `versions` and the `commit` of the code."""
    versions = {name: importlib.metadata.version(name) for name in PACKAGES}
    versions["elmo-bench"] = __version__
    return {"versions": versions, "commit": _commit()}


def finished(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the folders of all finished runs in or below some folders, by identity."""
    return _by_identity(folders, ENDED, _is_whole)


def _is_whole(folder: Path, _: str) -> bool:
    try:
        read_result(folder / ENDED)
    except ValueError as error:
        log.warning("ignored: %s", error)
        return False
    return True


def unfinished(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the folders, in or below some folders, of runs that can continue, by identity: they
    have a `last.ckpt` and no result.
    """
    return _by_identity(
        folders, BEGUN, lambda folder, identity: checkpoint(folder, identity) is not None
    )


def _by_identity(
    folders: Iterable[Path], name: str, counts: Callable[[Path, str], bool]
) -> dict[str, Path]:
    """Return the first folder of each identity that has a file `name` and for which `counts`."""
    run_folders: dict[str, Path] = {}
    # One of the folders may be below another.
    for path in dict.fromkeys(path for folder in folders for path in found(folder, name)):
        content = _read(path)
        if not isinstance(identity := content.get("identity"), str) or "inputs" not in content:
            log.warning("%s: ignored, since it is not a file of elmo-bench or is damaged", path)
        elif counts(path.parent, identity):
            run_folders.setdefault(identity, path.parent)
    return run_folders


def result_of(folder: Path) -> dict[str, Any]:
    """Return the `result.json` of a folder; empty if there is none. Raises ValueError if it is
    damaged.
    """
    path = folder / ENDED
    return read_result(path) if path.is_file() else {}


def dev_figure(folder: Path) -> float | None:
    """Return the monitored dev metric of a finished run, as a fraction of 1; None if no model was
    trained.
    """
    content = result_of(folder)
    return (
        content["metrics"].get(f"val/{content['config']['task']['monitor']}") if content else None
    )


def _read(path: Path) -> dict[str, Any]:
    """Return a JSON object; an empty one if the file is missing or damaged."""
    try:
        content: dict[str, Any] = read_json(path)
    except (OSError, ValueError):
        return {}
    return content


def _write(path: Path, content: Mapping[str, Any]) -> None:
    with atomic(path) as part:
        part.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def _now() -> str:
    return datetime.now(UTC).isoformat()


def _commit() -> str | None:
    """Return the commit of the code, with a + if there are uncommitted changes; None outside a
    checkout.
    """
    if not IS_CLONE:  # the packages may be installed inside another project's clone
        return None
    here = Path(__file__).parent
    command = [
        "git",
        "--no-optional-locks",
        "-C",
        str(here),
        "describe",
        "--always",
        "--abbrev=40",
        "--dirty=+",
        "--exclude=*",
    ]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None
