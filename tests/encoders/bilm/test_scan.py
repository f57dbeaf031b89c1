"""The recurrence for training, value and gradient, against autograd through the definition."""

import copy

import pytest
import torch

from elmo_bench.encoders.bilm import BiLm, Options, bilm, char_ids, packed
from elmo_bench.encoders.bilm.bilm import ProjectedLstm
from elmo_bench.encoders.bilm.fast import scan


@pytest.mark.parametrize("clip", [3.0, 0.2])
@pytest.mark.parametrize("lengths", [(1, 1, 1), (6, 6, 6), (5, 3, 3, 1)])
def test_equals_the_definition(clip, lengths):
    options = Options(
        cell_size=7, projection_size=5, filters=((1, 1),), cell_clip=clip, projection_clip=clip
    )
    lstm = ProjectedLstm(4, options).double()
    size, steps = len(lengths), lengths[0]
    mask = torch.arange(steps) < torch.tensor(lengths)[:, None]
    x = torch.randn(size, steps, 4, dtype=torch.double, requires_grad=True)
    h, c = (0.1 * torch.randn(size, width, dtype=torch.double) for width in (5, 7))
    leaves = [x, h.requires_grad_(), c.requires_grad_(), *lstm.parameters()]
    weights = [torch.randn(size, *rest, dtype=torch.double) for rest in ((steps, 5), (5,), (7,))]

    def by_hand():
        flat, last_h, last_c = scan(lstm, x.transpose(0, 1)[mask.T], mask.sum(0).tolist(), h, c)
        return (
            x.new_zeros(steps, size, 5).index_put((mask.T,), flat).transpose(0, 1),
            last_h,
            last_c,
        )

    found = []
    for outputs in (lstm(x, mask, h, c), by_hand()):
        loss = sum((output * weight).sum() for output, weight in zip(outputs, weights, strict=True))
        found.append([*outputs, *torch.autograd.grad(loss, leaves)])
    for by_definition, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, by_definition, atol=1e-12, rtol=1e-9)


@pytest.mark.parametrize("skip_connections", [False, True])
def test_a_fine_tuned_bilm(monkeypatch, skip_connections):
    """Sentences of any length, in float32 with packed weights: layers, state and every gradient."""
    monkeypatch.setattr(packed, "LARGE", 1)
    options = Options(
        24,
        12,
        ((1, 8), (3, 8)),
        cell_clip=0.4,
        projection_clip=0.3,
        skip_connections=skip_connections,
    )
    model = BiLm(options).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    defined = bilm.BiLm(options).train()
    defined.load_state_dict(copy.deepcopy(model.state_dict()))
    chars = char_ids(
        [["No"], ["The", "old", "brewery", "opened", "."], [], ["a", "", "naïve", "a"], ["No"]]
    )
    monkeypatch.delattr(ProjectedLstm, "forward")
    ours, (h, c) = model.read(chars)
    (ours.square().sum() + h.sum() + c.square().sum()).backward()
    monkeypatch.undo()
    expected, state = defined.read(chars)
    (expected.square().sum() + state.h.sum() + state.c.square().sum()).backward()
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)
    for (name, parameter), other in zip(
        model.named_parameters(), defined.parameters(), strict=True
    ):
        difference = (parameter.grad - other.grad).norm() / other.grad.norm()
        assert difference < 1e-5, name


def test_a_clip_that_bfloat16_rounds_down():
    """0.7 is 0.6992 there: what was clipped to it has no gradient."""
    options = Options(8, 4, ((1, 1),), projection_clip=0.7)
    lstm = ProjectedLstm(4, options)
    torch.nn.init.constant_(lstm.bias, 4.0)
    torch.nn.init.constant_(lstm.projection_weight, 1.0)
    with torch.autocast("cpu", torch.bfloat16):
        outputs, *_ = scan(lstm, torch.zeros(2, 4), [2], torch.zeros(2, 4), torch.zeros(2, 8))
    (gradient,) = torch.autograd.grad(outputs.sum(), lstm.projection_weight)
    assert (outputs == torch.tensor(0.7).bfloat16()).all()
    assert not gradient.any()
