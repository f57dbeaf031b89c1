"""The biLM against a NumPy loop written from the formulas; `test_golden.py` has the original's golden
vectors.
"""

import json

import numpy as np
import pytest
import torch

from elmo_bench.encoders.bilm import BiLm, Options, char_ids
from elmo_bench.encoders.bilm.bilm import ProjectedLstm


def test_golden_clips(modules):
    """One layer whose clips both bind, rows of unequal length (its gates come as i, f, g, o; forget
    bias inside).
    """
    golden = json.loads((modules / "lstmp_clip.json").read_text("utf-8"))

    def array(name):
        return np.array(golden[name]["data"], dtype=np.float32).reshape(golden[name]["shape"])

    cell, projection = array("WP").shape[1], array("WP").shape[0]
    options = Options(
        cell_size=cell,
        projection_size=projection,
        filters=((1, 1),),
        cell_clip=golden["cell_clip"],
        projection_clip=golden["proj_clip"],
    )
    lstm = ProjectedLstm(array("x").shape[-1], options)
    order = [0, 2, 1, 3]
    weight = array("W").reshape(4, cell, -1)[order].reshape(4 * cell, -1)
    bias = array("b").reshape(4, cell)[order]
    bias[2] -= 1
    lstm.load_state_dict(
        {
            "weight": torch.tensor(weight),
            "bias": torch.tensor(bias.reshape(-1)),
            "projection_weight": torch.tensor(array("WP")),
        }
    )
    lengths = torch.tensor(golden["lengths"])
    mask = torch.arange(array("x").shape[1]) < lengths[:, None]
    zeros = torch.zeros(len(lengths), projection), torch.zeros(len(lengths), cell)
    with torch.no_grad():
        out, h, c = lstm(torch.tensor(array("x")), mask, *zeros)
    for ours, theirs in ((out, "outputs"), (h, "final_h"), (c, "final_c")):
        np.testing.assert_allclose(ours.numpy(), array(theirs), atol=1e-6)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def numpy_layers(bilm, chars):
    """All layers of one framed sentence (S, C), by loops over the formulas of the paper and of the
    TensorFlow cell.
    """
    weights = {name: tensor.double().numpy() for name, tensor in bilm.state_dict().items()}
    options = bilm.options
    tokens = []
    for frame in chars:
        embedded = weights["token_encoder.embedding.weight"][frame]
        features = []
        for k, (width, _) in enumerate(options.filters):
            kernel, bias = (
                weights[f"token_encoder.convolutions.{k}.weight"],
                weights[f"token_encoder.convolutions.{k}.bias"],
            )
            windows = [embedded[s : s + width] for s in range(len(frame) - width + 1)]
            values = np.array([[(f.T * w).sum() for f in kernel] for w in windows]) + bias
            features.append(
                np.maximum(values.max(0), 0)
                if options.activation == "relu"
                else np.tanh(values.max(0))
            )
        x = np.concatenate(features)
        for k in range(options.num_highway):
            carry, transform = (
                weights[f"token_encoder.highways.{k}.{part}.weight"] @ x
                + weights[f"token_encoder.highways.{k}.{part}.bias"]
                for part in ("carry", "transform")
            )
            x = sigmoid(carry) * np.maximum(transform, 0) + (1 - sigmoid(carry)) * x
        tokens.append(
            weights["token_encoder.projection.weight"] @ x
            + weights["token_encoder.projection.bias"]
        )
    directions = []
    for direction, order in enumerate((range(len(tokens)), range(len(tokens) - 1, -1, -1))):
        inputs, outputs = list(tokens), [list(tokens)]
        for layer in range(options.num_layers):
            name = f"directions.{direction}.{layer}"
            h, c = np.zeros(options.projection_size), np.zeros(options.cell_size)
            result = [None] * len(tokens)
            for t in order:
                z = (
                    weights[f"{name}.weight"] @ np.concatenate([inputs[t], h])
                    + weights[f"{name}.bias"]
                )
                i, j, f, o = np.split(z, 4)
                c = np.clip(
                    sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j),
                    -options.cell_clip,
                    options.cell_clip,
                )
                h = weights[f"{name}.projection_weight"] @ (sigmoid(o) * np.tanh(c))
                h = np.clip(h, -options.projection_clip, options.projection_clip)
                result[t] = h + inputs[t] if layer and options.skip_connections else h
            inputs = result
            outputs.append(result)
        directions.append(np.array(outputs))
    return np.concatenate(directions, -1)


