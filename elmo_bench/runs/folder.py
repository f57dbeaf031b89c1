"""A run's folder: its start, `run.json`, and which earlier run it continues or repeats; its end,
`result.json`, with the versions and the commit of its code, or `error.txt`, where it fails.

A run in the folder of a finished one replaces it in five steps. Wherever a kill comes, readers then
find exactly one finished run there, and it is whole:

1. The new run reads its files and builds its model, and has touched nothing (`beginning`).
2. `replaced/` appears in the folder, with all files of the old run: links, which take no room on
   the disk. Readers ignore it while the folder itself has a `result.json` (`is_replaced`).
3. The `result.json` of the folder goes: from now on the old run is the one in `replaced/`. What is
   left of it in the folder follows, and the new run writes its `run.json` (`begin`).
4. The new run trains. If it fails or is killed, `replaced/` stays; the same command with
   resume=true continues it, and another command begins again at the end of step 3.
5. The `result.json` of the new run appears, whole, and readers ignore `replaced/`, which is then
   removed (`write_result`, `tidy`).
"""

import importlib.metadata
import logging
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
from elmo_bench.files import atomic, read_json, remove_scratch, scratch_path, write_json, write_text
from elmo_bench.terminal import signals

from .identity import hash_files, identity_of, num_layers_in
from .read import BEGUN, ENDED, ERROR, REPLACED, Run, read_run, readable

log = logging.getLogger(__name__)
LAST_CHECKPOINT = "last.ckpt"
# What a run writes besides what says how far it is.
WRITTEN = ("metrics.csv", "best.ckpt", "predictions", "counts", "tensorboard")
# Files of a run that the next run in its folder must not find, in the order in which they go: the
# first two say that a run may continue, or has ended.
LEFT = (LAST_CHECKPOINT, ENDED, *WRITTEN)
SETTINGS = ".hydra"  # Hydra's folder of the settings of a command
NEXT = f"{SETTINGS}/next"  # the same, of a command that may replace the finished run
# What Hydra and Lightning write into in place, so that a second name would not keep it as it was.
OVERWRITTEN = (SETTINGS, "hparams.yaml")
# All files of a finished run; the last one says that it is whole.
WHOLE = (BEGUN, *OVERWRITTEN, *WRITTEN, ENDED)
PACKAGES = ("torch", "pytorch-lightning", "hydra-core")  # whose versions a result has
ANOTHER = "choose another folder with hydra.run.dir=FOLDER"  # advice
SLURMS = "hpc_ckpt_*.ckpt"  # Lightning's under SLURM, which it would test or resume from


@contextmanager
def leaves_error(run_dir: str | None) -> Iterator[None]:
    """Make the folder of a run, and write the traceback of an exception to its error.txt.

    An earlier run's error.txt goes. That of another process of this run stays: of several processes
    the first that fails says why.
    """
    started = time.time()
    path = Path(run_dir, ERROR) if run_dir else None
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


@contextmanager
def beginning(cfg: DictConfig, files: Mapping[str, Path]) -> Iterator[None]:
    """Let a run `begin` before the block, which reads and builds what it needs, or after it, if its
    folder has a finished run: that one stays as it is if the block fails.
    """
    replaces = is_finished(Path(cfg.run_dir))
    if not replaces:
        begin(cfg, files)
    yield
    if replaces:
        begin(cfg, files)


def begin(cfg: DictConfig, files: Mapping[str, Path]) -> Path | None:
    """Prepare `run_dir` for a run that reads these files, write its `run.json`, and return the
    checkpoint to continue from, or None.

    A finished run in the folder goes to `replaced/`, until this one has finished, too; the files of
    one that did not finish are removed. Raises the errors of `goes_on_from`. One process of a run
    calls this, before it writes anything.
    """
    folder = Path(cfg.run_dir)
    folder.mkdir(parents=True, exist_ok=True)
    last = goes_on_from(cfg, files)
    for name in (*LEFT, REPLACED):
        remove_scratch(folder, name)
    for left in folder.glob(SLURMS):
        left.unlink()
    if last:
        return last
    replaces = is_finished(folder)
    if replaces:
        _set_aside(folder)
    # An earlier run.json stays until it is replaced: without it, what a kill leaves here would look
    # like a user's own files.
    for name in LEFT:
        _remove(folder / name)
    config = OmegaConf.to_container(cfg, resolve=True)  # identifies the run if it fails
    inputs = hash_files(files)
    identity = identity_of(cfg, inputs, num_layers_in(files))
    begun = {"identity": identity, "inputs": inputs, "started": now()}
    write_json(folder / BEGUN, begun | {"config": config})
    if replaces:
        for path in (folder / NEXT).glob("*"):
            path.replace(folder / SETTINGS / path.name)
    shutil.rmtree(folder / NEXT, ignore_errors=True)
    return None


