"""The biLM against plain loops (`plain_bilm.py`): every layer, state and gradient, in both ways of
reading directions, and what it keeps besides the parameters. `test_golden.py` has golden vectors.
"""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_bench.encoders.bilm import BiLm, Options, State, bilm, char_cnn, scan
from elmo_bench.encoders.bilm.char_cnn import CharCnn
from elmo_bench.text.chars import char_ids
from tests.encoders.bilm import plain_bilm
from tests.encoders.bilm.clipping_bilm import (
    BATCH,
    CHARS,
    SIZES,
    assert_same,
    frozen,
    random_state,
    trained,
)


@pytest.fixture(autouse=True)
def _all_is_packed(monkeypatch):
    monkeypatch.setattr(scan, "LARGE", 1)


@pytest.fixture(params=[(), ("cpu",)], ids=["one direction at a time", "directions together"])
def way(request, monkeypatch):
    """On a GPU all directions are read at once; here torch's operations stand in for kernels."""
    monkeypatch.setattr(bilm, "TOGETHER_ON", request.param)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"skip_connections": False, "num_layers": 3},
        {"activation": "tanh"},
        {"directions": ("forward",)},
        {"directions": ("backward",)},
    ],
)
@pytest.mark.parametrize("boundaries", [False, True])
def test_every_layer_and_state(changes, boundaries):
    model = frozen(**changes)
    state = random_state(model, len(BATCH))
    untouched = copy.deepcopy(state)
    for before in (None, state):
        found = model.read(CHARS, before, boundaries=boundaries)
        assert model._frozen is not None
        assert_same(found, plain_bilm.read(model, CHARS, before, boundaries=boundaries))
    assert_same((state.h, state), (untouched.h, untouched), 0)


@settings(max_examples=30, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=6),
    words=st.lists(st.text(max_size=12), min_size=1, max_size=5),
    padding=st.integers(0, 3),
    carried=st.booleans(),
    tokens=st.sampled_from([1, 3, 128]),
    types=st.sampled_from([1, 4, 1000]),
    together=st.booleans(),
)
def test_any_batch(lengths, words, padding, carried, tokens, types, together):
    """In double precision, so that the algorithm is compared to the last digits; twice, the second
    time with known types; then with gradients.
    """
    model = frozen(torch.double)
    sentences = [
        [words[(row + place) % len(words)] for place in range(length)]
        for row, length in enumerate(lengths)
    ]
    chars = torch.nn.functional.pad(char_ids(sentences), (0, 0, 0, padding))
    state = random_state(model, len(sentences)) if carried else None
    expected = plain_bilm.read(model, chars, state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bilm, "TOGETHER_ON", ("cpu",) if together else ())
        patch.setattr(bilm, "TYPES", types)
        patch.setattr(scan, "INPUT_TOKENS", tokens)
        patch.setattr(scan, "EQUAL_ROWS_PAY", 1)
        patch.setattr(char_cnn, "KNOWN_TYPES", types)
        for reader in (model, model, trained(model)):
            assert_same(reader.read(chars, state), expected, 1e-12)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("dtype", [torch.float32, torch.double])
def test_every_gradient(dtype):
    """Of a biLM that is fine-tuned, on sentences of any length with a carried state."""
    model = trained(frozen(dtype))
    state = random_state(model, len(BATCH))
    for part in state:
        part.requires_grad_()
    found = []
    for read in (model.read, lambda *args: plain_bilm.read(model, *args)):
        layers, (h, c) = read(CHARS, state)
        loss = layers.square().sum() + h.sum() + c.square().sum()
        found.append(torch.autograd.grad(loss, [*state, *model.parameters()]))
    for ours, theirs in zip(*found, strict=True):
        difference = (ours - theirs).norm() / theirs.norm()
        assert difference < (1e-5 if dtype == torch.float32 else 1e-9)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("trains", [False, True])
def test_streams(trains):
    """`run`, as pretraining and perplexity call it: each direction with its own tokens."""
    model = frozen(torch.double)
    reader = trained(model) if trains else model
    x, state = torch.randn(2, 4, 5, 12, dtype=torch.double), random_state(model, 4)
    tops, after = reader.run(x, state)
    for number, top in enumerate(tops):
        for row in range(4):
            layers, (h, c) = plain_bilm.direction(model, number, x[number, row], state, row)
            found = top[row], State(after.h[number, :, row], after.c[number, :, row])
            assert_same(found, (layers[-1], State(h, c)), 1e-12)


