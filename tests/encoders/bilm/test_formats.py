"""A biLM from format to format and back: the same bits; and the official one is as the original
wrote it.
"""

import errno
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from elmo_bench.encoders.bilm import BiLm, Options, load, save

MINI = Path(__file__).parents[3] / "elmo_bench" / "encoders" / "bilm" / "mini"


def convert(source, output, dtype="float32"):
    save(load(source.parent / "options.json", source), output, dtype=getattr(torch, dtype))


def tensors(path):
    """Type, shape and bytes of each tensor of a file."""
    if path.suffix == ".safetensors":
        arrays = load_file(path)
    else:
        arrays = {}
        with h5py.File(path) as file:
            file.visititems(
                lambda name, item: (
                    arrays.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
                )
            )
    return {name: (each.dtype, each.shape, each.tobytes()) for name, each in arrays.items()}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_there_and_back(tmp_path, dtype):
    """Safetensors -> HDF5 in float32 -> safetensors: the same bits in both files; so from HDF5."""
    options = Options(6, 4, ((1, 3), (3, 5)), num_highway=2, char_dim=3, skip_connections=False)
    names = ("a/weights.safetensors", "b/weights.hdf5", "c/weights.safetensors", "d/weights.hdf5")
    a, b, c, d = (tmp_path / name for name in names)
    save(BiLm(options), a, dtype=getattr(torch, dtype))
    convert(a, b)
    convert(b, c, dtype=dtype)
    convert(c, d, dtype=dtype)
    assert tensors(a) == tensors(c)
    assert len({(path.parent / "options.json").read_text() for path in (a, b, c, d)}) == 1
    with h5py.File(b) as whole, h5py.File(d) as half:
        assert half["char_embed"].dtype == dtype
        for name in tensors(b):
            np.testing.assert_array_equal(whole[name][()], half[name][()])


def test_the_official_names_and_shapes(tmp_path):
    """Those of the sizes of a published biLM's options, on the biLM that ships."""
    convert(MINI / "weights.safetensors", tmp_path / "weights.hdf5")
    expected = {"char_embed": (261, 16), "CNN_proj/W_proj": (176, 64), "CNN_proj/b_proj": (64,)}
    for k, (width, count) in enumerate([(1, 16), (2, 32), (3, 64), (4, 64)]):
        expected |= {f"CNN/W_cnn_{k}": (1, width, 16, count), f"CNN/b_cnn_{k}": (count,)}
    for part in ("carry", "transform"):
        expected |= {f"CNN_high_0/W_{part}": (176, 176), f"CNN_high_0/b_{part}": (176,)}
    for name, shape in {"W_0": (128, 1024), "B": (1024,), "W_P_0": (256, 64)}.items():
        for direction in range(2):
            for layer in range(2):
                cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
                expected[f"{cell}/{name}"] = shape
    written = tensors(tmp_path / "weights.hdf5")
    assert {name: shape for name, (_, shape, _) in written.items()} == expected
    assert {dtype for dtype, _, _ in written.values()} == {np.dtype("float32")}
    again = load(tmp_path / "options.json", tmp_path / "weights.hdf5").state_dict()
    shipped = load(MINI / "options.json", MINI / "weights.safetensors").state_dict()
    assert all(torch.equal(again[name], value) for name, value in shipped.items())


def test_options_stay_where_weights_cannot_be_written(tmp_path, monkeypatch):
    """Those of the earlier weights, which are still there."""
    before, after = (BiLm(Options(size, 4, ((1, 3), (3, 5)), char_dim=3)) for size in (6, 8))
    save(before, tmp_path / "weights.safetensors")
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    monkeypatch.setattr(Path, "write_bytes", lambda *_: full(_))
    with pytest.raises(OSError, match="No space left"):
        save(after, tmp_path / "weights.safetensors")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == written


def test_the_original_s_own_options_stay(shared_fixtures, tmp_path):
    """Its training's settings are in them, which another program may ask for."""
    given = (shared_fixtures / "bilm_tf" / "model" / "options.json").read_text()
    (tmp_path / "options.json").write_text(given)
    weights = shared_fixtures / "bilm_tf" / "model" / "lm_weights.hdf5"
    (tmp_path / "lm_weights.hdf5").symlink_to(weights)
    convert(tmp_path / "lm_weights.hdf5", tmp_path / "w.safetensors")
    assert (tmp_path / "options.json").read_text() == given
