"""The scores of a trained model on a split, and what it leaves of them."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from . import cautions
from .data import TaskData
from .module import TaskModule
from .outputs import measured, write_counts

OtherScores = Callable[[Sequence[Any], Sequence[Any]], dict[str, float]]


def measure(
    trainer: pl.Trainer,
    module: TaskModule,
    data: TaskData,
    split: str,
    *,
    name: str,
    folder: Path,
    other_scores: OtherScores,
    best: bool = False,
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the model's scores on a split of its data, as fractions of 1, and warnings about its
    predictions; write the counts of each example to `folder`.

    `split` is "dev" or "test" of `data`, and `module.predictions` then has its predictions; `name`
    is that of the split in the figures, such as the `test` of `test/f1`. `other_scores` gives the
    task's further scores, of examples and predictions. The weights are those of the `best` epoch on
    dev, or else the module's.
    """
    score = trainer.validate if split == "dev" else trainer.test
    figures = score(module, data, ckpt_path="best" if best else None, verbose=False)
    metrics = {}
    for key, value in figures[0].items():
        if key.startswith(f"{split}/"):  # the mix is logged, too
            metrics[f"{name}/{key.removeprefix(f'{split}/')}"] = float(value)
    examples, predictions = measured(data.examples[split], module)
    for key, value in other_scores(examples, predictions).items():
        metrics[f"{name}/{key}"] = value
    warnings: dict[str, str] = {}
    if trainer.is_global_zero:
        write_counts(folder / "counts" / f"{name}.npz", data.examples[split], module)
        metric = module.metrics["test"]
        warnings = cautions.tell(cautions.of_predictions(metric, name, examples, predictions))
    return metrics, warnings
