"""`last.ckpt`: a killed and resumed run gives the same results as an uninterrupted one, bit for bit
on a CPU. (Without a store, a frozen biLM may give other last digits, since its cache of words is
new.)

Lightning's checkpoints lack the position in the epoch's batches, the random state, the curves, and
whether training was over. A schedule that monitors dev also misses a step when a run resumes.
"""

import csv
import random
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.plugins.io import TorchCheckpointIO

from elmo_bench.files import atomic
from elmo_bench.terminal.signals import stopped_behind

from .batches import of_all
from .checkpoint import load, refusing

ASK_EVERY = 50  # several processes check the clock every so many batches
KEY = "last"  # key of our additions to Lightning's checkpoints


def save_state(content: dict[str, Any], path: str | Path) -> None:
    """Write a checkpoint atomically, so that a kill or a full disk leaves the previous one.

    Raises OSError if it cannot be written, and what a signal raises while it is.
    """
    # torch's own writer does not report a full disk, so we open the file.
    with atomic(path) as part, part.open("wb") as file:
        try:
            torch.save(content, file)
        except RuntimeError as error:  # torch raises it for a failed write
            stopped = stopped_behind(error)
            if stopped:
                raise stopped from None
            free = shutil.disk_usage(part.parent).free
            raise OSError(f"cannot write {path} ({free / 1e9:,.3f} GB free): {error}") from error


class AtomicCheckpoints(TorchCheckpointIO):
    """Writes checkpoints with `save_state`, and reads them without running code in them."""

    def load_checkpoint(
        self, path: str | Path, map_location: Any = None, weights_only: bool | None = None
    ) -> dict[str, Any]:
        return load(path)

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None
    ) -> None:
        save_state(checkpoint, path)


class StepCheckpoint(Callback):
    """Writes `path` before each epoch, every `minutes` before a step, and after the last step.

    Before a step, dev scores, schedule and curves are complete up to the previous step.
    `trainer.fit(ckpt_path=path)` resumes there; its `TaskData` must begin at `start_of(path)`.
    """

    def __init__(self, path: Path, *, minutes: int | float) -> None:
        self.path = path
        self.minutes = minutes
        self.saving = False
        self.batches = 0  # batches of this epoch that training has done
        self.written = 0.0
        self.random: dict[str, Any] | None = None  # random state to restore
        self.figures: dict[str, torch.Tensor] = {}  # last scores on dev, to restore
        self.has_begun = False  # whether all of a checkpoint is restored

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.has_begun = True
        if self.random is None:
            return
        # `path` lies before a batch, at which no stage of Lightning's restarts begins: after a look
        # at dev it would skip a batch, with trainer.max_steps a part of dev, and at the end of the
        # epoch a schedule that monitors dev. Only the count of the epoch's batches must remain.
        trainer.fit_loop.epoch_loop.reset_restart_stage()
        trainer.fit_loop._restarting = False  # the setter would set True with trainer.max_steps
        trainer.fit_loop.epoch_loop.restarting = self.batches > 0
        # What monitors dev at the end of an epoch reads the last look at it.
        trainer._logger_connector._callback_metrics.update(self.figures)

    def on_train_batch_start(self, trainer: Trainer, _: Any, batch: Any, batch_idx: int) -> None:
        if self.random is not None:  # not earlier, because creating the loader's iterator draws
            set_random_state(self.random)
            self.random = None
            self.written = time.monotonic()
            return
        # Several processes ask the first one's clock, which is costly.
        asks = trainer.world_size == 1 or batch_idx % ASK_EVERY == 0
        begins_step = batch_idx % trainer.accumulate_grad_batches == 0
        due = time.monotonic() - self.written >= 60 * self.minutes
        if begins_step and (batch_idx == 0 or (asks and trainer.strategy.broadcast(due))):
            self._write(trainer, batch_idx)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._write(trainer, 0)

    def _write(self, trainer: Trainer, batches: int) -> None:
        self.saving = True
        self.batches = batches
        trainer.save_checkpoint(self.path)
        self.saving = False
        self.written = time.monotonic()

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        if not self.saving:
            return
        _rewind_counters(checkpoint["loops"]["fit_loop"], self.batches)
        figures = trainer._logger_connector._callback_metrics
        curves = [_curves(logger) for logger in _csv_loggers(trainer)]
        checkpoint[KEY] = {
            "epoch": trainer.current_epoch,
            "batches": self.batches,
            "is_over": trainer.should_stop,
            "random": of_all(random_state()),
            "curves": curves,
            "figures": {name: float(value) for name, value in figures.items()},
        }

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: Any, checkpoint: dict[str, Any]
    ) -> None:
        if not trainer.training:
            return
        state = checkpoint[KEY]
        self.batches = state["batches"]
        trainer.should_stop = state["is_over"]
        self.figures = {name: torch.tensor(value) for name, value in state["figures"].items()}
        self.random = state["random"][trainer.global_rank % len(state["random"])]
        for logger, text in zip(_csv_loggers(trainer), state["curves"], strict=False):
            _restore_curves(logger, text)
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, ModelCheckpoint):
                _relocate(checkpoint["callbacks"][callback.state_key], callback)


