"""The only LightningModule: trains and evaluates the model of any task."""

import math
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Protocol, runtime_checkable

import pytorch_lightning as pl
import torch
import torch.distributed as dist
from torch import Tensor, nn
from torchmetrics import Metric

from elmo_bench.elmo import FineTuning
from elmo_bench.files import Positive
from elmo_bench.nn import Backbone
from elmo_bench.runs import Mix, flat_mix

from .data import Numbered
from .metrics import MeanLoss, MeanNorms
from .processes import of_all, rank

CHECK_EVERY = 50  # steps between two checks of the losses; a check waits for the GPU


@runtime_checkable
class TaskModel(Protocol):
    """The interface of every task's model.

    `loss` is the mean over the examples of a batch, or their sum if the model has `sums_losses =
    True`.
    """

    backbone: Backbone

    def __call__(self, batch: Any) -> Any: ...
    def loss(self, scores: Any, batch: Any) -> Tensor: ...
    def decode(self, scores: Any, batch: Any) -> list: ...


class TaskModule(pl.LightningModule):
    """Train a task's model on its loss plus the mix's penalty; decode predictions and update the
    metric on dev and test.

    `optimizer` takes parameter groups. A trained encoder has its own groups, as `finetuning` says,
    and so have the mixes' logits if `mix_lr` is given. Weight decay does not apply to parameters
    with fewer than two axes: norms, biases, the mix. `scheduler`, the task's own, takes the
    optimizer; a `schedule` replaces it and also takes the number of steps of the whole run. After
    evaluation or prediction, `predictions` maps the position of each example in its file to its
    prediction. With `encoder_is_elsewhere` (frozen, and in its own files) checkpoints omit the
    encoder; they contain `content` besides the weights.
    """

    def __init__(
        self,
        model: TaskModel,
        metric: Metric,
        optimizer: Callable[[Iterable[dict[str, Any]]], torch.optim.Optimizer],
        *,
        monitor: str,
        finetuning: FineTuning | None = None,
        mix_lr: Positive | None = None,
        scheduler: Callable[[torch.optim.Optimizer], Any] | None = None,
        schedule: Callable[[torch.optim.Optimizer, int], Any] | None = None,
        encoder_is_elsewhere: bool = False,
    ) -> None:
        super().__init__()
        self.model: Any = model
        self.optimizer, self.scheduler, self.schedule = optimizer, scheduler, schedule
        self.monitor, self.mix_lr = monitor, mix_lr
        self.finetuning = finetuning or FineTuning()
        self.encoder_groups: list[list[nn.Parameter]] = []  # trained, from the top layer down
        self.metrics: Any = nn.ModuleDict({"dev": metric, "test": metric.clone()})
        self.norms: Any = nn.ModuleDict(
            {place: MeanNorms(len(mix.layers)) for place, mix in self.elmo.mixes.items()}
        )
        self.mean_norms: dict[str, list[float]] = {}  # place -> layers' norms on dev, last pass
        self.watching: list[Any] = []  # hooks during passes over dev
        self.mean_loss = MeanLoss()  # mean over the epoch so far
        self.losses: list[tuple[int, Tensor]] = []  # recent steps' losses, not checked yet
        self.encoder_is_elsewhere = encoder_is_elsewhere
        # Maps a prediction to the labels of another corpus.
        self.rename: Callable[[Any], Any] | None = None
        self.content: dict[str, Any] = {}
        self.predictions: dict[int, Any] = {}

    @property
    def elmo(self) -> Any:
        """The model's ELMo."""
        return self.model.backbone.elmo

    def on_train_start(self) -> None:
        if dist.is_initialized():
            # Different dropout in each process: all had the same seed, to build the same model.
            torch.manual_seed(torch.initial_seed() + dist.get_rank())
        self.on_train_epoch_start()  # not called by Lightning if a run resumes within an epoch

    def on_train_epoch_start(self) -> None:
        self.finetuning.freeze(self.encoder_groups, self.current_epoch)

    def training_step(self, numbered: Numbered, batch_idx: int) -> Tensor:
        batch = numbered.batch
        loss = self.model.loss(self.model(batch), batch)
        summed = getattr(self.model, "sums_losses", False)
        # Mean per example, independent of the batch size.
        mean = loss.detach() / (len(numbered.numbers) if summed else 1)
        self.mean_loss.update(mean, len(numbered.numbers))
        self.log("train/loss", self.mean_loss, on_step=False, on_epoch=True, prog_bar=True)
        self.losses.append((self.global_step, loss.detach()))
        if len(self.losses) == CHECK_EVERY:
            self.check_losses()
        # Logged every trainer.log_every_n_steps.
        self.log("train/loss_step", mean, on_step=True, on_epoch=False)
        return loss + self.elmo.penalty()

    def check_losses(self) -> None:
        """Check the losses since the last check. Raises FloatingPointError for the first one that
        is not finite.
        """
        steps, losses = [step for step, _ in self.losses], [loss for _, loss in self.losses]
        self.losses = []
        for step, loss in zip(steps, torch.stack(losses).tolist() if losses else [], strict=True):
            if not math.isfinite(loss):
                raise FloatingPointError(
                    f"the loss is {loss} at step {step}; try a lower task.optimizer.lr"
                )

    def validation_step(self, numbered: Numbered, batch_idx: int) -> None:
        self.predictions |= zip(numbered.numbers, self._measure("dev", numbered), strict=True)

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
        data: Any = self.trainer.datamodule  # type: ignore[attr-defined]
        examples = data.examples[split]
        self.metrics[split].update(predicted, [examples[k].gold for k in numbered.numbers])
        return predicted

    def on_validation_epoch_start(self) -> None:
        self.check_losses()
        self.predictions = {}
        for place, mix in self.elmo.mixes.items():
            hook = mix.register_forward_pre_hook(partial(_measure_norms, self.norms[place]))
            self.watching.append(hook)

    def on_test_epoch_start(self) -> None:
        self.predictions = {}

    def on_validation_epoch_end(self) -> None:
        self._log_metric("dev")
        self._settle_norms()
        self.log_dict(flat_mix(self.mix()), sync_dist=True)
        if self.trainer.state.fn != "fit":
            self._gather_predictions()

    def on_test_epoch_end(self) -> None:
        self._log_metric("test")
        self._gather_predictions()

    def on_predict_epoch_end(self) -> None:
        self._gather_predictions()

    def _gather_predictions(self) -> None:
        shares = of_all(self.predictions)  # each process has a part
        self.predictions = {number: one for share in shares for number, one in share.items()}

    def _log_metric(self, split: str) -> None:
        figures = {
            f"{split}/{name}": value.float()
            for name, value in self.metrics[split].compute().items()
        }
        if self.monitor in figures and not figures[self.monitor].isfinite():
            raise FloatingPointError(
                f"{self.monitor} is {figures[self.monitor].item()}, so no epoch is the best: the "
                "metric must be a finite number, also if all predictions are equal"
            )
        self.log_dict(figures, sync_dist=True)
        self.metrics[split].reset()

    def _settle_norms(self) -> None:
        while self.watching:
            self.watching.pop().remove()
        for place, norms in self.norms.items():
            # torchmetrics returns a single value as a scalar.
            self.mean_norms[place] = norms.compute().flatten().tolist()
            norms.reset()

    def mix(self) -> dict[str, Mix]:
        """Return s_j and gamma of each place's mix and, after an evaluation on dev, the mean norm
        of each layer.
        """
        return {
            place: {
                "layers": mix.layers,
                "shares": mix.shares.tolist(),
                "gamma": mix.gamma.item(),
                "norms": self.mean_norms.get(place, []),
            }
            for place, mix in self.elmo.mixes.items()
        }

    def configure_optimizers(self) -> Any:
        groups = self._parameter_groups()
        optimizer = self.optimizer(groups)
        if optimizer.defaults.get("weight_decay"):
            optimizer = self.optimizer([part for group in groups for part in decaying(group)])
        if self.schedule is not None:
            num_steps = self.trainer.estimated_stepping_batches
            if math.isinf(num_steps):
                raise ValueError(
                    "trainer.max_epochs=-1, but a schedule needs the number of steps: leave it out "
                    "and set fit.max_epochs, or use schedule=constant"
                )
            scheduler = self.schedule(optimizer, int(num_steps))
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

    def _parameter_groups(self) -> list[dict[str, Any]]:
        """Return the trainable parameters: the task's own, the encoder's, the mixes' logits."""
        elmo = self.elmo
        if elmo.finetune and elmo.encoder is not None:
            self.encoder_groups = self.finetuning.groups(elmo.encoder)
        lrs = self.finetuning.lrs(len(self.encoder_groups))
        rates = {p: lr for group, lr in zip(self.encoder_groups, lrs, strict=True) for p in group}
        logits = {mix.weights for mix in elmo.mixes.values()} if self.mix_lr is not None else set()
        trained = [p for p in self.parameters() if p.requires_grad]
        own = [p for p in trained if p not in logits and p not in rates]
        groups: list[dict[str, Any]] = [{"params": own, "name": "model"}]
        for below, lr in enumerate(dict.fromkeys(lrs)):
            name = "encoder" if self.finetuning.lr_decay == 1 else f"encoder-{below}"
            some = [p for p in trained if rates.get(p) == lr]
            groups.append({"params": some, "lr": lr, "name": name})
        if some := [p for p in trained if p in logits]:
            groups.append({"params": some, "lr": self.mix_lr, "name": "mix"})
        return groups

    def _elsewhere(self) -> dict[str, Tensor]:
        if not self.encoder_is_elsewhere:
            return {}
        return {
            f"model.backbone.elmo.encoder.{name}": value
            for name, value in self.elmo.encoder.state_dict().items()
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        self.check_losses()
        checkpoint |= self.content | {"mean_loss": _of_all_processes(self.mean_loss)}
        for name in self._elsewhere():
            del checkpoint["state_dict"][name]

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["state_dict"].update(self._elsewhere())
        states = checkpoint.get("mean_loss") or [{}]
        state = states[rank() % len(states)]
        for name in state.keys() & self.mean_loss.metric_state.keys():
            getattr(self.mean_loss, name).copy_(state[name])


def _of_all_processes(metric: Metric) -> list[dict[str, Any]]:
    """Return the states of a metric, by process: each has its share of the epoch."""
    held: Any = metric.metric_state
    state = {name: value.cpu() for name, value in held.items()}
    return of_all(state)


def _measure_norms(norms: MeanNorms, mix: Any, given: tuple[Tensor, Tensor]) -> None:
    norms.update(mix.normed(*given), given[1])


def decaying(group: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a parameter group in two: weights with two or more axes, which decay, and all others
    (norms, biases, the mix), which do not.
    """
    weights = [p for p in group["params"] if p.ndim > 1]
    others = [p for p in group["params"] if p.ndim < 2]
    exempt = {"weight_decay": 0.0, "name": f"{group['name']} without decay"}
    parts = [group | {"params": weights}, group | {"params": others} | exempt]
    return [part for part in parts if part["params"]]
