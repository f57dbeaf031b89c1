"""Callbacks that tell how soon a run's first training step would begin: for `benchmarks.processes`
and `benchmarks.starting`.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback


class Stop(Callback):
    """Ends the process at once, as a success."""

    def on_train_batch_start(self, *_: Any) -> None:
        os._exit(0)


class Note(Callback):
    """Writes `cpu.json` into the run's folder: seconds of CPU that its process had taken before the
    first training step, and after the test.
    """

    def __init__(self) -> None:
        self.first_step: float | None = None

    def on_train_batch_start(self, *_: Any) -> None:
        if self.first_step is None:
            self.first_step = time.process_time()

    def on_test_end(self, trainer: pl.Trainer, *_: Any) -> None:
        facts = {"first_step": self.first_step, "tested": time.process_time()}
        Path(trainer.default_root_dir, "cpu.json").write_text(json.dumps(facts), encoding="utf-8")
