"""A biLM from format to format and back: the same bits; and the official one is as the original
wrote it.
"""

from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from elmo_bench.encoders.bilm import BiLm, Options, load, save
from elmo_bench.jobs.export import export
from tests.conftest import composed

ROOT = Path(__file__).parents[2]


def exported(*overrides):
    export(composed("job=export", *overrides, "run_dir=here"))


def named(folder, weights):
    return [
        "encoder=files",
        f"encoder.options={folder}/options.json",
        f"encoder.weights={folder}/{weights}",
    ]


def tensors(path):
    """Type, shape and bytes of each tensor of a file."""
    arrays = load_file(path)
    return {name: (each.dtype, each.shape, each.tobytes()) for name, each in arrays.items()}


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_there_and_back(tmp_path, dtype):
    """Safetensors -> HDF5 in float32 -> safetensors: the same bits in both files; so from HDF5."""
    options = Options(
        cell_size=6,
        projection_size=4,
        filters=((1, 3), (3, 5)),
        num_highway=2,
        char_dim=3,
        skip_connections=False,
    )
    save(BiLm(options), tmp_path / "a" / "weights.safetensors", dtype=getattr(torch, dtype))
    exported(*named(tmp_path / "a", "weights.safetensors"), f"output={tmp_path}/b/weights.hdf5")
    exported(
        *named(tmp_path / "b", "weights.hdf5"),
        f"output={tmp_path}/c/weights.safetensors",
        f"dtype={dtype}",
    )
    a, c = (tensors(tmp_path / name / "weights.safetensors") for name in "ac")
    assert a == c
    assert len({(tmp_path / name / "options.json").read_text() for name in "abc"}) == 1
    exported(
        *named(tmp_path / "c", "weights.safetensors"),
        f"output={tmp_path}/d/weights.hdf5",
        f"dtype={dtype}",
    )
    with (
        h5py.File(tmp_path / "b" / "weights.hdf5") as b,
        h5py.File(tmp_path / "d" / "weights.hdf5") as d,
    ):
        assert d["char_embed"].dtype == dtype
        b.visititems(
            lambda name, item: (
                isinstance(item, h5py.Dataset)
                and np.testing.assert_array_equal(item[()], d[name][()])
            )
        )


def test_the_official_names_and_shapes(tmp_path):
    """Those of the sizes of a published biLM's options, on the biLM that ships."""
    exported("encoder=mini", f"output={tmp_path}/weights.hdf5")
    names = {}
    with h5py.File(tmp_path / "weights.hdf5") as file:
        file.visititems(
            lambda name, item: (
                names.update({name: item.shape}) if isinstance(item, h5py.Dataset) else None
            )
        )
        assert all(file[name].dtype == np.float32 for name in names)
    cell = "RNN_{}/RNN/MultiRNNCell/Cell{}/LSTMCell/{}"
    expected = {"char_embed": (261, 16), "CNN_proj/W_proj": (176, 64), "CNN_proj/b_proj": (64,)}
    for k, (width, count) in enumerate([(1, 16), (2, 32), (3, 64), (4, 64)]):
        expected |= {f"CNN/W_cnn_{k}": (1, width, 16, count), f"CNN/b_cnn_{k}": (count,)}
    for part in ("carry", "transform"):
        expected |= {f"CNN_high_0/W_{part}": (176, 176), f"CNN_high_0/b_{part}": (176,)}
    for direction in range(2):
        for layer in range(2):
            shapes = {"W_0": (128, 1024), "B": (1024,), "W_P_0": (256, 64)}
            expected |= {
                cell.format(direction, layer, name): shape for name, shape in shapes.items()
            }
    assert names == expected
    again, mini = (
        load(tmp_path / "options.json", tmp_path / "weights.hdf5"),
        ROOT / "elmo_bench" / "encoders" / "bilm" / "mini",
    )
    shipped = load(mini / "options.json", mini / "weights.safetensors")
    assert all(
        torch.equal(again.state_dict()[name], value) for name, value in shipped.state_dict().items()
    )


def test_the_original_s_own_options_stay(fixtures, tmp_path):
    """Its training's settings are in them, which another program may ask for."""
    given = (fixtures / "bilm_tf" / "model" / "options.json").read_text()
    (tmp_path / "options.json").write_text(given)
    weights = fixtures / "bilm_tf" / "model" / "lm_weights.hdf5"
    exported(
        "encoder=files",
        f"encoder.options={tmp_path}/options.json",
        f"encoder.weights={weights}",
        f"output={tmp_path}/w.safetensors",
    )
    assert (tmp_path / "options.json").read_text() == given
    with pytest.raises(
        ValueError, match=r"options.json belongs to another biLM: choose another folder"
    ):
        exported("encoder=mini", f"output={tmp_path}/mini.hdf5")
    assert not (tmp_path / "mini.hdf5").exists()


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["output=w.bin"], r"output=w.bin, but it must end in .hdf5, .h5, .safetensors"),
        (["output=w.h5", "encoder=none"], r"encoder=none has no layers: choose an encoder"),
    ],
)
def test_what_it_says_of_bad_settings(overrides, message):
    with pytest.raises(ValueError, match=message):
        exported(*overrides)
