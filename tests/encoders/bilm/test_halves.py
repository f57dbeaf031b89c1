"""One direction of a biLM: the left or right half of every layer, from any file."""

import pytest
import torch

from elmo_bench.encoders import encode
from elmo_bench.encoders.bilm import DIRECTIONS, BiLm, Options, load, save

SENTENCES = [["It", "rains", "."], ["No"], ["Ann", "sleeps", "and", "Bob", "sings"]]
PART = {"forward": slice(0, 4), "backward": slice(4, 8)}


@pytest.fixture
def bilm(tmp_path):
    model = BiLm(Options(cell_size=6, projection_size=4, filters=((1, 3), (3, 5))))
    save(model, tmp_path / "whole" / "weights.safetensors")
    return model.requires_grad_(False).eval()


def half(folder, direction, weights="weights.safetensors"):
    model = load(folder / "options.json", folder / weights, directions=[direction])
    return model.requires_grad_(False).eval()


def assert_half(layers, whole, direction):
    for ours, theirs in zip(layers, whole, strict=True):
        torch.testing.assert_close(ours, theirs[..., PART[direction]], rtol=0, atol=1e-6)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_half_is_half_of_every_layer(bilm, tmp_path, direction):
    whole, one = encode(bilm, SENTENCES), half(tmp_path / "whole", direction)
    assert (one.dim, one.num_layers) == (4, 3)
    other = half(tmp_path / "whole", DIRECTIONS[direction == "forward"])
    assert one.fingerprint() != other.fingerprint()
    assert_half(encode(one, SENTENCES), whole, direction)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("name", ["weights.hdf5", "weights.safetensors"])
def test_saved_it_is_a_biLM_of_one_direction(bilm, tmp_path, direction, name):  # noqa: N802
    save(half(tmp_path / "whole", direction), tmp_path / "half" / name)
    again = load(tmp_path / "half" / "options.json", tmp_path / "half" / name)
    assert again.options.directions == (direction,)
    assert again.fingerprint() == half(tmp_path / "whole", direction).fingerprint()
    assert half(tmp_path / "half", direction, name).fingerprint() == again.fingerprint()
    other = DIRECTIONS[direction == "forward"]
    with pytest.raises(ValueError, match=rf"\['{other}'\], but .* has only \['{direction}'\]"):
        half(tmp_path / "half", other, name)
