"""Fine-tuning an encoder with its task: learning rates (Howard and Ruder 2018, section 3.2)."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from elmo_bench.files import NotNegative, Share


@dataclass(frozen=True)
class FineTuning:
    """The learning rate of each parameter group of an encoder: `lr` for the top group, and for each
    lower group that of the group above it times `lr_decay`.
    """

    lr: NotNegative = 1e-4
    lr_decay: Share = 1.0

    def groups(self, encoder: Any) -> list[list[nn.Parameter]]:
        """Return the trainable parameter groups of an encoder, from the top group down; with LoRA,
        only the adapters.

        Raises ValueError if the groups do not contain each parameter of the encoder exactly once.
        """
        groups = encoder.parameter_groups()
        count, names = sum(map(len, groups)), {p: name for name, p in encoder.named_parameters()}
        grouped = {parameter for group in groups for parameter in group}
        if count != len(grouped) or grouped != names.keys():
            left_out = sorted(name for p, name in names.items() if p not in grouped)
            raise ValueError(
                f"{type(encoder).__name__}.parameter_groups() has {count} parameters, but it must "
                f"have all {len(names)} of the encoder, each once; it lacks "
                f"{', '.join(left_out[:3]) or 'none'}"
            )
        trained = [[p for p in group if p.requires_grad] for group in groups]
        return [group for group in trained if group]

    def lrs(self, count: int) -> list[int | float]:
        """Return the learning rates of `count` groups, from the top one down."""
        return [self.lr * self.lr_decay**below for below in range(count)]
