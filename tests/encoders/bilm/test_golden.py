"""Every way in which the biLM reads, against golden vectors of AllenNLP and of bilm-tf: those that
ship (`tests/golden/README.md`), and the original's own, which lie outside of the project.
"""

import json

import h5py
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from benchmarks import golden
from elmo_bench.encoders.bilm import State, bilm, load, pointwise, scan
from elmo_bench.text.chars import char_ids
from tests.conftest import GOLDEN

TOLERANCE = 1e-5
ORIGINALS = {"allennlp": "elmo", "bilm_tf": "bilm_tf/model"}
# How a biLM reads: what is set in its modules, and whether gradients are wanted.
WAYS = {
    "fast": ({}, False),
    "packed": ({(scan, "LARGE"): 1}, False),
    "without C": ({(scan, "LARGE"): 1, (pointwise, "LIBRARY"): None}, False),
    "gradients": ({}, True),
    "together": ({(bilm, "TOGETHER_ON"): ("cpu",)}, False),
    "together, gradients": ({(bilm, "TOGETHER_ON"): ("cpu",)}, True),
}


# A few batches for each way, the original's many for the usual one.
CASES = [(way, name) for way in WAYS for name in golden.BILMS] + [
    ("fast", name) for name in ORIGINALS
]


@pytest.fixture
def way(request, monkeypatch):
    """What makes a biLM read in one of the ways."""
    values, trains = WAYS[request.param]
    for (module, name), value in values.items():
        monkeypatch.setattr(module, name, value)

    return lambda model: model.eval().requires_grad_(trains)


def shipped(name, start):
    """A biLM, its batches, the layers "L N D" of each sentence of each, and the states after
    each.
    """
    folder = GOLDEN / "bilm" / name
    batches = json.loads((GOLDEN / "bilm" / "sentences.json").read_text("utf-8"))
    vectors = load_file(folder / "vectors.safetensors")
    edge = 2 if start == "zero" else 0
    layers = [
        [vectors[f"{start}.{k}"][:, row, : len(s) + edge] for row, s in enumerate(batch)]
        for k, batch in enumerate(batches)
    ]
    states = [(vectors[f"h.{k}"], vectors[f"c.{k}"]) for k in range(len(batches))]
    return load(folder / "options.json", folder / "weights.hdf5"), batches, layers, states


def original(fixtures, name, start):
    """As `shipped`; carried on, only the top layer: what bilm-tf itself gave out."""
    folder = fixtures / ORIGINALS[name]
    file = "sentences.json" if name == "allennlp" else "lm_embeddings_sentences.json"
    lists = json.loads((folder / file).read_text())
    lists = [[s.split() if isinstance(s, str) else s for s in sentences] for sentences in lists]
    model = load(folder / "options.json", folder / "lm_weights.hdf5")
    if start == "zero":  # in one batch, so that padding changes nothing
        vectors = np.load(fixtures / "derived" / f"elmo_stateless_{name}.npz")
        places = [key[1:].split("_") for key in vectors]
        batch = [lists[int(k)][int(place)] for k, place in places]
        return model, [batch], [[*vectors.values()]], None
    files = [h5py.File(folder / f"lm_embeddings_{k}.hdf5") for k in range(3)]
    layers = [[np.concatenate(file[str(k)][()], -1)[None] for file in files] for k in range(10)]
    return model, list(zip(*lists, strict=True)), layers, None


@pytest.mark.parametrize("start", ["zero", "carried"])
@pytest.mark.parametrize(("way", "name"), CASES, indirect=["way"])
def test_layers_and_states(request, way, name, start):
    """From a zero state every layer with the boundaries; or one batch after the other, the state
    handed on, layers and state.
    """
    if name in ORIGINALS:
        loaded = original(request.getfixturevalue("shared_fixtures"), name, start)
    else:
        loaded = shipped(name, start)
    model, batches, expected, states = loaded
    model, state = way(model), None
    for k, (batch, arrays) in enumerate(zip(batches, expected, strict=True)):
        before = state if start == "carried" else None
        layers, state = model.read(char_ids(batch), before, boundaries=start == "zero")
        for row, array in enumerate(arrays):
            ours, length = layers[:, row].detach(), array.shape[1]
            close(ours[-len(array) :, :length], array)
            assert not ours[:, length:].any()
        if start == "carried" and states:
            for ours, theirs in zip(State(*map(sides, state)), states[k], strict=True):
                close(ours, theirs)


def sides(state):
    """From "R L B P" to "L B RP", as AllenNLP has it."""
    return torch.cat([*state.detach()], -1)


def close(ours, theirs):
    np.testing.assert_allclose(ours.numpy(), theirs, atol=TOLERANCE, rtol=0)