def start_of(path: Path | None) -> tuple[int, int]:
    """Return where training goes on from a checkpoint: an epoch, and how many of its batches are
    done; without one (None), where it begins.
    """
    if path is None:
        return 0, 0
    state = load(path)[KEY]
    return state["epoch"], state["batches"]


@contextmanager
def naming_checkpoint(path: Path | None, last: StepCheckpoint) -> Iterator[None]:
    """Turn an error in restoring the checkpoint `path` into a ValueError that names it.

    Without a checkpoint (None), all errors pass unchanged. So do OSError and lack of memory.
    """
    try:
        yield
    except Exception:
        if path is None or last.has_begun:
            raise
        advice = "; move it away, and the same command starts again"
        with refusing(path, "this run cannot continue from it", advice):
            raise


def _rewind_counters(loops: dict[str, Any], batches: int) -> None:
    """Set Lightning's counters: `batches` of the epoch are done and the next has not begun.

    With 0, the epoch has not begun either.
    """
    progress = loops["epoch_loop.batch_progress"]
    progress["is_last_batch"] = False
    if batches > 0:  # Lightning's restart within an epoch adds one
        loops["epoch_loop.state_dict"]["_batches_that_stepped"] -= 1
    for counts in (progress["total"], progress["current"]):
        counts["ready"] = counts["completed"]
    if batches == 0:
        for counts in loops["epoch_progress"].values():
            counts["ready"] = counts["completed"]
            counts["started"] = counts["completed"]


def _relocate(saved: dict[str, Any], best: ModelCheckpoint) -> None:
    """Point the saved state of the best checkpoint to the run's current folder.

    The run may have moved, and Lightning deletes what this state names: so no name is taken from
    the file, which a stranger may have written.
    """
    path = str(Path(str(best.dirpath), f"{best.filename}.ckpt")) if saved["best_model_path"] else ""
    saved |= {"dirpath": best.dirpath, "best_model_path": path, "kth_best_model_path": path}
    saved["best_k_models"] = dict(zip([path], saved["best_k_models"].values(), strict=False))


def _csv_loggers(trainer: Trainer) -> Sequence[CSVLogger]:
    loggers = trainer.loggers if trainer.is_global_zero else []
    return [logger for logger in loggers if isinstance(logger, CSVLogger)]


def _curves(logger: CSVLogger) -> str:
    """Return the text of metrics.csv with its line ends, after flushing all rows."""
    logger.save()
    path = Path(logger.experiment.metrics_file_path)
    return path.read_bytes().decode() if path.is_file() else ""


def _restore_curves(logger: CSVLogger, text: str) -> None:
    """Restore the saved rows; the run will write the rows after its last checkpoint again."""
    if text:
        with atomic(logger.experiment.metrics_file_path) as part:
            part.write_bytes(text.encode())
        logger.experiment.metrics_keys = next(csv.reader([text.partition("\n")[0].rstrip("\r")]))


def random_state() -> dict[str, Any]:
    """Return the state of Python's, numpy's and torch's generators, as plain data and tensors."""
    name, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": (name, np.asarray(keys).tolist(), *rest),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None,
    }


def set_random_state(state: dict[str, Any]) -> None:
    """Restore what `random_state` returned."""
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_initialized():
        torch.cuda.set_rng_state(state["cuda"])
