"""Learning rate schedules per step, as factors of each parameter group's own rate."""

import math
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge, Gt, Lt
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

from elmo_bench.files import Dropout, Number


@dataclass(frozen=True)
class LinearWarmup:
    """Rise linearly from 0 during the first `warmup` share of all steps, then fall linearly to 0
    (Devlin et al. 2019); equal at each step to transformers' `get_linear_schedule_with_warmup`.
    """

    warmup: Dropout = 0.1

    def __call__(self, optimizer: Optimizer, num_steps: int) -> LambdaLR:
        return LambdaLR(optimizer, lambda step: self.share(step, num_steps))

    def share(self, step: int, num_steps: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0."""
        rise = math.ceil(self.warmup * num_steps)
        if step < rise:
            return step / rise
        return max(0.0, (num_steps - step) / max(1, num_steps - rise))


@dataclass(frozen=True)
class SlantedTriangular:
    """Rise from 1/`ratio` to 1 during the first `cut_frac` of all steps, then fall back to it
    (Howard and Ruder 2018, equation 3).
    """

    cut_frac: Annotated[Number, Gt(0), Lt(1)] = 0.1
    ratio: Annotated[Number, Ge(1)] = 32

    def __call__(self, optimizer: Optimizer, num_steps: int) -> LambdaLR:
        return LambdaLR(optimizer, lambda step: self.share(step, num_steps))

    def share(self, step: int, num_steps: int) -> float:
        """Return the factor of the learning rate at a step, counted from 0."""
        cut = max(1, math.floor(num_steps * self.cut_frac))
        fall = max(1, num_steps - cut)  # the paper's cut * (1 / cut_frac - 1), up to rounding
        height = step / cut if step < cut else max(0.0, 1 - (step - cut) / fall)
        return (1 + height * (self.ratio - 1)) / self.ratio