def test_known_types_are_few(monkeypatch):
    monkeypatch.setattr(char_cnn, "KNOWN_TYPES", 14)
    model = frozen()
    read, forward = [], CharCnn.forward
    monkeypatch.setattr(
        CharCnn, "forward", lambda cnn, chars: read.append(len(chars)) or forward(cnn, chars)
    )
    model.read(CHARS)
    assert read == [13]  # eleven word types, </S>, and what stands past an end
    model.read(CHARS)
    assert len(read) == 1
    new = char_ids([["one", "two", "three"]])
    assert_same(model.read(new), plain_bilm.read(model, new))
    assert len(model._frozen.words.numbers) == 5
    model.forget_words()
    assert not model._frozen.words.numbers


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("change", ["in place", "loaded", "replaced", "trained"])
def test_changed_weights(change):
    model, other = frozen(), frozen()
    model.read(CHARS)
    first = model._frozen
    model.read(CHARS)
    assert model._frozen is first
    if change == "in place":
        with torch.no_grad():
            model.directions[1][0].projection_weight.mul_(0.5)
            model.token_encoder.embedding.weight.mul_(0.5)
    elif change == "loaded":
        model.load_state_dict(other.state_dict())
    elif change == "replaced":
        model.load_state_dict(other.state_dict(), assign=True)
    else:
        model.requires_grad_(True).train()
        model.read(CHARS)[0].square().mean().backward()
        torch.optim.SGD(model.parameters(), lr=1.0).step()
        model.requires_grad_(False).eval()
    assert_same(model.read(CHARS), plain_bilm.read(model, CHARS))
    assert model._frozen is not first
    assert_same(model.double().read(CHARS), plain_bilm.read(model, CHARS), 1e-12)


def test_nothing_of_it_is_saved_or_copied():
    model = frozen()
    names, size = list(model.state_dict()), len(pickle.dumps(model))
    expected = model.read(CHARS)
    assert list(model.state_dict()) == names
    assert len(pickle.dumps(model)) == size
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again._frozen is None
        assert_same(again.read(CHARS), expected, 1e-6)


@pytest.mark.usefixtures("way")
def test_bfloat16():
    """The LSTMs' products in bfloat16, by the attribute or autocast: within one percent of a
    layer's length, never exact; what comes out, and the token layer, in float32.
    """
    model = frozen(cell_clip=3.0, projection_clip=3.0)
    expected = model.read(CHARS)
    for near in (model, trained(model)):
        near.bf16 = True
        found = near.read(CHARS)
        torch.testing.assert_close(found[0][0], expected[0][0])
        pairs = zip((*found[0][1:], *found[1]), (*expected[0][1:], *expected[1]), strict=True)
        for ours, exact in pairs:
            assert ours.dtype == torch.float32
            assert 0 < (ours - exact).norm() < 0.01 * exact.norm()
        near.bf16 = False
        with torch.autocast("cpu", torch.bfloat16):
            assert torch.equal(near.read(CHARS)[0], found[0])
    found[0].square().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in near.parameters())
    assert torch.equal(model.read(CHARS)[0], expected[0])


def test_inference_mode_and_then_not():
    model = frozen().requires_grad_(True)
    with torch.inference_mode():
        first = model.read(CHARS)[0]
    with torch.no_grad():
        assert_same(model.read(CHARS), plain_bilm.read(model, CHARS))
        more = char_ids([["quite", "another", "sentence"]])
        assert_same(model.read(more), plain_bilm.read(model, more))
    assert first.is_inference()
    with torch.inference_mode():  # its parameters count no changes
        assert BiLm(Options(**SIZES)).eval().read(CHARS)[0].isfinite().all()


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
def test_a_torch_without_the_operators(monkeypatch, error):
    def missing(_):
        raise error("no such operator")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", missing, raising=False)
    monkeypatch.setattr(scan, "_packs", scan._packs.__wrapped__)
    model = frozen()
    assert_same(model.read(CHARS), plain_bilm.read(model, CHARS))


def test_words_of_any_length():
    model = frozen()
    layers, _ = model.read(char_ids([["w" * 10_000, ""], []]))
    assert layers.shape == (3, 2, 2, 24)
    assert layers.isfinite().all()
    assert layers[:, 0, 1].abs().sum() > 0  # an empty word is a word
    assert not layers[:, 1].any()
    with pytest.raises(ValueError, match="reads 50 characters per word, not 20"):
        model.read(CHARS[..., :20])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_it_starts_as_bilm_tf_does(activation):
    """The initialisers of its training code; TensorFlow's default for the LSTMs, without biases."""
    model = BiLm(Options(256, 64, ((1, 256), (3, 256)), activation=activation))
    cnn, size = model.token_encoder, 512

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
    for lstm in (lstm for direction in model.directions for lstm in direction):
        for weight in (lstm.weight, lstm.projection_weight):
            spread(weight, (2 / sum(weight.shape)) ** 0.5)
    for name, bias in model.named_parameters():
        if name.endswith("bias"):
            assert bias.unique().tolist() == [-2.0 if "carry" in name else 0.0]


def test_a_clip_that_bfloat16_rounds_down():
    """0.7 is 0.6992 there: what was clipped to it has no gradient."""
    weight, bias = torch.zeros(32, 8), torch.full((32,), 4.0)
    projection = torch.ones(4, 8, requires_grad=True)
    before = torch.zeros(1, 2, 4), torch.zeros(1, 2, 4), torch.zeros(1, 2, 8)
    options = Options(7, 5, ((1, 1),), projection_clip=0.7)
    outputs, *_ = scan.Scan.apply(*before, [2], options, torch.bfloat16, weight, bias, projection)
    (gradient,) = torch.autograd.grad(outputs.sum(), projection)
    assert (outputs == torch.tensor(0.7).bfloat16()).all()
    assert not gradient.any()