def _remove(path: Path) -> None:
    """Remove a file, a link or a folder, if there is one."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def is_finished(folder: Path) -> bool:
    """Whether a folder has the result of a run, damaged ones aside."""
    return bool(read_or_empty(folder / ENDED))


def settings_folder(run_dir: str | Path) -> str:
    """Return the folder below `run_dir` for the settings of a command that runs there: not that of
    a finished run, which the command may not come to replace.
    """
    return NEXT if is_finished(Path(run_dir)) else SETTINGS


def _set_aside(folder: Path) -> None:
    """Give the finished run in a folder a second place, `replaced/`, completely or not at all."""
    _remove_replaced(folder)  # by the run that has finished, which a kill may have left
    aside = folder / REPLACED
    with atomic(aside) as part:
        part.mkdir()
        for name in WHOLE:
            keep = shutil.copy2 if name in OVERWRITTEN else _link
            if (folder / name).is_dir():
                shutil.copytree(folder / name, part / name, symlinks=True, copy_function=keep)
            elif (folder / name).is_file():
                keep(folder / name, part / name)
        shutil.rmtree(part / NEXT, ignore_errors=True)
    log.warning("%s has a finished run: it is in %s until the new one has finished", folder, aside)


def _link(path: str | Path, other: str | Path) -> None:
    """Give a file a second name, or copy it where the file system has no such names."""
    try:
        os.link(os.path.realpath(path), other)
    except OSError:
        shutil.copy2(path, other)


def _remove_replaced(folder: Path) -> None:
    """Remove `replaced/`. It loses its name first, since half of it would look like a user's."""
    aside = folder / REPLACED
    if aside.is_dir():
        with scratch_path(aside) as away:
            aside.rename(away)


def write_result(
    cfg: DictConfig,
    measured: Mapping[str, Any],
    choices: Mapping[str, str] | None = None,
    inputs: Mapping[str, str] | None = None,
) -> Run:
    """Write `result.json`, completely or not at all, and return the run: its config, versions and
    commit, and what it has `measured`, by fields of `Run`. Then `tidy` its folder.

    `choices` are the options of the config groups. Identity and start are those that `begin` wrote,
    and so are the inputs unless they are given. Raises FloatingPointError for a metric that is not
    finite, since nothing could read the file.
    """
    for name, value in measured["metrics"].items():
        if not math.isfinite(value):
            raise FloatingPointError(
                f"{name} is {value}, but a score in {ENDED} must be finite: see the metric's code"
            )
    content: dict[str, Any] = {"task": cfg.task.name, "seed": cfg.seed}
    content |= measured
    content["choices"] = dict(choices or {})
    content |= about(cfg)
    if inputs is not None:
        content["inputs"] = dict(inputs)
    content["finished"] = now()
    content |= code()
    path = Path(cfg.run_dir, ENDED)
    write_json(path, content)
    tidy(path.parent)
    return read_run(path)


def tidy(folder: Path) -> None:
    """Remove what a finished run has no more use for, and a kill may have left: its `last.ckpt`,
    and the run that it has replaced.
    """
    if is_finished(folder):
        with suppress(OSError):  # readers ignore what cannot be removed
            (folder / LAST_CHECKPOINT).unlink(missing_ok=True)
            remove_scratch(folder, REPLACED)
            _remove_replaced(folder)


