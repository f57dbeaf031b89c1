"""Which parameters are trained at which rate, and learning rates from step to step."""

import math

import pytest
import torch
from torch import nn
from transformers import get_linear_schedule_with_warmup

from elmo_bench.elmo import Elmo
from elmo_bench.encoders.bilm import BiLm, Options
from elmo_bench.training.optim import FineTuning, linear_warmup, parameter_groups

LRS = 0.5, 0.02
TINY = Options(cell_size=8, projection_size=4, filters=((1, 4), (3, 4)), num_layers=3)


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
    """Also past the end."""
    rise = math.ceil(warmup * steps)
    expected = rates(lambda it: get_linear_schedule_with_warmup(it, rise, steps), 2 * steps)
    ours = rates(lambda optimizer: linear_warmup(optimizer, steps, warmup=warmup), 2 * steps)
    assert torch.allclose(torch.tensor(ours), torch.tensor(expected))


def test_the_groups_of_a_bilm_and_their_rates():
    """And of the logits of the mix, which may learn at a rate of their own."""
    bilm = BiLm(TINY)
    names = {parameter: name for name, parameter in bilm.named_parameters()}
    elmo = Elmo(bilm, finetune=True)
    tuning = FineTuning(lr=0.1, lr_decay=0.5)
    _, *groups, mix = parameter_groups(elmo, elmo, tuning, mix_lr=0.7)
    assert (mix["lr"], mix["params"]) == (0.7, [elmo.mixes["input"].weights])
    table = [
        (group["lr"], {names[p].rpartition(".")[0] for p in group["params"]}) for group in groups
    ]
    lstms = [
        (rate, {f"directions.{d}.{k}" for d in range(2)})
        for rate, k in ((0.1, 2), (0.05, 1), (0.025, 0))
    ]
    assert table[:3] == lstms
    assert table[3][0] == 0.0125
    assert all(name.startswith("token_encoder.") for name in table[3][1])


def test_what_is_frozen_for_good_is_in_no_group():
    """As what LoRA has adapters beside."""
    bilm = BiLm(TINY)
    bilm.token_encoder.requires_grad_(False)
    bilm.directions[0][2].bias.requires_grad_(False)
    groups = FineTuning().groups(bilm)
    assert len(groups) == 3
    trained = {p for p in bilm.parameters() if p.requires_grad}
    assert {p for group in groups for p in group} == trained


def test_an_encoder_that_leaves_a_parameter_out():
    class Partly(nn.Module):
        def __init__(self):
            super().__init__()
            self.top, self.embeddings = nn.Linear(2, 2), nn.Embedding(3, 2)

        def parameter_groups(self):
            return [[*self.top.parameters()]]

    with pytest.raises(ValueError, match=r"Partly.parameter_groups\(\) has 2 .* 3 of the encoder, each once; it "
                       "lacks embeddings.weight"):  # fmt: skip
        FineTuning().groups(Partly())
