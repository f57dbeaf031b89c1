"""The highway LSTM against a loop over sentences and steps, the reference's golden numbers, and its
dropout.
"""

import json

import pytest
import torch
from torch.nn.utils.rnn import pack_padded_sequence

from elmo_bench.nn.rnn import AlternatingHighwayLstm, HighwayLstm


def one_sentence(layer: HighwayLstm, x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
    """He et al. (2017), equations 3 to 10, a token at a time."""
    h = c = x.new_zeros(layer.dim)
    outputs = {}
    for t in reversed(range(len(x))) if layer.backward else range(len(x)):
        projected = layer.input(x[t])
        i, f, o, r, g = (projected[: 5 * layer.dim] + layer.state(h)).chunk(5)
        c = i.sigmoid() * g.tanh() + f.sigmoid() * c
        skip = projected[5 * layer.dim :]
        h = outputs[t] = (r.sigmoid() * (o.sigmoid() * c.tanh()) + (1 - r.sigmoid()) * skip) * kept
    return torch.stack([outputs[t] for t in range(len(x))])


def slowly(stack: AlternatingHighwayLstm, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The whole encoder by that loop, without dropout."""
    result = x.new_zeros(*mask.shape, stack.dim)
    for row, length in enumerate(mask.sum(1).tolist()):
        h = x[row, :length]
        for layer in stack.layers:
            h = one_sentence(layer, h, x.new_ones(layer.dim))
        result[row, :length] = h
    return result


def mask_of(*lengths: int) -> torch.Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def small(**settings) -> AlternatingHighwayLstm:
    torch.manual_seed(3)
    return AlternatingHighwayLstm(
        **{"input_size": 5, "hidden_size": 4, "num_layers": 4} | settings
    ).double()


@pytest.mark.parametrize("lengths", [(3, 6, 1, 6, 2), (4, 4, 4), (7,)])
def test_equals_a_loop_over_sentences_and_steps_outputs_and_gradients(lengths):
    stack, mask = small(), mask_of(*lengths)
    x = torch.randn(*mask.shape, 5, dtype=torch.double, requires_grad=True)
    weights = torch.randn(*mask.shape, 4, dtype=torch.double)
    found, expected = stack(x, mask), slowly(stack, x, mask)
    torch.testing.assert_close(found, expected)
    assert not found[~mask].any()
    inputs = [x, *stack.parameters()]
    gradients = (torch.autograd.grad((out * weights).sum(), inputs) for out in (found, expected))
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("backward", [False, True])
def test_a_dropout_mask_falls_where_it_should(backward):
    torch.manual_seed(5)
    layer = HighwayLstm(input_size=3, hidden_size=6, backward=backward).double()
    lengths = [5, 3, 2]  # sorted, so the rows of the masks are those of the packed batch
    x, kept = torch.randn(3, 5, 3).double(), 1.5 * torch.randint(2, (3, 6)).double()
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True)
    found = layer(packed.data, packed.batch_sizes.tolist(), kept)
    for row, length in enumerate(lengths):
        places = [sum(min(n, t) for n in lengths) + row for t in range(length)]
        expected = one_sentence(layer, x[row, :length], kept[row])
        torch.testing.assert_close(found[places], expected)


def test_dropout_has_one_mask_a_sentence_and_none_in_evaluation():
    stack = small(num_layers=1, hidden_size=50, dropout=0.4)
    x, mask = torch.randn(8, 6, 5).double(), mask_of(*[6] * 8)
    dropped = stack(x, mask) == 0
    assert (dropped == dropped[:, :1]).all()
    assert not (dropped[:, 0] == dropped[:1, 0]).all()
    assert 0.25 < dropped.double().mean() < 0.55
    assert torch.equal(stack.eval()(x, mask), stack(x, mask))
    assert not (stack(x, mask) == 0).any()


def test_layers_alternate_and_start_as_the_paper_says():
    stack = small(num_layers=3)
    assert [layer.backward for layer in stack.layers] == [False, True, False]
    for layer in stack.layers:
        assert layer.state.bias.tolist() == [0] * 4 + [1] * 4 + [0] * 12
        for block in layer.state.weight.split(4):
            torch.testing.assert_close(block @ block.T, torch.eye(4).double(), atol=1e-5, rtol=0)


def test_a_sentence_without_words_and_mixed_precision():
    stack, mask = small(), torch.tensor([[True, True], [False, False]])
    assert not stack(torch.ones(2, 2, 5).double(), mask)[1].any()
    exact = stack.float()(x := torch.randn(2, 2, 5), mask)
    with torch.autocast("cpu", torch.bfloat16):
        torch.testing.assert_close(stack(x, mask).float(), exact, atol=0.03, rtol=0.03)


def test_the_cell_adds_up_small_changes_under_autocast():
    """Each of 600 steps adds a thousandth; in bfloat16 a cell of 0.5 no longer moves by that."""
    layer = HighwayLstm(input_size=1, hidden_size=1)
    with torch.no_grad():
        # i, f, o, r, g, x'
        layer.input.weight.copy_(torch.tensor([[0.0], [10], [10], [10], [1], [0]]))
        layer.state.weight.zero_()
        layer.state.bias.copy_(torch.tensor([-6.9, 0, 0, 0, 20]))
    x, kept = torch.ones(600, 1), torch.ones(1, 1)
    exact = layer(x, [1] * 600, kept)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x, [1] * 600, kept)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, atol=0.01, rtol=0.01)


def test_golden_numbers(golden_modules):
    cases = json.loads((golden_modules / "highway_lstm.json").read_text("utf-8"))["cases"]
    assert [case["forward"] for case in cases] == [True, False]
    for case in cases:
        arrays = {
            name: torch.tensor(value["data"]).double().reshape(value["shape"])
            for name, value in case.items()
            if isinstance(value, dict)
        }
        x, lengths = arrays["x"], torch.tensor(case["lengths"])
        size = arrays["outputs"].shape[-1]
        layer = HighwayLstm(
            input_size=x.shape[-1], hidden_size=size, backward=not case["forward"]
        ).double()
        ours = (layer.input.weight, layer.state.weight, layer.state.bias)
        names = ("input_weight_6H_i_f_g_o_r_x", "state_weight_5H_i_f_g_o_r", "state_bias")
        with torch.no_grad():
            for parameter, name in zip(ours, names, strict=True):
                i, f, g, o, r, *skip = arrays[name].split(size)
                parameter.copy_(torch.cat([i, f, o, r, g, *skip]))
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        found = layer(packed.data, packed.batch_sizes.tolist(), x.new_ones(len(x), size))
        expected = pack_padded_sequence(arrays["outputs"], lengths, batch_first=True).data
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)
