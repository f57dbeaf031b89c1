"""A small random biLM whose clips bind here and there, and a batch of sentences for it."""

import copy

import torch

from elmo_bench.encoders.bilm import BiLm, Options, State
from elmo_bench.text.chars import char_ids

SIZES = {"cell_size": 24, "projection_size": 12, "filters": ((1, 8), (2, 8), (3, 16))}
SIZES |= {"num_highway": 2, "cell_clip": 0.4, "projection_clip": 0.3}
BATCH = [
    ["The", "old", "brewery", "opened", "."],
    ["No"],
    [],
    ["a", "", "naïve", "a", "x" * 60, "<S>"],
]
CHARS = char_ids(BATCH)


def frozen(dtype=torch.float32, **changes):
    """A biLM whose clips bind here and there."""
    model = BiLm(Options(**SIZES | changes)).eval().to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    return model.requires_grad_(False)


def trained(model):
    return copy.deepcopy(model).train().requires_grad_(True)


def random_state(model, batch_size):
    return State(*(torch.randn_like(part) * 0.2 for part in model.zero_state(batch_size)))


def assert_same(found, expected, tolerance=1e-5):
    for ours, theirs in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)
