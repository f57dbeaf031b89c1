"""The recurrence for training, value and gradient, against autograd through the definition."""

import pytest
import torch

from elmo_bench.elmo import Options
from elmo_bench.elmo.bilm import ProjectedLstm


@pytest.mark.parametrize("clip", [3.0, 0.2])
@pytest.mark.parametrize("length", [1, 6])
def test_equals_the_definition(clip, length):
    options = Options(cell_size=7, projection_size=5, filters=((1, 1),), cell_clip=clip, projection_clip=clip)
    lstm = ProjectedLstm(4, options).double()
    x = torch.randn(3, length, 4, dtype=torch.double, requires_grad=True)
    h, c = 0.1 * torch.randn(3, 5, dtype=torch.double), 0.1 * torch.randn(3, 7, dtype=torch.double)
    weights = torch.randn(3, length, 5, dtype=torch.double)
    gradients = []
    for run in (lambda: lstm(x, torch.ones(3, length, dtype=torch.bool), h, c), lambda: lstm.stream(x, h, c)):
        outputs = run()
        (outputs[0] * weights).sum().backward()
        gradients.append([*(o.detach() for o in outputs), *(p.grad.clone() for p in [x, *lstm.parameters()])])
        for parameter in [x, *lstm.parameters()]:
            parameter.grad = None
    for by_definition, by_hand in zip(*gradients, strict=True):
        torch.testing.assert_close(by_hand, by_definition, atol=1e-12, rtol=1e-9)
