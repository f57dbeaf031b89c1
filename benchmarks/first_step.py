"""Callbacks that measure how soon a run's first training step begins.

Used by `benchmarks.processes` and `benchmarks.starting`.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback


class Stop(Callback):
    """Ends the process with exit status 0 at the first training step."""

    def on_train_batch_start(self, *_: Any) -> None:
        os._exit(0)


class Note(Callback):
    """Writes `cpu.json` into the run's folder: CPU seconds before the first step and in total."""

    def __init__(self) -> None:
        self.first_step: float | None = None

    def on_train_batch_start(self, *_: Any) -> None:
        if self.first_step is None:
            self.first_step = time.process_time()

    def on_test_end(self, trainer: pl.Trainer, *_: Any) -> None:
        facts = {"first_step": self.first_step, "end": time.process_time()}
        path = Path(trainer.default_root_dir, "cpu.json")
        path.write_text(json.dumps(facts), encoding="utf-8")
