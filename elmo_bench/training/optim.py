"""What the optimizer trains at which rate: parameter groups, also of an encoder; a schedule of the
learning rate, as a factor of each group's own; an exponential moving average of the weights.
"""

import math
from dataclasses import dataclass
from itertools import chain
from typing import Annotated, Any

import torch
from annotated_types import Ge, Lt
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.callbacks import Callback
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from torch.optim.swa_utils import get_ema_multi_avg_fn

from elmo_bench.bounds import Dropout, NotNegative, Share

CURRENT = "current_weights"  # checkpoint key of the weights to resume training with


@dataclass(frozen=True)
class FineTuning:
    """The learning rate of each parameter group of an encoder: `lr` for the top group, and for each
    lower group that of the group above it times `lr_decay` (Howard and Ruder 2018, section 3.2).
    """

    lr: NotNegative = 1e-4
    lr_decay: Share = 1.0

    def groups(self, encoder: Any) -> list[list[nn.Parameter]]:
        """Return the trainable parameter groups of an encoder, from the top group down; with LoRA,
        only the adapters.

        Raises ValueError if the groups do not contain each parameter of the encoder exactly once.
        """
        groups = encoder.parameter_groups()
        count = sum(map(len, groups))
        names = {parameter: name for name, parameter in encoder.named_parameters()}
        grouped = set(chain.from_iterable(groups))
        if count != len(grouped) or grouped != names.keys():
            left_out = sorted(names[parameter] for parameter in names.keys() - grouped)
            raise ValueError(
                f"{type(encoder).__name__}.parameter_groups() has {count} parameters, but it must "
                f"have all {len(names)} of the encoder, each once; it lacks "
                f"{', '.join(left_out[:3]) or 'none'}"
            )
        trained = []
        for group in groups:
            of_group = [parameter for parameter in group if parameter.requires_grad]
            if of_group:
                trained.append(of_group)
        return trained


def parameter_groups(
    module: nn.Module, elmo: Any, finetuning: FineTuning, mix_lr: float | None = None
) -> list[dict[str, Any]]:
    """Return the trained parameters of a module: the task's own; the groups of its encoder from the
    top down, each with its learning rate; and the mixes' logits if `mix_lr` is given.
    """
    rates: dict[nn.Parameter, float] = {}  # of the encoder's parameters
    if elmo.finetune and elmo.encoder is not None:
        for below, group in enumerate(finetuning.groups(elmo.encoder)):
            rates |= dict.fromkeys(group, finetuning.lr * finetuning.lr_decay**below)
    logits: set[nn.Parameter] = set()  # those with a rate of their own
    if mix_lr is not None:
        logits = {mix.weights for mix in elmo.mixes.values()}
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    apart = logits | rates.keys()
    own = [parameter for parameter in trained if parameter not in apart]
    groups: list[dict[str, Any]] = [{"params": own, "name": "model"}]
    for below, lr in enumerate(dict.fromkeys(rates.values())):
        name = "encoder" if finetuning.lr_decay == 1 else f"encoder-{below}"
        of_encoder = [parameter for parameter in trained if rates.get(parameter) == lr]
        groups.append({"params": of_encoder, "lr": lr, "name": name})
    of_mixes = [parameter for parameter in trained if parameter in logits]
    if of_mixes:
        groups.append({"params": of_mixes, "lr": mix_lr, "name": "mix"})
    return groups


def decaying(group: dict[str, Any]) -> list[dict[str, Any]]:
    """Split a parameter group: weights of two or more axes decay; norms, biases, mix do not."""
    weights = []
    others = []
    for parameter in group["params"]:
        if parameter.ndim > 1:
            weights.append(parameter)
        else:
            others.append(parameter)
    parts = []
    if weights:
        parts.append(group | {"params": weights})
    if others:
        name = f"{group['name']} without decay"
        parts.append(group | {"params": others, "weight_decay": 0.0, "name": name})
    return parts


def linear_warmup(
    optimizer: Optimizer, num_steps: int, *, warmup: Annotated[int | float, Ge(0), Lt(1)] = 0.1
) -> LambdaLR:
    """Rise linearly from 0 during the first `warmup` share of all steps, then fall linearly to 0
    (Devlin et al. 2019); equal at each step to transformers' `get_linear_schedule_with_warmup`.
    """
    rise = math.ceil(warmup * num_steps)

    def share(step: int) -> float:
        if step < rise:
            return step / rise
        return max(0.0, (num_steps - step) / max(1, num_steps - rise))

    return LambdaLR(optimizer, share)


class WeightAverage(Callback):
    """Average the trained parameters after each step; evaluation and checkpoints use the average.

    The average starts at random weights, so early steps count for more: after n steps the decay is
    the smaller of `decay` and (1 + n) / (10 + n). Lightning's own EMAWeightAveraging would also
    copy a frozen encoder, write it to every checkpoint, and test with the last weights instead of
    the averaged weights of the best epoch.
    """

    def __init__(self, *, decay: Dropout) -> None:
        self.decay = decay
        self.steps = 0
        self.weights: dict[str, Tensor] = {}
        self.average: dict[str, Tensor] = {}  # in 32 bits or more: 16 would round small steps away
        self.current: dict[str, Tensor] = {}  # to go on with, during a validation or when resumed

    @torch.no_grad()
    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.steps = trainer.global_step
        self.weights = {name: p for name, p in pl_module.named_parameters() if p.requires_grad}
        for name, weight in self.weights.items():
            dtype = torch.promote_types(weight.dtype, torch.float32)
            average = self.average.get(name, weight)
            self.average[name] = average.to(weight.device, dtype, copy=True)
        self._go_on()

    def on_train_batch_end(self, trainer: Trainer, *_: Any) -> None:
        if trainer.global_step == self.steps:  # gradients are still accumulating
            return
        self.steps = trainer.global_step
        decay = min(self.decay, (1 + self.steps) / (10 + self.steps))
        averages = list(self.average.values())
        weights = []
        for name, average in self.average.items():
            weights.append(self.weights[name].to(average.dtype))
        get_ema_multi_avg_fn(decay)(averages, weights, self.steps)

    @torch.no_grad()
    def on_validation_start(self, *_: Any) -> None:
        """Exchange the weights by value: layers hold their memory."""
        for name, weight in self.weights.items():
            self.current[name] = weight.clone()
            weight.copy_(self.average[name])

    @torch.no_grad()
    def _go_on(self, *_: Any) -> None:
        for name, weight in self.weights.items():
            weight.copy_(self.current.pop(name, weight))

    on_validation_end: Any = _go_on

    def on_fit_end(self, *_: Any) -> None:
        """Leave the average in the model, and evaluate weights loaded from now on unchanged."""
        self.on_validation_start()
        self.weights = {}
        self.average = {}
        self.current = {}

    def on_save_checkpoint(self, _: Any, pl_module: Any, checkpoint: dict[str, Any]) -> None:
        state = checkpoint["state_dict"]
        names = {id(weight): name for name, weight in self.weights.items()}
        if names:
            checkpoint[CURRENT] = {name: state[name] for name in names.values()}
        # A tied weight stands in a checkpoint under each of its names.
        for name, weight in pl_module.named_parameters(remove_duplicate=False):
            if id(weight) in names:
                state[name] = self.average[names[id(weight)]]

    def on_load_checkpoint(self, trainer: Trainer, _: Any, checkpoint: dict[str, Any]) -> None:
        if trainer.training:
            self.current = checkpoint.get(CURRENT, {})
            self.average = {name: checkpoint["state_dict"][name] for name in self.current}
