"""How far rounding moves the numbers of a stored vector, and which it does not move."""

import pytest
import torch

from elmo_bench.encoders import build_store
from elmo_bench.encoders.static import WordVectors
from elmo_bench.encoders.store import pack, row_bytes, unpack


@pytest.fixture
def vectors():
    """Of every length that float32 has, one with a number far beyond the others, and zeros."""
    lengths = torch.logspace(-44, 37, 82)[:, None]
    lone = torch.full((1, 24), 1e-3).index_fill(1, torch.tensor([5]), -3e4)
    return torch.cat([torch.randn(82, 24) * lengths, lone, torch.zeros(1, 24)])


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_no_number_moves_by_more_than_half_a_step(vectors, dtype):
    packed = pack(vectors.view(2, 42, 24), dtype)
    assert packed.nbytes == 84 * row_bytes(24, dtype)
    largest = vectors.abs().amax(-1, keepdim=True)
    half = vectors.abs() / 2**8 if dtype == "bfloat16" else largest / 254
    moved = (unpack(packed).view(84, 24).double() - vectors).abs()
    assert (moved <= half * (1 + 1e-5) + torch.finfo(torch.float32).tiny).all()


@pytest.mark.parametrize(
    ("dtype", "exact"),
    [("bfloat16", torch.arange(-256.0, 257)), ("int8", torch.arange(-127.0, 128) / 4)],
)
def test_what_does_not_move(dtype, exact):
    both = torch.stack([exact, torch.zeros_like(exact)])
    assert torch.equal(unpack(pack(both, dtype)).float(), both)


def test_ties_go_to_the_even_neighbour():
    tied = torch.tensor([[127.0, 0.5, 1.5, -2.5]])
    assert unpack(pack(tied, "int8")).tolist() == [[127.0, 0.0, 2.0, -2.0]]


@pytest.mark.parametrize("dtype", ["bfloat16", "int8"])
def test_a_store_of_numbers_above_float16(tmp_path, dtype):
    """As the layers of many decoders have; float16 refuses them."""
    table = torch.tensor([[0, 0], [1e5, -3.0], [-2e5, 1e5]])
    encoder, sentences = WordVectors({"w1": 1, "w2": 2}, table), [["w1", "w2", "?"], ["w2"]]
    layers = build_store(encoder, sentences, [0], tmp_path, dtype=dtype)(sentences).float()
    expected = encoder(encoder.prepare(sentences))
    torch.testing.assert_close(layers, expected, rtol=2**-8, atol=2e5 / 254)
    with pytest.raises(FloatingPointError, match="not finite in float16"):
        build_store(encoder, sentences, [0], tmp_path, dtype="float16")
