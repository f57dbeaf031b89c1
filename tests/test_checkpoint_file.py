"""A torch file of a stranger is read right, or refused by its name."""

import random
import re
import zipfile
from collections import Counter, OrderedDict

import pytest
import torch
from torch import nn

from elmo_bench.checkpoint_file import load, refusing

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


@pytest.mark.parametrize("size", [0, 10, 500, -1])
def test_a_part_of_a_file(tmp_path, size):
    path = tmp_path / "x.ckpt"
    torch.save(CONTENT, path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"^.*x.ckpt: not a checkpoint, or damaged"):
        load(path)


def nested(depth):
    return [nested(depth - 1)] if depth else 1


def cyclic():
    inside = []
    inside.append(inside)
    return inside


def doubled(times):
    value = [1]
    for _ in range(times):
        value = [value, value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (nested(60), "dicts and lists are nested too deep"),
        (cyclic(), "dicts and lists are nested too deep"),
        (doubled(40), "dicts and lists are nested too deep"),
        (10**30, "an integer of over 64 bits"),
        ({1.5: 2}, "one of its keys is a float"),
        (b"x", "refers to _codecs encode"),
        (torch.zeros(1).expand(10**10), r"a tensor \(10000000000,\) in a file of"),
        (torch.zeros(2).to_sparse(), "refers to"),
        (torch.zeros(2, device="meta"), "refers to torch._utils _rebuild_meta_tensor_no_storage"),
        ({1, 2}, "refers to __builtin__ set"),
        (re.compile("x"), "refers to re _compile"),
    ],
)
def test_what_is_no_plain_data(tmp_path, value, message):
    path = tmp_path / "x.ckpt"
    torch.save({"a": {"b": value}}, path)
    with pytest.raises(ValueError, match=f"^.*x.ckpt: .*{message}"):
        load(path)


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


def test_no_dict(tmp_path):
    torch.save([1], tmp_path / "x.ckpt")
    with pytest.raises(ValueError, match=r"x.ckpt: not a checkpoint: it contains a list"):
        load(tmp_path / "x.ckpt")


def test_content_that_code_does_not_expect(tmp_path):
    with (
        pytest.raises(ValueError, match=r"x.ckpt: its model: KeyError: 'a'"),
        refusing(tmp_path / "x.ckpt", "its model"),
    ):
        {}["a"]
    with pytest.raises(FileNotFoundError), refusing(tmp_path / "x.ckpt", "its model"):
        (tmp_path / "none").read_text()


def test_what_schedules_and_modules_keep(tmp_path):
    """A schedule with milestones is loaded, and goes on as it was."""

    def schedule():
        optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=1.0)
        return torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[1, 2, 2])

    parameter = nn.Parameter(torch.ones(2))
    parameter.numel = 3  # what hides a tensor's method
    others = {
        "names": OrderedDict(a=1),
        "size": torch.Size([1, 2]),
        "types": [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64],
        "parameters": [nn.Parameter(torch.ones(2)), parameter],
    }
    torch.save({"schedule": schedule().state_dict()} | others, tmp_path / "x.ckpt")
    loaded = load(tmp_path / "x.ckpt")
    assert loaded["schedule"]["milestones"] == Counter({1: 1, 2: 2})
    ours = schedule()
    ours.load_state_dict(loaded["schedule"])
    ours.optimizer.step()
    ours.step()
    assert ours.get_last_lr() == [0.1]
    assert type(loaded["schedule"]["milestones"]) is Counter
    assert loaded["names"] == {"a": 1}
    assert type(loaded["size"]) is torch.Size
    assert loaded["size"] == (1, 2)
    assert loaded["types"] == others["types"]
    for tensor in loaded["parameters"]:
        assert type(tensor) is torch.Tensor
        assert tensor.tolist() == [1, 1]


def test_a_mask(tmp_path):
    """It may have -infinity, beside 0; a weight may not."""
    mask = torch.full((3, 3), -torch.inf).triu(1)
    torch.save({"state_dict": {"mask": mask}}, tmp_path / "x.ckpt")
    assert torch.equal(load(tmp_path / "x.ckpt")["state_dict"]["mask"], mask)
    for wrong in ([-torch.inf, 0.5], [0, torch.nan], [torch.inf, 0], [-torch.inf]):
        torch.save({"state_dict": {"weight": torch.tensor(wrong)}}, tmp_path / "x.ckpt")
        with pytest.raises(ValueError, match=r"state_dict\.weight: it contains NaN or infinity"):
            load(tmp_path / "x.ckpt")