def about(cfg: DictConfig) -> dict[str, Any]:
    """Return what `begin` wrote about a run (identity, inputs, start), and its config."""
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
    try:
        said = subprocess.check_output(
            command.split(),
            cwd=Path(__file__).parent,
            stderr=subprocess.DEVNULL,
            text=True,
            timeout=10,
        )
        return said.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def goes_on_from(cfg: DictConfig, files: Mapping[str, Path]) -> Path | None:
    """Return the `last.ckpt` in `run_dir`, of the same identity, that resume=true continues, or
    None.

    Raises ValueError if the run would lose others' files: its inputs, those of another job or of no
    run and, with resume=true, those of a run of another identity, finished or not.
    """
    folder = Path(cfg.run_dir)
    _check_loss(cfg, files)
    if not cfg.resume:
        return None
    identity = identity_of(cfg, hash_files(files), num_layers_in(files))
    last = last_checkpoint(folder, identity)
    if last:
        return last
    present = _identity_in(folder)
    kept = folder if is_finished(folder) else folder / REPLACED
    if present != identity and kept != folder and (folder / LAST_CHECKPOINT).is_file():
        raise ValueError(
            f"resume=true, but run_dir={folder} contains the last.ckpt of a run with other "
            f"settings or files: repeat its command to continue it, {ANOTHER}, or set "
            "resume=false, which deletes it"
        )
    if is_finished(kept) and identity not in (present, _identity_in(kept)):
        raise ValueError(
            f"resume=true, but run_dir={folder} contains a finished run with other settings or "
            f"files: {ANOTHER}, or set resume=false, which replaces it when the new run has "
            "finished"
        )
    return None


def _identity_in(folder: Path) -> Any:
    """Return the identity of the run in a folder; None without one."""
    either = read_or_empty(folder / ENDED) or read_or_empty(folder / BEGUN)
    return either.get("identity")


def _check_loss(cfg: DictConfig, files: Mapping[str, Path]) -> None:
    """Raise ValueError if a file to remove from `run_dir` is an input of this run, or belongs to
    another job or to no run.
    """
    folder = Path(cfg.run_dir)
    _check_inputs(folder, files)
    _check_job(folder, cfg)
    _check_own(folder)


def _check_inputs(folder: Path, files: Mapping[str, Path]) -> None:
    """Raise ValueError if an input of a run is among what the run removes from its folder."""
    removed = [(folder / name).resolve() for name in (*LEFT, REPLACED)]
    for name, path in files.items():
        if any(path.resolve().is_relative_to(place) for place in removed):
            raise ValueError(
                f"{name}={path} is inside run_dir={folder}, which this run would delete: {ANOTHER}"
            )


def _check_job(folder: Path, cfg: DictConfig) -> None:
    """Raise ValueError if a folder has a run of another job."""
    ours = OmegaConf.select(cfg, "job._target_")
    for result in (folder / ENDED, folder / REPLACED / ENDED):
        config = read_or_empty(result).get("config") or {}
        job = config.get("job") or {}
        if job.get("_target_", ours) != ours:
            raise ValueError(f"run_dir={folder} contains a run of another job: {ANOTHER}")
    # A job that reads a checkpoint writes none.
    if "checkpoint" in cfg and (folder / "best.ckpt").exists():
        raise ValueError(f"run_dir={folder} contains a run of another job: {ANOTHER}")


def _check_own(folder: Path) -> None:
    """Raise ValueError if a folder has files to remove that no run has written."""
    left = [name for name in LEFT if os.path.lexists(folder / name)]
    left += [path.name for path in folder.glob(SLURMS)]
    is_of_a_run = (folder / BEGUN).exists() or (folder / ENDED).exists()
    if left and not is_of_a_run:
        raise ValueError(
            f"run_dir={folder} contains {left[0]}, which this run would delete, but neither "
            f"{BEGUN} nor {ENDED}, so no run of elmo-bench wrote it: {ANOTHER}"
        )
    if os.path.lexists(folder / REPLACED) and not (folder / REPLACED / ENDED).is_file():
        raise ValueError(
            f"run_dir={folder} contains {REPLACED}, which this run would delete, but no "
            f"{REPLACED}/{ENDED}, so no run of elmo-bench wrote it: {ANOTHER}"
        )


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
