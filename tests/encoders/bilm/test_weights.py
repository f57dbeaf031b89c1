"""Weight files: there and back, and what is wrong with a file that does not fit."""

import json
import shutil

import h5py
import pytest
import torch

from elmo_bench import encode, load_encoder
from elmo_bench.encoders.bilm import BiLm, Options, in_folder, load, save

OPTIONS = Options(
    cell_size=6,
    projection_size=4,
    filters=((1, 3), (3, 5)),
    num_highway=2,
    char_dim=3,
    skip_connections=False,
)


@pytest.fixture(params=["weights.hdf5", "weights.safetensors"])
def saved(request, tmp_path):
    bilm = BiLm(OPTIONS)
    save(bilm, tmp_path / request.param)
    return bilm, tmp_path / request.param


def test_round_trip_is_exact(saved, tmp_path):
    bilm, path = saved
    again = load(tmp_path / "options.json", path)
    assert again.options == bilm.options
    for name, tensor in bilm.state_dict().items():
        assert torch.equal(tensor, again.state_dict()[name]), name


def test_original_file_round_trip(fixtures, tmp_path):
    """What we write holds the very datasets of the original's file, bit for bit."""
    source = fixtures / "elmo"
    save(load(source / "options.json", source / "lm_weights.hdf5"), tmp_path / "again.hdf5")
    with (
        h5py.File(source / "lm_weights.hdf5") as theirs,
        h5py.File(tmp_path / "again.hdf5") as ours,
    ):
        names = []
        theirs.visititems(
            lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None
        )
        assert names
        for name in names:
            assert (theirs[name][()] == ours[name][()]).all(), name
    written, given = (json.loads((f / "options.json").read_text()) for f in (tmp_path, source))
    assert written["lstm"] == {key: given["lstm"][key] for key in written["lstm"]}


def test_half_precision_file_loads_as_float32(tmp_path):
    save(BiLm(OPTIONS), tmp_path / "w.safetensors", dtype=torch.float16)
    assert (
        load(tmp_path / "options.json", tmp_path / "w.safetensors").directions[0][0].weight.dtype
        == torch.float32
    )


def test_untrained_control(saved, tmp_path):
    bilm, path = saved
    control = load(tmp_path / "options.json", path, pretrained=False)
    assert control.options == bilm.options
    assert not torch.equal(control.directions[0][0].weight, bilm.directions[0][0].weight)


def test_precision(saved, tmp_path):
    """It changes numbers, and so the fingerprint."""
    exact, near = (
        load(tmp_path / "options.json", saved[1], precision=precision)
        for precision in ("float32", "bfloat16")
    )
    assert (exact.bf16, near.bf16) == (False, True)
    assert exact.fingerprint() == saved[0].fingerprint() != near.fingerprint()
    with pytest.raises(
        ValueError, match=r"encoder\.precision=half, but it may be float32 or bfloat16"
    ):
        load(tmp_path / "options.json", saved[1], precision="half")


def test_the_fingerprint_knows_what_no_parameter_shows():
    """The options that change a vector and no shape; those of the original leave it as it was
    before they were looked at.
    """
    plain, *others = (
        BiLm(Options(cell_size=4, projection_size=2, filters=((1, 2),), **more))
        for more in ({}, {"skip_connections": False}, {"cell_clip": 1.0}, {"activation": "tanh"})
    )
    for other in others:
        other.load_state_dict(plain.state_dict())
    assert len({bilm.fingerprint() for bilm in (plain, *others)}) == 4


def test_a_folder(saved, tmp_path):
    """Of pretraining, adapting, exporting or, with other names, of bilm-tf; whatever else lies
    there.
    """
    _, path = saved
    (tmp_path / "softmax.safetensors").touch()
    (tmp_path / "adaptation.json").touch()
    assert [in_folder(tmp_path, kind) for kind in ("options", "weights")] == [
        str(tmp_path / "options.json"),
        str(path),
    ]
    vectors = [
        encode(one, [["a"]])[0]
        for one in (load_encoder(tmp_path), load(tmp_path / "options.json", path))
    ]
    assert torch.equal(*vectors)
    (tmp_path / "options.json").rename(tmp_path / "elmo_2x4096_options.json")
    assert in_folder(tmp_path, "options") == str(tmp_path / "elmo_2x4096_options.json")
    shutil.copy(path, path.with_name("lm_weights.h5"))
    with pytest.raises(
        ValueError,
        match=r"encoder.dir=.* has lm_weights.h5, weights.*: choose one with encoder.weights=FILE",
    ):
        in_folder(tmp_path, "weights")
    (tmp_path / "empty").mkdir()
    assert in_folder(tmp_path / "empty", "weights") is in_folder(None, "weights") is None
    with pytest.raises(FileNotFoundError, match=r"empty: no options.json of a biLM"):
        load_encoder(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match=r"encoder.dir=nowhere: no such folder"):
        in_folder("nowhere", "options")


@pytest.mark.parametrize("key", ["encoder.options", "encoder.weights"])
def test_missing_file(saved, tmp_path, key):
    _, path = saved
    paths = {
        "encoder.options": tmp_path / "options.json",
        "encoder.weights": path,
        key: tmp_path / "nowhere",
    }
    with pytest.raises(FileNotFoundError, match=f"{key}=.*nowhere: no such file"):
        load(*paths.values())


def test_options_that_do_not_fit(saved, tmp_path):
    _, path = saved
    Options(
        cell_size=8, projection_size=4, filters=((1, 3), (3, 5)), num_highway=2, char_dim=3
    ).write(tmp_path / "options.json")
    with pytest.raises(ValueError, match=r"has shape \(.*\), but the options ask for \(.*\)"):
        load(tmp_path / "options.json", path)


def test_tensor_missing_and_unknown(saved, tmp_path):
    _, path = saved
    Options(
        cell_size=6, projection_size=4, filters=((1, 3), (3, 5)), num_highway=1, char_dim=3
    ).write(tmp_path / "options.json")
    with pytest.raises(ValueError, match=r"does not fit the biLM.s options.*high"):
        load(tmp_path / "options.json", path)


def test_truncated_file(saved, tmp_path):
    _, path = saved
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(ValueError, match="or a damaged one"):
        load(tmp_path / "options.json", path)


def test_something_else_entirely(saved, tmp_path):
    _, path = saved
    path.write_bytes(b"not weights at all")
    with pytest.raises(ValueError, match="or a damaged one"):
        load(tmp_path / "options.json", path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda raw: raw["lstm"].pop("dim"), "no key 'dim'"),
        (lambda raw: raw["char_cnn"].update(n_characters=1000), "may be 261 or 262"),
        (lambda raw: raw["char_cnn"].update(activation="swish"), "may be 'relu' or 'tanh'"),
        (lambda raw: raw["lstm"].update(dim="wide"), "not the options of a biLM"),
    ],
)
def test_bad_options(tmp_path, change, message):
    OPTIONS.write(tmp_path / "options.json")
    raw = json.loads((tmp_path / "options.json").read_text())
    change(raw)
    (tmp_path / "options.json").write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=f"options.json.*{message}"):
        Options.read(tmp_path / "options.json")


def test_a_failed_save_keeps_the_old_file(saved, tmp_path, monkeypatch):
    _, path = saved
    before = path.read_bytes()
    monkeypatch.setattr(
        "pathlib.Path.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        save(BiLm(OPTIONS), path)
    assert path.read_bytes() == before
    assert shutil.disk_usage(tmp_path).total  # the folder is still there
