"""How an encoder is trained with its task: its learning rates, and what trains when (Howard and
Ruder 2018, sections 3.2 and 3.3).
"""

from dataclasses import dataclass
from typing import Any

from torch import nn

from elmo_bench.checks import one_of

UNFREEZE = ("all", "gradual")


@dataclass(frozen=True)
class FineTuning:
    """The learning rate of an encoder's groups of parameters, and the epoch in which each begins.

    The top group has `lr`, each lower one the rate above it times `lr_decay`. All train from the
    first epoch on, or (`unfreeze="gradual"`) the top one does and one more joins in each epoch.
    Raises ValueError for a setting that cannot be.
    """

    lr: int | float = 1e-4
    lr_decay: int | float = 1.0
    unfreeze: str = "all"

    def __post_init__(self) -> None:
        if not isinstance(self.lr, int | float) or self.lr < 0:
            raise ValueError(f"elmo.lr={self.lr}, but it must be a number, 0 or more")
        if not isinstance(self.lr_decay, int | float) or not 0 < self.lr_decay <= 1:
            raise ValueError(
                f"elmo.lr_decay={self.lr_decay}, but it must be greater than 0 and at most 1"
            )
        one_of("elmo.unfreeze", self.unfreeze, UNFREEZE)

    def groups(self, encoder: Any) -> list[list[nn.Parameter]]:
        """What trains of an encoder, from the top group down; of LoRA, the adapters alone.

        Raises ValueError for an encoder whose groups are not all its parameters, each once.
        """
        groups = encoder.parameter_groups()
        count, names = sum(map(len, groups)), {p: name for name, p in encoder.named_parameters()}
        grouped = {parameter for group in groups for parameter in group}
        if count != len(grouped) or grouped != names.keys():
            left_out = sorted(name for p, name in names.items() if p not in grouped)
            raise ValueError(
                f"{type(encoder).__name__}.parameter_groups() names {count} parameters, but it has "
                f"to name the encoder's {len(names)}, each once"
                + (f"; it leaves out {', '.join(left_out[:3])}" if left_out else "")
            )
        trained = [[p for p in group if p.requires_grad] for group in groups]
        return [group for group in trained if group]

    def lrs(self, count: int) -> list[int | float]:
        """The learning rates of so many groups, from the top one down."""
        return [self.lr * self.lr_decay**below for below in range(count)]

    def freeze(self, groups: list[list[nn.Parameter]], epoch: int) -> None:
        """Let the groups train that do so in this epoch, counted from 0, and no other: what is
        frozen has no gradient, so that its optimizer leaves it, and its own state of it, alone.
        """
        for below, group in enumerate(groups):
            for parameter in group:
                parameter.requires_grad_(self.unfreeze == "all" or below <= epoch)
