import json

import numpy as np
import pytest
import torch

from elmo_bench.elmo import ScalarMix


def tensor(golden):
    return torch.tensor(np.array(golden["data"], dtype=np.float32).reshape(golden["shape"]))


@pytest.mark.parametrize("layer_norm", [False, True])
def test_golden(fixtures, layer_norm):
    golden = json.loads((fixtures / "derived" / "scalar_mix.json").read_text())
    layers = torch.stack([tensor(layer) for layer in golden["layers"]])
    mix = ScalarMix(len(layers), layer_norm=layer_norm)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor(golden["w"]))
        mix.gamma.fill_(golden["gamma"])
        ours = mix(layers, torch.tensor(golden["mask"]).bool())
    torch.testing.assert_close(ours, tensor(golden["mix_layer_norm" if layer_norm else "mix"]), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("choice", "shares"),
    [
        ("all", [1 / 3] * 3),
        ("uniform", [1 / 3] * 3),
        ("top", [0, 0, 1]),
        (0, [1, 0, 0]),
        (1, [0, 1, 0]),
        ([0, 2], [0.5, 0, 0.5]),
    ],
)
def test_choices(choice, shares):
    layers = torch.randn(3, 2, 4, 5)
    mix = ScalarMix(3, choice)
    expected = sum(share * layer for share, layer in zip(shares, layers, strict=True))
    torch.testing.assert_close(mix(layers, torch.ones(2, 4, dtype=torch.bool)), expected)


def test_what_learns():
    assert ScalarMix(3, "all").weights.requires_grad
    assert not ScalarMix(3, "uniform").weights.requires_grad
    assert ScalarMix(3, "uniform").gamma.requires_grad


def test_penalty_is_on_the_logits_alone():
    mix = ScalarMix(3)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor([1.0, -2.0, 3.0]))
        mix.gamma.fill_(100.0)
    assert mix.penalty().item() == 14.0


@pytest.mark.parametrize("choice", [7, -1, [0, 3]])
def test_a_layer_that_is_not_there(choice):
    with pytest.raises(ValueError, match=r"elmo.mix=.* names layers \[.*\], but the biLM has layers 0..2"):
        ScalarMix(3, choice)


@pytest.mark.parametrize("choice", ["best", [], [0, 0]])
def test_nonsense(choice):
    with pytest.raises(ValueError, match=r"elmo\.mix="):
        ScalarMix(3, choice)
