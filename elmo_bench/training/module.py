"""The only LightningModule: trains and evaluates the model of any task."""

import math
from collections.abc import Callable, Iterable
from itertools import chain
from typing import Any

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch import Tensor
from torchmetrics import Metric

from elmo_bench.metrics import BySplit, Mean
from elmo_bench.nn import TaskModel
from elmo_bench.runs import Mix, flat_mix

from .batches import Numbered, of_all, rank
from .layer_norms import LayerNorms
from .optim import FineTuning, decaying, parameter_groups

CHECK_EVERY = 50  # steps between two checks of the loss; a check waits for the GPU


class TaskModule(pl.LightningModule):
    """Train a task's model on its loss plus the mix's penalty; decode predictions and update the
    metric on dev and test.

    `optimizer` takes parameter groups. A trained encoder has its own groups, as `finetuning` says,
    and so have the mixes' logits if `mix_lr` is given. Weight decay does not apply to parameters
    with fewer than two axes: norms, biases, the mix. `scheduler`, the task's own, takes the
    optimizer; a `schedule` replaces it and also takes the number of steps of the whole run. After
    evaluation or prediction, `predictions` maps the position of each example in its file to its
    prediction. With `encoder_is_elsewhere` (frozen, and in its own files) checkpoints omit the
    encoder.
    """

    def __init__(
        self,
        model: TaskModel,
        metric: Metric,
        optimizer: Callable[[Iterable[dict[str, Any]]], torch.optim.Optimizer],
        *,
        monitor: str,
        finetuning: FineTuning | None = None,
        mix_lr: float | None = None,
        scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
        schedule: Callable[[torch.optim.Optimizer, int], Any] | None = None,
        encoder_is_elsewhere: bool = False,
    ) -> None:
        super().__init__()
        self.model = model
        self.optimizer = optimizer
        self.scheduler = scheduler
        self.schedule = schedule
        self.monitor = monitor
        self.mix_lr = mix_lr
        self.finetuning = finetuning or FineTuning()
        self.metrics: Any = BySplit({"dev": metric, "test": metric.clone()})
        self.mean_loss = Mean()  # over the epoch so far
        self.layer_norms = LayerNorms(self.elmo.mixes)
        self.mean_norms: dict[str, list[float]] = {}  # by place, of the last pass over dev
        self.encoder_is_elsewhere = encoder_is_elsewhere
        self.predictions: dict[int, Any] = {}
        self.losses: list[tuple[Tensor, int]] = []  # of a batch: mean loss, number of examples

    @property
    def sums_losses(self) -> bool:
        """Whether the model's loss is a sum over examples instead of their mean."""
        return self.model.sums_losses

    @property
    def elmo(self) -> Any:
        """The model's ELMo."""
        return self.model.backbone.elmo

    def on_train_start(self) -> None:
        if dist.is_initialized():
            # Different dropout in each process: all had the same seed, to build the same model.
            torch.manual_seed(torch.initial_seed() + dist.get_rank())

    def training_step(self, numbered: Numbered, batch_idx: int) -> Tensor:
        return self.loss(numbered) + self.elmo.penalty()

    def loss(self, numbered: Numbered) -> Tensor:
        """Return the model's loss of some examples: their mean, or the sum if it sums losses."""
        loss = self.model.loss(self.model(numbered.batch), numbered.batch)
        count = len(numbered.numbers)
        mean = loss.detach() / count if self.sums_losses else loss.detach()
        self.losses.append((mean, count))
        return loss

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        num_examples = sum(count for _, count in self.losses)
        mean_of_batch: Any = sum(mean * (count / num_examples) for mean, count in self.losses)
        for mean, count in self.losses:
            self.mean_loss.update(mean.float() * count, count)
        self.losses = []
        self.log("train/loss", self.mean_loss, on_step=False, on_epoch=True, prog_bar=True)
        # Logged every trainer.log_every_n_steps.
        self.log("train/loss_step", mean_of_batch, on_step=True, on_epoch=False)
        if batch_idx % CHECK_EVERY == CHECK_EVERY - 1:
            self.check_loss()

    def check_loss(self) -> None:
        """Raise FloatingPointError if a loss of this epoch was not finite."""
        total = self.mean_loss.sums.item()
        if not math.isfinite(total):
            advice = "try a lower task.optimizer.lr"
            if "16" in str(self.trainer.precision):
                advice = "try trainer.precision=32-true, or a lower task.optimizer.lr"
            raise FloatingPointError(
                f"the loss is {total} at step {self.global_step} or before it; {advice}"
            )

    def predict_step(self, numbered: Numbered, batch_idx: int, split: str = "test") -> list:
        predicted = self.decoded(numbered, split)
        self.predictions |= zip(numbered.numbers, predicted, strict=True)
        return predicted

    def decoded(self, numbered: Numbered, split: str) -> list:
        """Return the predictions for some examples of a split."""
        predicted = self.model.decode(self.model(numbered.batch), numbered.batch)
        self.layer_norms.add()
        return predicted

    def validation_step(self, numbered: Numbered, batch_idx: int) -> None:
        self._measure("dev", numbered)

    def test_step(self, numbered: Numbered, batch_idx: int) -> None:
        self._measure("test", numbered)

    def _measure(self, split: str, numbered: Numbered) -> None:
        predicted = self.predict_step(numbered, 0, split)
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        gold = [data.examples[split][number].gold for number in numbered.numbers]
        self.metrics[split].update(predicted, gold)

    def on_validation_epoch_start(self) -> None:
        self.check_loss()
        if dist.is_initialized():  # running means of norms: the checkpoint has the first process's
            for buffer in self.model.buffers():
                dist.broadcast(buffer, 0)
        self.predictions = {}
        self.layer_norms.watch()

    def on_test_epoch_start(self) -> None:
        self.predictions = {}

    def on_validation_epoch_end(self) -> None:
        self._log_metric("dev")
        self.mean_norms = self.layer_norms.means()
        self.log_dict(flat_mix(self.mix()), sync_dist=True)
        if self.trainer.state.fn != "fit":
            self._gather_predictions()

    def on_test_epoch_end(self) -> None:
        self._log_metric("test")
        self._gather_predictions()

    def _gather_predictions(self) -> None:
        together: dict[int, Any] = {}
        for share in of_all(self.predictions):  # each process has a part
            together |= share
        self.predictions = together

    on_predict_epoch_end = _gather_predictions

    def _log_metric(self, split: str) -> None:
        values = self.metrics[split].compute()
        figures = {}
        for name, value in values.items():
            figures[f"{split}/{name}"] = value.float().to(self.device)
        if split == "dev" and self.monitor not in figures:  # a label that dev lacks
            asked = self.monitor.removeprefix("dev/")
            raise ValueError(f"task.monitor={asked}, but dev has only {', '.join(values)}")
        if self.monitor in figures and not figures[self.monitor].isfinite():
            raise FloatingPointError(
                f"{self.monitor} is {figures[self.monitor].item()}, so no epoch is the best: the "
                "metric must be a finite number, also if all predictions are equal"
            )
        self.log_dict(figures, sync_dist=True)
        self.metrics[split].reset()

    def mix(self) -> dict[str, Mix]:
        """Return s_j and gamma of each place's mix and, after scoring dev, its layers' norms."""
        by_place: dict[str, Mix] = {}
        for place, mix in self.elmo.mixes.items():
            by_place[place] = {
                "layers": mix.layers,
                "shares": mix.shares.tolist(),
                "gamma": mix.gamma.item(),
                "norms": self.mean_norms.get(place, []),
            }
        return by_place

    def configure_optimizers(self) -> Any:
        groups = parameter_groups(self, self.elmo, self.finetuning, self.mix_lr)
        optimizer = self.optimizer(groups)
        if optimizer.defaults.get("weight_decay"):
            optimizer = self.optimizer(list(chain.from_iterable(map(decaying, groups))))
        if self.schedule is not None:
            scheduler = self.schedule(optimizer, int(self.trainer.estimated_stepping_batches))
        elif self.scheduler is not None:
            scheduler = self.scheduler(optimizer)
        else:
            return {"optimizer": optimizer}
        # Schedules that monitor dev step after each epoch that scores it, others at each step.
        settings = {"scheduler": scheduler, "interval": "step", "monitor": self.monitor}
        if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau):
            every = self._trainer.check_val_every_n_epoch if self._trainer else None  # None: alone
            settings |= {"interval": "epoch", "frequency": every or 1}
        return {"optimizer": optimizer, "lr_scheduler": settings}

    def _elsewhere(self) -> dict[str, Tensor]:
        """Return the weights that checkpoints omit, by their names in a checkpoint."""
        if not self.encoder_is_elsewhere:
            return {}
        weights = self.elmo.encoder.state_dict()
        return {f"model.backbone.elmo.encoder.{name}": value for name, value in weights.items()}

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.check_loss()
        held: Any = self.mean_loss.metric_state
        # By process: each has its share of the epoch.
        losses = of_all({name: value.cpu() for name, value in held.items()})
        checkpoint["mean_loss"] = losses
        for name in self._elsewhere():
            del checkpoint["state_dict"][name]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["state_dict"].update(self._elsewhere())
        losses = checkpoint.get("mean_loss") or [{}]
        held: Any = self.mean_loss.metric_state
        for name, value in losses[rank() % len(losses)].items():
            held[name].copy_(value)
