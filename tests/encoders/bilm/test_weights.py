"""Weight files: there and back, and what is wrong with a file that does not fit."""

import dataclasses
import json
import shutil

import h5py
import pytest
import torch
from safetensors.torch import save_file

from elmo_bench import encode, load_encoder
from elmo_bench.encoders.bilm import DIRECTIONS, BiLm, Options, in_folder, load, save

OPTIONS = Options(6, 4, ((1, 3), (3, 5)), num_highway=2, char_dim=3, skip_connections=False)


@pytest.fixture(params=["weights.hdf5", "weights.safetensors"])
def saved(request, tmp_path):
    bilm = BiLm(OPTIONS)
    save(bilm, tmp_path / request.param)
    return bilm, tmp_path / request.param


def test_weights_that_half_precision_does_not_hold(tmp_path):
    bilm = BiLm(OPTIONS)
    with torch.no_grad():
        bilm.directions[0][0].bias[0] = 1e5
    said = r"w.hdf5: directions.0.0.bias contains .* not finite in float16"
    with pytest.raises(ValueError, match=said):
        save(bilm, tmp_path / "w.hdf5", dtype=torch.float16)
    assert not [*tmp_path.iterdir()]
    save(bilm, tmp_path / "w.hdf5")


def test_precision(saved, tmp_path):
    """It changes numbers, and so the fingerprint."""
    options = tmp_path / "options.json"
    exact, near = (load(options, saved[1], precision=kind) for kind in ("float32", "bfloat16"))
    assert (exact.bf16, near.bf16) == (False, True)
    assert exact.fingerprint() == saved[0].fingerprint() != near.fingerprint()


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
    """With our names or bilm-tf's, whatever else lies there."""
    _, path = saved
    (tmp_path / "softmax.safetensors").touch()
    found = [in_folder(tmp_path, kind) for kind in ("options", "weights")]
    assert found == [str(tmp_path / "options.json"), str(path)]
    models = load_encoder(tmp_path), load(tmp_path / "options.json", path)
    assert torch.equal(*(encode(model, [["a"]])[0] for model in models))
    (tmp_path / "options.json").rename(tmp_path / "elmo_2x4096_options.json")
    assert in_folder(tmp_path, "options") == str(tmp_path / "elmo_2x4096_options.json")
    shutil.copy(path, path.with_name("lm_weights.h5"))
    said = r"encoder.dir=.* has lm_weights.h5, weights.*: choose one with encoder.weights=FILE"
    with pytest.raises(ValueError, match=said):
        in_folder(tmp_path, "weights")
    (empty := tmp_path / "empty").mkdir()
    assert in_folder(empty, "weights") is in_folder(None, "weights") is None
    with pytest.raises(FileNotFoundError, match=r"empty: this folder has neither an options.json"):
        load_encoder(empty)
    with pytest.raises(FileNotFoundError, match=r"encoder.dir=nowhere: no such folder"):
        in_folder("nowhere", "options")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cell_size": 8}, r"has shape \(.*\), but the biLM.s options require \(.*\)"),
        ({"num_highway": 1}, r"does not fit the biLM.s options.*high"),
    ],
)
def test_options_that_do_not_fit(saved, tmp_path, change, message):
    dataclasses.replace(OPTIONS, **change).write(tmp_path / "options.json")
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "options.json", saved[1])


@pytest.mark.parametrize("key", ["encoder.options", "encoder.weights"])
def test_missing_file(saved, tmp_path, key):
    paths = {"encoder.options": tmp_path / "options.json", "encoder.weights": saved[1]}
    with pytest.raises(FileNotFoundError, match=f"{key}=.*nowhere: no such file"):
        load(*(paths | {key: tmp_path / "nowhere"}).values())


BAD_OPTIONS = {
    "lstm.dim=6.5: Input should be a valid integer": ("lstm", {"dim": 6.5}),
    "n_layers=100000000: .* less than or equal to 64": ("lstm", {"n_layers": 10**8}),
    "Infinity, but a number must be finite": ("lstm", {"cell_clip": float("inf")}),
    "proj_clip=-3: .* greater than or equal to 0.000001": ("lstm", {"proj_clip": -3}),
    "use_skip_connections=2: .* valid boolean": ("lstm", {"use_skip_connections": 2}),
    "max_characters_per_token=40, but it must be 50": (
        *("char_cnn", {"max_characters_per_token": 40}),
    ),
    "must be 261 or 262": ("char_cnn", {"n_characters": 1000}),
    "activation='swish': .* 'relu' or 'tanh'": ("char_cnn", {"activation": "swish"}),
    r"filters=\[\]: .* at least 1 item": ("char_cnn", {"filters": []}),
    "filters.0.0=51: .* less than or equal to 50": ("char_cnn", {"filters": [[51, 2]]}),
    r"filters.0.1=\[1\]: Field required": ("char_cnn", {"filters": [[1]]}),
    "lack the key 'lstm.dim'": ("lstm", None),
    "lack the key 'char_cnn.filters'": ("char_cnn", None),
}


