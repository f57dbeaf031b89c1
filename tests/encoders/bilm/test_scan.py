"""One LSTM layer: AllenNLP's golden vectors, and a clip that bfloat16 rounds."""

import torch

from elmo_bench.encoders.bilm import Options
from elmo_bench.encoders.bilm.scan import Order, Scan


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
