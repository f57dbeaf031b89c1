import json

import pytest
import torch

from elmo_bench.elmo import ScalarMix


def tensor(golden):
    return torch.tensor(golden["data"]).view(golden["shape"])


@pytest.mark.parametrize("norm", ["none", "batch"])
def test_golden(golden_modules, norm):
    golden = json.loads((golden_modules / "scalar_mix.json").read_text("utf-8"))
    layers = torch.stack([tensor(layer) for layer in golden["layers"]])
    mix = ScalarMix(len(layers), norm=norm)
    with torch.no_grad():
        mix.weights.copy_(torch.tensor(golden["w"]))
        mix.gamma.fill_(golden["gamma"])
        ours = mix(layers, torch.tensor(golden["mask"]).bool())
    wanted = golden["mix_layer_norm" if norm == "batch" else "mix"]
    torch.testing.assert_close(ours, tensor(wanted), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("choice", ["bottom", "01", [], 7, -1, [0, 3], [0, 0]])
def test_what_names_no_layer(choice):
    with pytest.raises(ValueError, match=r"but it must be all, top, uniform, .* layers 0..2"):
        ScalarMix(3, choice)


def batches(count):
    """Layers of unlike scale under masks: (layers, mask) `count` times."""
    scales = torch.tensor([1.0, 5.0, 0.1])[:, None, None, None]
    for _ in range(count):
        mask = torch.arange(6) < torch.randint(1, 7, (4, 1))
        yield 3 + scales * torch.randn(3, 4, 6, 8), mask


@pytest.mark.parametrize("norm", ["batch", "word"])
@pytest.mark.parametrize("choice", ["all", [0, 2]])
def test_in_evaluation_a_vector_depends_on_no_other_of_its_batch(norm, choice):
    mix = ScalarMix(3, choice, norm=norm)
    for layers, mask in batches(5):
        mix(layers[mix.layers], mask)
    mix.eval()
    layers, mask = next(batches(1))
    layers = layers[mix.layers]
    alone = mix(layers[:, 1:2, :1], mask[1:2, :1])
    torch.testing.assert_close(alone, mix(layers, mask)[1:2, :1])


def test_running_statistics_are_those_of_all_training_batches():
    mix = ScalarMix(3, norm="batch")
    words = []
    for layers, mask in batches(50):
        mix(layers, mask)
        words.append(layers[:, mask])
    values = torch.cat(words, 1).flatten(1)
    torch.testing.assert_close(mix.norm.mean, values.mean(1), rtol=0.05, atol=0)
    torch.testing.assert_close(mix.norm.variance, values.var(1), rtol=0.05, atol=0)
    again = ScalarMix(3, norm="batch")
    again.load_state_dict(mix.state_dict())
    layers, mask = next(batches(1))
    assert torch.equal(again.eval()(layers, mask), mix.eval()(layers, mask))


def test_each_word_by_itself():
    layers, mask = next(batches(1))
    mixed = ScalarMix(3, 1, norm="word")(layers[1:2], mask)
    torch.testing.assert_close(mixed.mean(-1), torch.zeros(4, 6), atol=1e-6, rtol=0)
    torch.testing.assert_close(mixed.std(-1, correction=0), torch.ones(4, 6))


@pytest.mark.parametrize(
    ("choice", "shares"),
    [
        ("all", [1 / 3] * 3),
        ("uniform", [1 / 3] * 3),
        ("top", [0, 0, 1]),
        (0, [1, 0, 0]),
        ([0, 2], [0.5, 0, 0.5]),
    ],
)
def test_choices(choice, shares):
    layers = torch.randn(3, 2, 4, 5)
    mix = ScalarMix(3, choice)
    expected = sum(share * layer for share, layer in zip(shares, layers, strict=True))
    torch.testing.assert_close(mix(layers[mix.layers], torch.ones(2, 4).bool()), expected)


def test_what_learns():
    assert ScalarMix(3, "all").weights.requires_grad
    assert not ScalarMix(3, "uniform").weights.requires_grad
    assert ScalarMix(3, "uniform").gamma.requires_grad


@pytest.mark.parametrize("norm", ["none", "batch", "word"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_float32_under_autocast(norm, dtype):
    """A batch's sums too: a count of words does not fit into a bfloat16."""
    mix, mask = ScalarMix(3, norm=norm), torch.arange(40) < torch.tensor([[40], [17], [3]])
    layers = (3 + torch.randn(3, 3, 40, 8)).to(dtype)
    exact = mix(layers.float(), mask)
    with torch.autocast("cpu", torch.bfloat16):
        found = mix(layers, mask)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact)
