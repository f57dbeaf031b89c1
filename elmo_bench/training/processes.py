"""The processes that share the batches of a training (`torch.distributed`); without any, this one
alone.
"""

from typing import TypeVar

import torch.distributed as dist

T = TypeVar("T")


def rank() -> int:
    """Return the number of this process; 0 is the first one."""
    return dist.get_rank() if dist.is_initialized() else 0


def of_all(value: T) -> list[T]:
    """Return the values of all processes; each must call it."""
    if not dist.is_initialized():
        return [value]
    values: list[T] = [value] * dist.get_world_size()
    dist.all_gather_object(values, value)
    return values
