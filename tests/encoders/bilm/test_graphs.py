"""Windows of pretraining as graphs: which are captured, and that the numbers stay. On a CPU nothing
is captured, and the window itself stands in for its graph.
"""

import copy

import torch

from elmo_bench.encoders.bilm import State, fast
from elmo_bench.encoders.bilm.graphs import Graphs
from tests.encoders.bilm.test_fast import frozen, random_state


def windows(model, device="cpu"):
    """Three steps of SGD on windows with carried state: the last one's layers, state, gradients."""
    model = copy.deepcopy(model).to(device).train().requires_grad_(True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    torch.manual_seed(1)
    state = random_state(model, 4)
    for _ in range(3):
        inputs = torch.randn(2, 4, 5, 12).to(state.h).requires_grad_()
        optimizer.zero_grad()
        tops, states = [], []
        for outputs, after in model.run_directions([*inputs], None, state):
            tops.append(outputs[-1])
            states.append(after)
        torch.stack(tops).square().mean().backward()
        optimizer.step()
        state = State(*(torch.stack(parts).detach() for parts in zip(*states, strict=True)))
    gradients = [parameter.grad for parameter in model.directions.parameters()]
    return [*tops, *state, inputs.grad, *gradients]


def test_a_graph_a_layer(monkeypatch):
    monkeypatch.setattr(fast, "STACKED_ON", ("cpu",))
    model = frozen(torch.double)
    expected = windows(model)
    captured = []

    def capture(window, samples):
        captured.append([sample.requires_grad for sample in samples])
        return window

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", capture)
    model.graphs = Graphs()
    assert copy.deepcopy(model).graphs is None
    monkeypatch.setattr(fast.BiLm, "graphs", Graphs())  # so that the copy has them
    torch.testing.assert_close(windows(model), expected)
    assert captured == [[True, False, False, *[True] * 6]] * 2
    with torch.no_grad():
        model.requires_grad_(True).run_directions(
            [torch.zeros(1, 2, 12)] * 2, None, model.zero_state(1)
        )
    assert len(captured) == 2


def test_what_cannot_be_captured_runs_as_it_is(monkeypatch, caplog):
    monkeypatch.setattr(fast, "STACKED_ON", ("cpu",))
    model = frozen(torch.double)
    expected = windows(model)

    def refuse(window, samples):
        raise RuntimeError("operation not permitted when stream is capturing")

    monkeypatch.setattr(torch.cuda, "make_graphed_callables", refuse)
    monkeypatch.setattr(fast.BiLm, "graphs", Graphs())
    torch.testing.assert_close(windows(model), expected)
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 2  # once a layer
