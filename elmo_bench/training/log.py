"""A run's log, from the first of its processes: a line for each epoch."""

import logging
import time
from typing import Any

from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.plugins.environments import LightningEnvironment
from pytorch_lightning.utilities import rank_zero_only

from elmo_bench.terminal import Lines

log = logging.getLogger(__name__)


def is_first() -> bool:
    """Whether this is the run's first process; of nodes started by hand, the first node's."""
    return not (getattr(rank_zero_only, "rank", 0) or LightningEnvironment().node_rank())


class EpochLines(Callback):
    """Logs a line for each epoch; `seconds` is the time spent on training batches."""

    def __init__(self, monitor: str, started: float) -> None:
        self.monitor = monitor
        self.best = float("-inf")  # score on dev
        self.seconds = 0.0
        self.started = started  # start of this process, by time.perf_counter
        self.earlier = 0.0  # seconds that earlier, killed processes of the run took
        self.start: float | None = None  # start of a run of training batches; None outside them
        self.score = ""  # the last one on dev in this epoch
        self.mark = ""  # whether it is the best
        self.lines = Lines()  # progress of this epoch, or of this pass over dev or test

    @property
    def total(self) -> float:
        """All seconds of the run so far."""
        return self.earlier + time.perf_counter() - self.started

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.start = time.perf_counter()
        self.begun = self.start
        self.lines = Lines()

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.on_train_start(trainer, pl_module)
        self.score = ""
        self.mark = ""

    def on_train_batch_start(self, *_: Any) -> None:
        if self.start is None:  # after a look at dev within the epoch
            self.start = time.perf_counter()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if trainer.is_global_zero:
            work = f"epoch {trainer.current_epoch + 1} of at most {trainer.max_epochs}, batch"
            self.lines.at(work, batch_idx + 1, trainer.num_training_batches)

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._pause()
        self.lines = Lines()
        self.seen = 0  # batches of this pass

    on_test_start = on_validation_start

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.sanity_checking:
            return
        value = float(trainer.callback_metrics[self.monitor])
        self.score = f"   {self.monitor} {100 * value:5.2f}"
        self.mark = "  best so far" if value > self.best else ""
        self.best = max(value, self.best)

    def on_validation_batch_end(self, trainer: Trainer, *_: Any) -> None:
        self.seen += 1
        if trainer.is_global_zero:
            split = "test" if trainer.testing else "dev"
            self.lines.at(f"{split}, batch", self.seen, None)

    on_test_batch_end = on_validation_batch_end  # type: ignore[assignment]

    def _pause(self) -> None:
        if self.start is not None:
            self.seconds += time.perf_counter() - self.start
        self.start = None

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._pause()
        if trainer.is_global_zero:
            epoch = f"epoch {trainer.current_epoch + 1:2d} of at most {trainer.max_epochs}"
            loss = f"train/loss {float(trainer.callback_metrics['train/loss']):7.3f}"
            seconds = time.perf_counter() - self.begun
            log.info(f"{epoch}   {loss}{self.score}   {seconds:4.1f} s{self.mark}")

    def state_dict(self) -> dict[str, Any]:
        now = 0.0 if self.start is None else time.perf_counter() - self.start
        return {
            "best": self.best,
            "total": self.total,
            "score": self.score,
            "mark": self.mark,
            "seconds": self.seconds + now,
        }

    def on_load_checkpoint(self, trainer: Trainer, _: Any, checkpoint: dict[str, Any]) -> None:
        if trainer.training:  # loading the best epoch must not reset the run's times
            state = checkpoint["callbacks"][self.state_key]
            self.best = state["best"]
            self.seconds = state["seconds"]
            self.earlier = state["total"]
            self.score = state["score"]
            self.mark = state["mark"]
