"""A torch file of a stranger is read right, or refused by its name."""

import random
import re
import zipfile

import pytest
import torch

from elmo_bench.training.checkpoint import load, refusing

CONTENT = {
    "state_dict": {"weight": torch.arange(12.0).reshape(3, 4), "bias": torch.zeros(2)},
    "words": ["a", "${x}", "\u00e9"],
    "numbers": {"step": 3, 7: (1.5, None, True)},
}


def equal(one, other):
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return one == other


def test_flipped_bits(tmp_path):
    """Torch alone reads nearly all of them without a word."""
    path, rng = tmp_path / "x.ckpt", random.Random(1)
    torch.save(CONTENT, path)
    content = path.read_bytes()
    assert equal(load(path), CONTENT)
    refused: list[str] = []
    for _ in range(500):
        damaged = bytearray(content)
        damaged[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        try:
            assert equal(load(path), CONTENT)
        except ValueError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all(message.startswith(str(path)) for message in refused)


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(1).expand(10**10),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, device="meta"),
        [1.0],
    ],
)
def test_weights_that_are_no_data(tmp_path, value):
    torch.save({"state_dict": {"a": value}}, tmp_path / "x.ckpt")
    with pytest.raises(ValueError, match=r"^.*x.ckpt: state_dict.a: "):
        load(tmp_path / "x.ckpt")


@pytest.mark.parametrize(
    ("content", "message"), [({"a": re.compile("x")}, "Weights only"), ([1], "it contains a list")]
)
def test_code_is_not_run(tmp_path, content, message):
    torch.save(content, tmp_path / "x.ckpt")
    with pytest.raises(ValueError, match=rf"^.*x.ckpt: not a checkpoint, or damaged: {message}"):
        load(tmp_path / "x.ckpt")


def test_a_packed_file(tmp_path):
    """A small file may hold much: torch itself packs nothing."""
    torch.save({"a": torch.zeros(1_000_000)}, tmp_path / "x.ckpt")
    with (
        zipfile.ZipFile(tmp_path / "x.ckpt") as stored,
        zipfile.ZipFile(tmp_path / "packed.ckpt", "w", zipfile.ZIP_DEFLATED) as packed,
    ):
        for name in stored.namelist():
            packed.writestr(name, stored.read(name))
    with pytest.raises(ValueError, match=r"packed.ckpt: .* its entries are compressed"):
        load(tmp_path / "packed.ckpt")


def test_content_that_code_does_not_expect(tmp_path):
    with (
        pytest.raises(ValueError, match=r"x.ckpt: its model: KeyError: 'a'"),
        refusing(tmp_path / "x.ckpt", "its model"),
    ):
        {}["a"]
    with pytest.raises(FileNotFoundError), refusing(tmp_path / "x.ckpt", "its model"):
        (tmp_path / "none").read_text()


def test_a_mask(tmp_path):
    """It may have -infinity, beside 0; a weight may not."""
    mask = torch.full((3, 3), -torch.inf).triu(1)
    torch.save({"state_dict": {"mask": mask}}, tmp_path / "x.ckpt")
    assert torch.equal(load(tmp_path / "x.ckpt")["state_dict"]["mask"], mask)
    for wrong in ([-torch.inf, 0.5], [0, torch.nan], [torch.inf, 0], [-torch.inf]):
        torch.save({"state_dict": {"weight": torch.tensor(wrong)}}, tmp_path / "x.ckpt")
        with pytest.raises(ValueError, match=r"state_dict\.weight: it contains NaN or infinity"):
            load(tmp_path / "x.ckpt")
