"""Learning rates from step to step."""

import math

import pytest
import torch
from torch import nn
from transformers import get_linear_schedule_with_warmup

from elmo_bench.training.optim import linear_warmup, slanted_triangular

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


def test_slanted_triangular_is_the_papers():
    """Equation 3, worked out step by step."""
    steps, cut_frac, ratio = 50, 0.1, 32
    cut = 5
    expected = []
    for t in range(steps):
        p = t / cut if t < cut else 1 - (t - cut) / (cut * (1 / cut_frac - 1))
        expected.append([lr * (1 + p * (ratio - 1)) / ratio for lr in LRS])
    ours = rates(lambda optimizer: slanted_triangular(optimizer, steps), steps)
    assert torch.allclose(torch.tensor(ours), torch.tensor(expected))
    assert ours[cut] == list(LRS)
    assert ours[0] == [lr / ratio for lr in LRS]


@pytest.mark.parametrize("steps", [1, 2, 3, 9, 19])
@pytest.mark.parametrize("schedule", [linear_warmup, slanted_triangular])
def test_few_steps(schedule, steps):
    """No share is negative or more than the whole, also past the end."""
    shares = rates(lambda optimizer: schedule(optimizer, steps), 2 * steps)
    assert all(0 <= rate <= LRS[0] for rate, _ in shares)
