"""Ends a training whose `Stopped` was swallowed."""

from typing import Any

from pytorch_lightning.callbacks import Callback

from elmo_bench.terminal import signals


class StopAgain(Callback):
    """Raises at the next batch what a signal has raised.

    Compiled code may clear any error that Python code below it raises, as some of torch does that
    looks up an attribute; a signal in such a moment would be said, and the training would go on.
    """

    def on_train_batch_start(self, *_: Any) -> None:
        signals.raise_again()
