"""Learning rates from step to step."""

import math

import pytest
import torch
from torch import nn
from transformers import get_linear_schedule_with_warmup

from elmo_bench.training.optim import linear_warmup

LRS = 0.5, 0.02


def rates(schedule, steps):
    """The learning rates of two groups at each step."""
    optimizer = torch.optim.SGD([{"params": [nn.Parameter(torch.ones(1))], "lr": lr} for lr in LRS])
    scheduler = schedule(optimizer)
    found = []
    for _ in range(steps):
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        scheduler.step()
    return found


@pytest.mark.parametrize(("warmup", "steps"), [(0.1, 30), (0.25, 7), (0.0, 5), (0.1, 1)])
def test_linear_warmup_is_that_of_transformers(warmup, steps):
    expected = rates(
        lambda optimizer: get_linear_schedule_with_warmup(
            optimizer, math.ceil(warmup * steps), steps
        ),
        steps,
    )
    ours = rates(lambda optimizer: linear_warmup(optimizer, steps, warmup=warmup), steps)
    assert torch.allclose(torch.tensor(ours), torch.tensor(expected))


@pytest.mark.parametrize("steps", [1, 2, 3, 9, 19])
def test_few_steps(steps):
    """No share is negative or more than the whole, also past the end."""
    shares = rates(lambda optimizer: linear_warmup(optimizer, steps), 2 * steps)
    assert all(0 <= rate <= LRS[0] for rate, _ in shares)
