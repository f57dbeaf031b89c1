"""The one LightningModule: any task's model, trained and measured."""

import math
from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torchmetrics import MeanMetric, Metric

from elmo_bench.data import Numbered
from elmo_bench.nn import Backbone

CHECK_EVERY = 50  # steps between two looks at the losses: a look waits for the GPU


@runtime_checkable
class TaskModel(Protocol):
    """What every task's model owes."""

    backbone: Backbone

    def __call__(self, batch: Any) -> Any: ...
    def loss(self, scores: Any, batch: Any) -> Tensor: ...
    def decode(self, scores: Any, batch: Any) -> list: ...


class TaskModule(pl.LightningModule):
    """Scores -> loss and the mix's penalty when training; scores -> decoded predictions -> metric
    on dev and test.

    `optimizer` takes parameter groups; an encoder that is trained too has a group of its own with
    `encoder_lr`, and so have the mixes' logits, if there is a `mix_lr`; ValueError where one is
    negative. After dev, a test or a prediction the predictions lie in `predictions`, by the
    example's place in its file. `scheduler` takes the optimizer. With `encoder_is_elsewhere`
    (frozen, and in files of its own) checkpoints leave the encoder out; they hold `content` beside
    the weights.
    """

    def __init__(
        self,
        model: TaskModel,
        metric: Metric,
        optimizer: Callable[[Iterable[dict[str, Any]]], torch.optim.Optimizer],
        *,
        monitor: str,
        encoder_lr: float,
        mix_lr: float | None = None,
        scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
        encoder_is_elsewhere: bool = False,
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.optimizer, self.scheduler = optimizer, scheduler
        for key, lr in (("elmo.lr", encoder_lr), ("elmo.mix_lr", mix_lr)):
            if lr is not None and (not isinstance(lr, int | float) or lr < 0):
                raise ValueError(f"{key}={lr}, but a learning rate is a number, 0 or more")
        self.monitor, self.encoder_lr, self.mix_lr = monitor, encoder_lr, mix_lr
        self.metrics: Any = nn.ModuleDict({"val": metric, "test": metric.clone()})
        self.mean_loss = MeanMetric(nan_strategy="disable")  # of the epoch so far
        self.losses: list[tuple[int, Tensor]] = []  # the latest steps', not looked at yet
        self.encoder_is_elsewhere = encoder_is_elsewhere
        self.rename: Callable[[Any], Any] | None = (
            None  # a prediction by the labels of another corpus
        )
        self.content: dict[str, Any] = {}
        self.predictions: dict[int, Any] = {}

    @property
    def elmo(self) -> Any:
        """The model's ELMo."""
        return self.model.backbone.elmo

    def on_train_start(self) -> None:
        if (
            dist.is_initialized()
        ):  # a dropout of its own for each process: all were seeded alike, to build the same model
            torch.manual_seed(torch.initial_seed() + dist.get_rank())

    def training_step(self, numbered: Numbered, batch_idx: int) -> Tensor:
        batch = numbered.batch
        loss = self.model.loss(self.model(batch), batch)
        self.mean_loss.update(loss.detach(), len(numbered.numbers))
        self.log("train/loss", self.mean_loss, on_step=False, on_epoch=True, prog_bar=True)
        self.losses.append((self.global_step, loss.detach()))
        if len(self.losses) == CHECK_EVERY:
            self.check_losses()
        self.log(
            "train/loss_step", loss.detach(), on_step=True, on_epoch=False
        )  # every trainer.log_every_n_steps
        return loss + self.elmo.penalty()

    def check_losses(self) -> None:
        """Look at the losses since the last look; FloatingPointError for the first that is no
        finite number.
        """
        steps, losses = [step for step, _ in self.losses], [loss for _, loss in self.losses]
        self.losses = []
        for step, loss in zip(steps, torch.stack(losses).tolist() if losses else [], strict=True):
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"the loss is {loss} at step {step}; try a lower task.optimizer.lr"
                )

    def validation_step(self, numbered: Numbered, batch_idx: int) -> None:
        self.predictions |= zip(numbered.numbers, self._measure("val", numbered), strict=True)

    def test_step(self, numbered: Numbered, batch_idx: int) -> None:
        self.predictions |= zip(numbered.numbers, self._measure("test", numbered), strict=True)

    def predict_step(self, numbered: Numbered, batch_idx: int) -> None:
        batch = numbered.batch
        self.predictions |= zip(
            numbered.numbers, self.model.decode(self.model(batch), batch), strict=True
        )

    def _measure(self, split: str, numbered: Numbered) -> list:
        batch = numbered.batch
        predicted = self.model.decode(self.model(batch), batch)
        if self.rename is not None:
            predicted = [self.rename(prediction) for prediction in predicted]
        self.metrics[split].update(predicted, batch.gold)
        return predicted

    def on_validation_epoch_start(self) -> None:
        self.check_losses()
        self.predictions = {}

    def on_test_epoch_start(self) -> None:
        self.predictions = {}

    def on_validation_epoch_end(self) -> None:
        self._log_metric("val")
        self.log_dict(self.mix(), sync_dist=True)
        if self.trainer.state.fn != "fit":
            self._gather_predictions()

    def on_test_epoch_end(self) -> None:
        self._log_metric("test")
        self._gather_predictions()

    def on_predict_epoch_end(self) -> None:
        self._gather_predictions()

    def _gather_predictions(self) -> None:
        if dist.is_initialized():  # each process has its share
            shares: list[Any] = [None] * dist.get_world_size()
            dist.all_gather_object(shares, self.predictions)
            self.predictions = {
                number: prediction for share in shares for number, prediction in share.items()
            }

    def _log_metric(self, split: str) -> None:
        figures = self.metrics[split].compute()
        self.log_dict(
            {f"{split}/{name}": value.float() for name, value in figures.items()}, sync_dist=True
        )
        self.metrics[split].reset()

    def mix(self) -> dict[str, float]:
        """s_j and gamma of each place's mix, as `elmo/input/s0` and `elmo/input/gamma`."""
        figures = {}
        for place, mix in self.elmo.mixes.items():
            for layer, share in zip(mix.layers, mix.shares.tolist(), strict=True):
                figures[f"elmo/{place}/s{layer}"] = share
            figures[f"elmo/{place}/gamma"] = mix.gamma.item()
        return figures

    def configure_optimizers(self) -> Any:
        elmo = self.elmo
        encoder = (
            set(elmo.encoder.parameters()) if elmo.finetune and elmo.encoder is not None else set()
        )
        logits = {mix.weights for mix in elmo.mixes.values()} if self.mix_lr is not None else set()
        trained = [p for p in self.parameters() if p.requires_grad]
        groups: list[dict[str, Any]] = [
            {"params": [p for p in trained if p not in encoder | logits], "name": "model"}
        ]
        for name, chosen, lr in (
            ("encoder", encoder, self.encoder_lr),
            ("mix", logits, self.mix_lr),
        ):
            if some := [p for p in trained if p in chosen]:
                groups.append({"params": some, "lr": lr, "name": name})
        optimizer = self.optimizer(groups)
        if self.scheduler is None:
            return {"optimizer": optimizer}
        # A schedule that watches dev moves once an epoch, any other once a step.
        scheduler = self.scheduler(optimizer)
        interval = (
            "epoch" if isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau) else "step"
        )
        schedule = {"scheduler": scheduler, "interval": interval, "monitor": self.monitor}
        return {"optimizer": optimizer, "lr_scheduler": schedule}

    def _elsewhere(self) -> dict[str, Tensor]:
        if not self.encoder_is_elsewhere:
            return {}
        return {
            f"model.backbone.elmo.encoder.{name}": value
            for name, value in self.elmo.encoder.state_dict().items()
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.check_losses()
        checkpoint |= self.content | {"mean_loss": dict(self.mean_loss.metric_state)}
        for name in self._elsewhere():
            del checkpoint["state_dict"][name]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["state_dict"].update(self._elsewhere())
        for name, value in checkpoint.get("mean_loss", {}).items():
            getattr(self.mean_loss, name).copy_(value)
