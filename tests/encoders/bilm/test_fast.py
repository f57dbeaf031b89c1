"""The fast forward against the definition: every layer and the state, and what it keeps besides the
parameters.
"""

import copy
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_bench.encoders.bilm import BiLm, Options, State, bilm, char_ids, fast, packed
from elmo_bench.lm import LanguageModel

SIZES = {
    "cell_size": 24,
    "projection_size": 12,
    "filters": ((1, 8), (2, 8), (3, 16)),
    "num_highway": 2,
}
BATCH = [
    ["The", "old", "brewery", "opened", "."],
    ["No"],
    [],
    ["a", "", "naïve", "a", "x" * 60, "<S>"],
]
CHARS = char_ids(BATCH)


def frozen(dtype=torch.float32, **changes):
    """A biLM whose clips bind here and there."""
    model = (
        BiLm(Options(**SIZES | {"cell_clip": 0.4, "projection_clip": 0.3} | changes))
        .eval()
        .to(dtype)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.4)
    return model.requires_grad_(False)


def defined(model, *args, **settings):
    """What the definition says, with the same parameters."""
    plain = bilm.BiLm(model.options).to(next(model.parameters()).dtype).eval()
    plain.load_state_dict(model.state_dict())
    with torch.no_grad():
        return plain.read(*args, **settings)


def random_state(model, batch_size):
    return State(*(torch.randn_like(part) * 0.2 for part in model.zero_state(batch_size)))


def assert_same(found, expected, tolerance=1e-5):
    for ours, theirs in zip((found[0], *found[1]), (expected[0], *expected[1]), strict=True):
        torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=0)


@pytest.fixture(autouse=True)
def _all_is_packed(monkeypatch):
    monkeypatch.setattr(packed, "LARGE", 1)


@pytest.fixture
def no_definition(monkeypatch):
    """Whoever falls back to the definition fails."""
    monkeypatch.delattr(bilm.ProjectedLstm, "forward")


@pytest.mark.parametrize(
    "changes", [{}, {"skip_connections": False}, {"activation": "tanh"}, {"num_layers": 3}]
)
@pytest.mark.parametrize("boundaries", [False, True])
def test_every_layer_and_state(changes, boundaries):
    model = frozen(**changes)
    state = random_state(model, len(BATCH))
    untouched = copy.deepcopy(state)
    for before in (None, state):
        found = model.read(CHARS, before, boundaries=boundaries)
        assert model._packed is not None
        assert_same(found, defined(model, CHARS, before, boundaries=boundaries))
    assert_same((state.h, state), (untouched.h, untouched), 0)


@settings(max_examples=40, deadline=None)
@given(
    lengths=st.lists(st.integers(0, 9), min_size=1, max_size=7),
    words=st.lists(st.text(max_size=12), min_size=1, max_size=5),
    padding=st.integers(0, 3),
    carried=st.booleans(),
    rows=st.sampled_from([1, 3, 128]),
    types=st.sampled_from([1, 4, 1000]),
)
def test_any_batch(lengths, words, padding, carried, rows, types):
    """In double precision, so that the algorithm is compared to the last digits; twice, the second
    time with known types.
    """
    model = frozen(torch.double)
    sentences = [
        [words[(row + place) % len(words)] for place in range(length)]
        for row, length in enumerate(lengths)
    ]
    chars = torch.nn.functional.pad(char_ids(sentences), (0, 0, 0, padding))
    state = random_state(model, len(sentences)) if carried else None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fast, "INPUT_ROWS", rows)
        patch.setattr(fast, "KNOWN_TYPES", types)
        for _ in range(2):
            assert_same(model.read(chars, state), defined(model, chars, state), 1e-12)


def test_known_types_are_few(monkeypatch):
    monkeypatch.setattr(fast, "KNOWN_TYPES", 14)
    model = frozen()
    read, forward = [], bilm.CharCnn.forward
    monkeypatch.setattr(
        bilm.CharCnn,
        "forward",
        lambda cnn, chars: read.append(chars.shape[1]) or forward(cnn, chars),
    )
    assert model.read(CHARS)[0].isfinite().all()
    assert read == [13]  # eleven word types, </S>, and what stands past an end
    model.read(CHARS)
    assert len(read) == 1
    new = char_ids([["one", "two", "three"]])
    assert_same(model.read(new), defined(model, new))
    assert len(model._packed.types.numbers) == 5


@pytest.mark.parametrize("change", ["in place", "loaded", "replaced", "trained"])
def test_changed_weights(change):
    model, other = frozen(), frozen()
    model.read(CHARS)
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
    expected = defined(model, CHARS)
    assert_same(model.read(CHARS), expected)
    assert_same(model.double().read(CHARS), defined(model, CHARS), 1e-12)


def test_nothing_of_it_is_saved_or_copied():
    model = frozen()
    names, size = list(model.state_dict()), len(pickle.dumps(model))
    expected = model.read(CHARS)
    assert list(model.state_dict()) == names
    assert len(pickle.dumps(model)) == size
    for again in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert again._packed is None
        assert_same(again.read(CHARS), expected, 1e-6)