@pytest.mark.parametrize("message", BAD_OPTIONS)
def test_bad_options(tmp_path, message):
    OPTIONS.write(tmp_path / "options.json")
    raw = json.loads((tmp_path / "options.json").read_text())
    part, change = BAD_OPTIONS[message]
    raw[part] = [] if change is None else raw[part] | change
    (tmp_path / "options.json").write_text(json.dumps(raw))
    with pytest.raises(ValueError, match=f"options.json.*{message}"):
        Options.read(tmp_path / "options.json")


def test_more_parameters_than_memory_are_refused_before_a_model_is_made(tmp_path):
    Options(1 << 16, 1 << 16, ((1, 2),), 64).write(tmp_path / "options.json")
    message = r"options.json: a biLM of [\d,]+ parameters, but at most 1,000,000,000"
    with pytest.raises(ValueError, match=message):
        load(tmp_path / "options.json", None)


BIAS = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B"


HDF5 = {
    "another file's": (lambda f: f.create_dataset(BIAS, (24,), "f4", external=[("/etc/passwd", 0, 96)]), "takes its numbers from elsewhere"),
    "one large piece": (lambda f: f.create_dataset(BIAS, (24,), "f4", chunks=(1 << 22,), maxshape=(None,)), "is packed in pieces of 4,194,304 numbers"),
    "text": (lambda f: f.create_dataset(BIAS, (24,), h5py.string_dtype()), "has type object"),
    "whole numbers": (lambda f: f.create_dataset(BIAS, data=[1] * 24), "has type int64, but"),
    "absent": (lambda f: None, "missing tensors"),
    "not finite": (lambda f: f.create_dataset(BIAS, data=[0.0] * 23 + [float("nan")]), "contains a number that is not finite"),
    "too large": (lambda f: f.create_dataset(BIAS, data=[1e39] * 24), "not finite in float32"),
}  # fmt: skip


@pytest.mark.parametrize("case", HDF5)
def test_hdf5_that_is_no_array_of_numbers_of_its_own(tmp_path, case):
    save(BiLm(OPTIONS), path := tmp_path / "w.hdf5")
    change, message = HDF5[case]
    with h5py.File(path, "r+") as file:
        del file[BIAS]
        change(file)
    with pytest.raises(ValueError, match=rf"w.hdf5(: {BIAS} | ).*({message})"):
        load(tmp_path / "options.json", path)


def test_hdf5_of_the_other_byte_order_and_packed(tmp_path):
    bilm = BiLm(OPTIONS)
    save(bilm, path := tmp_path / "w.hdf5")
    with h5py.File(path, "r+") as file:
        values = file[BIAS][()]
        del file[BIAS]
        file.create_dataset(BIAS, data=values.astype(">f8"), compression=1, fletcher32=True)
    again = load(tmp_path / "options.json", path)
    assert torch.equal(again.directions[0][0].bias, bilm.directions[0][0].bias)


def test_safetensors_of_bfloat16_are_read_and_others_refused(tmp_path):
    bilm = BiLm(OPTIONS)
    save(bilm, path := tmp_path / "w.safetensors")
    tensors = bilm.state_dict()
    save_file({name: tensor.bfloat16() for name, tensor in tensors.items()}, path)
    again = load(tmp_path / "options.json", path).state_dict()
    assert all(torch.equal(again[name], tensors[name].bfloat16().float()) for name in tensors)
    name = "directions.0.0.bias"
    for value, message in (
        (tensors[name].long(), "has type I64, but must be F64, F32, F16, BF16"),
        (tensors[name].double() + 1e300, "not finite in float32"),
        (tensors[name][:-1].contiguous(), r"has shape \(23,\), but the biLM's options require"),
    ):
        save_file(tensors | {name: value}, path)
        with pytest.raises(ValueError, match=f"w.safetensors: {name} .*{message}"):
            load(tmp_path / "options.json", path)


def half(path, direction):
    return load(path.with_name("options.json"), path, directions=[direction])


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_half_is_half_of_every_layer(saved, direction):
    sentences = [["It", "rains", "."], ["No"], ["Ann", "sleeps", "and", "Bob", "sings"]]
    whole, path = saved
    one, other = (half(path, name) for name in (direction, DIRECTIONS[direction == "forward"]))
    assert (one.dim, one.num_layers) == (4, 3)
    assert one.fingerprint() != other.fingerprint()
    halves = [x.chunk(2, -1)[DIRECTIONS.index(direction)] for x in encode(whole, sentences)]
    torch.testing.assert_close(encode(one, sentences), halves, rtol=0, atol=1e-6)


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_saved_half_is_of_one_direction(saved, tmp_path, direction):
    one, path = half(saved[1], direction), tmp_path / "half" / saved[1].name
    save(one, path)
    again = load(path.with_name("options.json"), path)
    assert again.options.directions == (direction,)
    assert again.fingerprint() == one.fingerprint() == half(path, direction).fingerprint()
    other = DIRECTIONS[direction == "forward"]
    with pytest.raises(ValueError, match=rf"\[{other}\], but .* has only {direction}"):
        half(path, other)