def random_bilm(**changes):
    """A biLM in double precision whose weights are large enough for every clip to bind."""
    sizes = {
        "cell_size": 7,
        "projection_size": 5,
        "filters": ((1, 3), (2, 4), (4, 5)),
        "num_highway": 2,
        "char_dim": 3,
    }
    bilm = (
        BiLm(Options(**sizes | {"cell_clip": 0.4, "projection_clip": 0.3} | changes))
        .eval()
        .double()
    )
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return bilm


@pytest.mark.parametrize(
    "changes",
    [{}, {"skip_connections": False}, {"activation": "tanh"}, {"num_layers": 3, "num_highway": 1}],
)
def test_equals_numpy_loop(changes):
    bilm = random_bilm(**changes)
    words = ["A", "", "naïve", "word", "x" * 60]
    frames = char_ids([["<S>", *words, "</S>"]])[0].numpy()
    with torch.no_grad():
        layers, _ = bilm.read(char_ids([words, ["short"]]), boundaries=True)
    np.testing.assert_allclose(layers[:, 0].numpy(), numpy_layers(bilm, frames), atol=1e-9)


def test_a_sentence_does_not_depend_on_its_batch():
    bilm = random_bilm()
    batch = [["one", "two", "three"], ["four"], ["five", "six"]]
    with torch.no_grad():
        together, _ = bilm.read(char_ids(batch))
        for row, sentence in enumerate(batch):
            alone, _ = bilm.read(char_ids([sentence]))
            torch.testing.assert_close(
                together[:, row, : len(sentence)], alone[:, 0], atol=1e-9, rtol=0
            )
            assert not together[:, row, len(sentence) :].any()


def test_state_carries_on():
    bilm = random_bilm(cell_clip=3.0, projection_clip=3.0)
    first, second = char_ids([["a", "b"]]), char_ids([["c"]])
    with torch.no_grad():
        _, state = bilm.read(first)
        fresh, carried = bilm.read(second)[0], bilm.read(second, state)[0]
    torch.testing.assert_close(fresh[0], carried[0])  # characters know no history
    assert (fresh[1:] - carried[1:]).abs().max() > 1e-3


def test_sentence_without_words_and_long_words():
    bilm = random_bilm()
    with torch.no_grad():
        layers, _ = bilm.read(char_ids([["w" * 10_000, ""], []]))
    assert layers.shape == (3, 2, 2, 10)
    assert layers.isfinite().all()
    assert layers[:, 0, 1].abs().sum() > 0  # an empty word is a word
    assert not layers[:, 1].any()


def test_wrong_character_frame():
    with pytest.raises(ValueError, match="reads 20 characters per word, not 50"):
        random_bilm(max_characters=20).read(char_ids([["a"]]))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_it_starts_as_bilm_tf_does(activation):
    """The initialisers of its training code; TensorFlow's default for the LSTMs, without biases."""
    options = Options(
        cell_size=256, projection_size=64, filters=((1, 256), (3, 256)), activation=activation
    )
    bilm = BiLm(options)
    cnn, size = bilm.token_encoder, 512

    def spread(weight, deviation):
        assert weight.std().item() == pytest.approx(deviation, rel=0.05)

    spread(cnn.embedding.weight[1:], 2 / 12**0.5)
    for convolution in cnn.convolutions:
        fan_in = convolution.weight[0].numel()
        spread(convolution.weight, 0.1 / 12**0.5 if activation == "relu" else fan_in**-0.5)
        assert (convolution.weight.abs().max() <= 0.05) == (activation == "relu")
    for weight in (cnn.projection.weight, cnn.highways[0].carry.weight):
        spread(weight, size**-0.5)
    spread(cnn.highways[0].transform.weight, size**-0.5)
    for lstm in (lstm for direction in bilm.directions for lstm in direction):
        for weight in (lstm.weight, lstm.projection_weight):
            spread(weight, (2 / sum(weight.shape)) ** 0.5)
    biases = {name: bias for name, bias in bilm.named_parameters() if name.endswith("bias")}
    expected = {name: -2.0 if "carry" in name else 0.0 for name in biases}
    assert {name: bias.unique().tolist() for name, bias in biases.items()} == {
        name: [value] for name, value in expected.items()
    }