def test_where_the_definition_has_to_do(monkeypatch):
    model = frozen()
    chars = char_ids([["a", "b", "c"]])
    model.read(chars)
    model.train().read(chars)
    assert model._packed is None
    model.eval().requires_grad_(True).read(chars)[0].sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    x = torch.randn(1, 3, model.options.projection_size)
    hole = torch.tensor([[True, False, True]])
    with torch.no_grad():
        found = model.run(0, x, hole, State(*(part[0:1] for part in model.zero_state(1))))
        expected = bilm.BiLm.run(model, 0, x, hole, model.zero_state(1))
    torch.testing.assert_close(found[0], expected[0])


def test_bfloat16(no_definition):
    """The LSTMs' products in bfloat16, by the attribute or autocast: within one percent of a
    layer's length, never exact.
    """
    model = frozen(cell_clip=3.0, projection_clip=3.0)
    expected = model.read(CHARS)
    model.bf16 = True
    found = model.read(CHARS)
    assert model._packed.snapshot.dtype == torch.bfloat16
    assert torch.equal(found[0][0], expected[0][0])  # the token layer
    for ours, exact in zip(
        (*found[0][1:], *found[1]), (*expected[0][1:], *expected[1]), strict=True
    ):
        assert ours.dtype == torch.float32
        assert 0 < (ours - exact).norm() < 0.01 * exact.norm()
    model.bf16 = False
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(model.read(CHARS)[0], found[0])
    assert torch.equal(model.read(CHARS)[0], expected[0])


def test_bfloat16_without_packed_weights(monkeypatch):
    """As on a GPU: by the definition under autocast, the token layer and what comes out in float32."""
    model = frozen(cell_clip=3.0, projection_clip=3.0)
    expected = model.read(CHARS)[0]
    monkeypatch.setattr(BiLm, "_pack", lambda *_: None)
    model.bf16 = True
    found = model.read(CHARS)[0]
    assert found.dtype == torch.float32
    torch.testing.assert_close(found[0], expected[0])
    for ours, exact in zip(found[1:], expected[1:], strict=True):
        assert 0 < (ours - exact).norm() < 0.02 * exact.norm()


def test_inference_mode_and_then_not():
    model = frozen().requires_grad_(True)
    with torch.inference_mode():
        first = model.read(CHARS)[0]
    with torch.no_grad():
        assert_same(model.read(CHARS), defined(model, CHARS))
        more = char_ids([["quite", "another", "sentence"]])
        assert_same(model.read(more), defined(model, more))
    assert first.is_inference()
    with torch.inference_mode():
        assert (
            BiLm(Options(**SIZES)).eval().read(CHARS)[0].isfinite().all()
        )  # its parameters count no changes


@pytest.mark.parametrize("error", [AttributeError, RuntimeError])
def test_a_torch_without_the_operators(monkeypatch, error):
    def missing(_):
        raise error("no such operator")

    monkeypatch.setattr(torch.ops.mkldnn, "_reorder_linear_weight", missing, raising=False)
    model = frozen()
    assert_same(model.read(CHARS), defined(model, CHARS))


def test_small_weights_are_not_packed(monkeypatch):
    monkeypatch.undo()
    model = frozen()
    assert_same(model.read(CHARS), defined(model, CHARS))
    assert model._packed.directions[0][0].project.packed is None


def test_perplexity_reads_fast(no_definition):
    model = LanguageModel(frozen(), ["<S>", "</S>", "<UNK>", "No"]).eval()
    forward, backward = model.perplexity(BATCH).values()
    assert forward > 1
    assert backward > 1


def test_training_encodes_each_word_once():
    """With the gradients of the definition."""
    model = frozen(torch.float64).train().requires_grad_(True)
    plain = bilm.BiLm(model.options).double().train()
    plain.load_state_dict(model.state_dict())
    rows = []
    model.token_encoder.register_forward_hook(
        lambda _, args, __: rows.append(len(args[0].flatten(0, 1)))
    )
    for each in (model, plain):
        each.read(CHARS)[0].square().sum().backward()
    assert rows == [
        len({word for sentence in BATCH for word in sentence} | {"</S>"}) + 1
    ]  # and the frame of no word
    for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("native", [False, True])
def test_a_processor_without_bfloat16_is_told_once(monkeypatch, caplog, native):
    packed.warn_of_bfloat16.cache_clear()
    monkeypatch.setattr(packed, "multiplies_bfloat16", lambda: native)
    model = BiLm(Options(8, 4, ((1, 2),))).eval().requires_grad_(False)
    model.bf16 = True
    for sentence in ("one", "two"):
        model.read(char_ids([[sentence]]))
    packed.warn_of_bfloat16.cache_clear()
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (not native)
    assert native or "encoder.precision=bfloat16" in told[0]


def test_whether_a_processor_has_bfloat16(monkeypatch):
    """As torch says, of x86 and of others; yes where it says nothing."""
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    for answers, expected in (((False, False), False), ((True, False), True)):
        for name, answer in zip(checks, answers, strict=True):
            monkeypatch.setattr(torch.cpu, name, lambda answer=answer: answer, raising=False)
        assert packed.multiplies_bfloat16() == expected
    for name in checks:
        monkeypatch.delattr(torch.cpu, name)
    assert packed.multiplies_bfloat16()
