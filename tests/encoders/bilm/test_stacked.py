"""The device path against the definition, here on a CPU, where torch's own operations stand in for
its kernels; and the kernels themselves by Triton's interpreter.
"""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_bench.encoders.bilm import bilm, char_ids, fast, stacked_scan
from elmo_bench.encoders.bilm.stacked import Stacked
from tests.encoders.bilm.test_fast import (
    BATCH,
    CHARS,
    assert_same,
    defined,
    frozen,
    random_state,
)


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    """Whoever falls back to the definition fails."""
    monkeypatch.setattr(fast, "STACKED_ON", ("cpu",))


@pytest.fixture
def no_definition(monkeypatch):
    monkeypatch.delattr(bilm.ProjectedLstm, "forward")


def trained(model):
    return copy.deepcopy(model).train().requires_grad_(True)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"skip_connections": False, "num_layers": 3},
        {"directions": ("forward",)},
        {"directions": ("backward",)},
    ],
)
@pytest.mark.parametrize("boundaries", [False, True])
def test_every_layer_and_state(changes, boundaries):
    model = frozen(**changes)
    state = random_state(model, len(BATCH))
    untouched = copy.deepcopy(state)
    for before in (None, state):
        found = model.read(CHARS, before, boundaries=boundaries)
        assert isinstance(model._packed, Stacked)
        assert_same(found, defined(model, CHARS, before, boundaries=boundaries))
    assert_same((state.h, state), (untouched.h, untouched), 0)


@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=7),
    padding=st.integers(0, 3),
    carried=st.booleans(),
    tokens=st.sampled_from([1, 5, 2048]),
    types=st.sampled_from([1, 4096]),
)
def test_any_batch(lengths, padding, carried, tokens, types):
    """In double precision: each layer, the state, and with gradients too."""
    model = frozen(torch.double)
    sentences = [["no", "naïve", "x" * 60, "a"][row % 4 :][:1] * n for row, n in enumerate(lengths)]
    chars = torch.nn.functional.pad(char_ids(sentences), (0, 0, 0, padding))
    state = random_state(model, len(sentences)) if carried else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stacked_scan, "INPUT_TOKENS", tokens)
        patch.setattr(fast, "GPU_TYPES", types)
        expected = defined(model, chars, state)
        assert_same(model.read(chars, state), expected, 1e-12)
        assert_same(trained(model).read(chars, state), expected, 1e-12)


def test_every_gradient(no_definition, monkeypatch):
    """Of a biLM that is fine-tuned, on sentences of any length with a carried state."""
    model = trained(frozen(torch.double))
    state = random_state(model, len(BATCH))
    for part in state:
        part.requires_grad_()
    found = _gradients(model, state)
    monkeypatch.undo()
    plain = bilm.BiLm(model.options).double().train()
    plain.load_state_dict(model.state_dict())
    for ours, theirs in zip(found, _gradients(plain, state), strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-9, rtol=1e-9)


def _gradients(model, state):
    layers, (h, c) = model.read(CHARS, state)
    loss = layers.square().sum() + h.sum() + c.square().sum()
    return torch.autograd.grad(loss, [*state, *model.parameters()])


@pytest.mark.parametrize("trains", [False, True])
def test_one_direction_alone(no_definition, monkeypatch, trains):
    """`run`, as perplexity calls it: sentences of any length, one of them empty; and the stream of
    pretraining, which has no mask.
    """
    model = frozen(torch.double)
    x = torch.randn(4, 5, 12, dtype=torch.double)
    state = random_state(model, 4)
    masks = [None, torch.arange(5) < torch.tensor([3, 5, 0, 5])[:, None]]
    reader = trained(model) if trains else model
    found = [reader.run(1, x, mask, state) for mask in masks]
    both = [*reader.run_directions([x, x], masks[1], state)]
    monkeypatch.undo()
    for mask, (layers, after) in zip(masks, found, strict=True):
        expected = bilm.BiLm.run(model, 1, x, mask, state)
        assert_same((torch.stack(layers), after), (torch.stack(expected[0]), expected[1]), 1e-12)
    assert_same((torch.stack(both[1][0]), both[1][1]), (torch.stack(found[1][0]), found[1][1]), 0)


def test_a_gap_is_for_the_definition():
    model = frozen(torch.double)
    x, state = torch.randn(1, 3, 12, dtype=torch.double), model.zero_state(1)
    gap = torch.tensor([[True, False, True]])
    expected = bilm.BiLm.run(model, 0, x, gap, state)
    assert torch.equal(model.run(0, x, gap, state)[0][-1], expected[0][-1])
    assert torch.equal(next(model.run_directions([x, x], gap, state))[0][-1], expected[0][-1])


def test_bfloat16(no_definition):
    """The LSTMs' products in bfloat16: within two percent of a layer's length, never exact; what
    comes out, and the token layer, in float32.
    """
    model = frozen(cell_clip=3.0, projection_clip=3.0)
    expected = model.read(CHARS)
    for near in (model, trained(model)):
        near.bf16 = True
        found = near.read(CHARS)
        torch.testing.assert_close(found[0][0], expected[0][0])
        for ours, exact in zip(
            (*found[0][1:], *found[1]), (*expected[0][1:], *expected[1]), strict=True
        ):
            assert ours.dtype == torch.float32
            assert 0 < (ours - exact).norm() < 0.02 * exact.norm()
    found[0].square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in near.parameters())


def test_changed_weights():
    model = frozen()
    model.read(CHARS)
    first = model._packed
    model.read(CHARS)
    assert model._packed is first
    with torch.no_grad():
        model.directions[1][0].projection_weight.mul_(0.5)
    assert_same(model.read(CHARS), defined(model, CHARS))
    assert model._packed is not first
    assert copy.deepcopy(model)._packed is None


def test_long_and_short():
    """Sentences that end at every step, no sentence, and sentences without a word."""
    model = frozen(torch.double)
    for sentences in ([["a"] * n for n in range(9)], [[]], [[], []]):
        chars = char_ids(sentences)
        assert_same(model.read(chars), defined(model, chars), 1e-12)
