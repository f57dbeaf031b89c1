"""One LSTM layer: AllenNLP's golden vectors, and outputs and gradients against a plain loop."""

import json

import numpy as np
import pytest
import torch

from elmo_bench.encoders.bilm import Options
from elmo_bench.encoders.bilm.scan import Order, Scan
from tests.encoders.bilm import oracle


def clipped(cell, projection):
    return Options(7, 5, ((1, 1),), cell_clip=cell, projection_clip=projection)


def scanned(x, lengths, h, c, clips, parameters):
    """The outputs "R B T P" and last states of rows of these lengths."""
    order = Order(lengths, x.shape[2], [False] * len(x), x.device)
    size, before = h.shape[2], (h[:, order.sentences], c[:, order.sentences])
    tokens = x.flatten(1, 2)[order.sides, order.places]
    out, *last = Scan.apply(tokens, *before, order.rows, clips, x.dtype, *parameters)
    outputs = x.new_zeros(len(x), x.shape[1] * x.shape[2], size)
    outputs = outputs.index_put((order.sides, order.places), out)
    return outputs.unflatten(1, x.shape[1:3]), *(part[:, order.unsorted] for part in last)


def test_golden_clips(modules):
    """One layer whose clips both bind, rows of unequal length (its gates come as i, f, g, o; forget
    bias inside).
    """
    golden = json.loads((modules / "lstmp_clip.json").read_text("utf-8"))

    def array(name):
        return np.array(golden[name]["data"], dtype=np.float32).reshape(golden[name]["shape"])

    projection, cell = array("WP").shape
    order = [0, 2, 1, 3]
    weight = array("W").reshape(4, cell, -1)[order].reshape(4 * cell, -1)
    bias = array("b").reshape(4, cell)[order]
    bias[2] -= 1
    parameters = [torch.tensor(each) for each in (weight, bias.reshape(-1), array("WP"))]
    lengths, clips = golden["lengths"], clipped(golden["cell_clip"], golden["proj_clip"])
    zeros = torch.zeros(1, len(lengths), projection), torch.zeros(1, len(lengths), cell)
    found = scanned(torch.tensor(array("x"))[None], lengths, *zeros, clips, parameters)
    for ours, theirs in zip(found, ("outputs", "final_h", "final_c"), strict=True):
        np.testing.assert_allclose(ours[0].numpy(), array(theirs), atol=1e-6)


@pytest.mark.parametrize("directions", [1, 2])
@pytest.mark.parametrize("clip", [3.0, 0.2])
@pytest.mark.parametrize("lengths", [(1, 1, 1), (6, 6, 6), (3, 0, 5, 3, 1)])
def test_equals_the_loop(directions, clip, lengths):
    """In double precision: outputs, last states and every gradient."""
    options = clipped(clip, clip)

    def random(*shape):
        return torch.randn(*shape, dtype=torch.double, requires_grad=True)

    shapes = (28, 9), (28,), (5, 7)
    parameters = [random(*shape) for _ in range(directions) for shape in shapes]
    count, width = len(lengths), max(lengths)
    x, h, c = (random(directions, count, *rest) for rest in ((width, 4), (5,), (7,)))
    ours = scanned(x, lengths, h, c, options, parameters)
    theirs = [torch.zeros_like(part) for part in ours]
    for side in range(directions):
        own = parameters[3 * side : 3 * side + 3]
        for row, length in enumerate(lengths):
            before = x[side, row, :length], h[side, row], c[side, row]
            results = oracle.lstm(own, options, *before)
            theirs[0][side, row, :length] = results[0]
            theirs[1][side, row], theirs[2][side, row] = results[1:]
    weights, leaves = [torch.randn_like(part) for part in ours], [x, h, c, *parameters]
    gradients = [
        torch.autograd.grad(sum((a * b).sum() for a, b in zip(part, weights, strict=True)), leaves)
        for part in (ours, theirs)
    ]
    torch.testing.assert_close([*ours], theirs, atol=1e-12, rtol=1e-9)
    torch.testing.assert_close(*gradients, atol=1e-12, rtol=1e-9)


def test_a_clip_that_bfloat16_rounds_down():
    """0.7 is 0.6992 there: what was clipped to it has no gradient."""
    weight, bias = torch.zeros(32, 8), torch.full((32,), 4.0)
    projection = torch.ones(4, 8, requires_grad=True)
    before = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4), torch.zeros(1, 2, 8)
    clips = clipped(3.0, 0.7)
    outputs, *_ = Scan.apply(*before, [2], clips, torch.bfloat16, weight, bias, projection)
    (gradient,) = torch.autograd.grad(outputs.sum(), projection)
    assert (outputs == torch.tensor(0.7).bfloat16()).all()
    assert not gradient.any()
