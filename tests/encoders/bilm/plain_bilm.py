"""The biLM as plain loops over sentences and tokens, from the formulas of the paper and of
TensorFlow's cell: the truth of the tests, with gradients by autograd.

Axes: as in `bilm.py`.
"""

import torch
import torch.nn.functional as F

from elmo_bench.encoders.bilm import State
from elmo_bench.encoders.bilm.bilm import add_boundaries


def token_vectors(cnn, chars):
    """The token vectors of words "N C"."""
    characters = cnn.embedding(chars).transpose(1, 2)
    x = cnn.activation(torch.cat([conv(characters).max(-1).values for conv in cnn.convolutions], 1))
    for highway in cnn.highways:
        gate = torch.sigmoid(highway.carry(x))
        x = gate * F.relu(highway.transform(x)) + (1 - gate) * x
    return cnn.projection(x)


def lstm(parameters, options, x, h, c):
    """The outputs "T P" of one layer and direction of one sentence "T I", and its last state."""
    weight, bias, projection = parameters
    outputs = []
    for token in x:
        i, j, f, o = F.linear(torch.cat([token, h]), weight, bias).chunk(4)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(j)
        c = c.clamp(-options.cell_clip, options.cell_clip)
        h = F.linear(torch.sigmoid(o) * torch.tanh(c), projection)
        h = h.clamp(-options.projection_clip, options.projection_clip)
        outputs.append(h)
    return torch.stack([*outputs, h])[:-1], h, c


def direction(bilm, number, x, state, row):
    """All layers "L T P" of one direction, in the order in which it reads them, and the states."""
    layers, states = [x], []
    for layer, parameters in enumerate(bilm.directions[number]):
        before = state.h[number, layer, row], state.c[number, layer, row]
        out, *after = lstm([*parameters.parameters()], bilm.options, x, *before)
        x = out + x if layer and bilm.options.skip_connections else out
        layers.append(x)
        states.append(after)
    return torch.stack(layers), [torch.stack(part) for part in zip(*states, strict=True)]


def read(bilm, chars, state=None, *, boundaries=False):
    """What `BiLm.read` returns."""
    framed, lengths = add_boundaries(chars)
    state = state or bilm.zero_state(len(chars))
    sentences, states = [], []
    for row, (words, length) in enumerate(zip(framed, lengths.tolist(), strict=True)):
        x = token_vectors(bilm.token_encoder, words[:length])
        sides = []
        for number, name in enumerate(bilm.options.directions):
            turn = (lambda y: y.flip(-2)) if name == "backward" else (lambda y: y)
            layers, after = direction(bilm, number, turn(x), state, row)
            sides.append((turn(layers), after))
        layers = torch.cat([layers for layers, _ in sides], -1)
        layers = layers if boundaries else layers[:, 1:-1]
        width = framed.shape[1] if boundaries else chars.shape[1]
        sentences.append(F.pad(layers, (0, 0, 0, width - layers.shape[1])))
        states.append([after for _, after in sides])
    h, c = (
        torch.stack([torch.stack([after[kind] for after in row]) for row in states], 2)
        for kind in range(2)
    )
    return torch.stack(sentences, 1), State(h, c)
