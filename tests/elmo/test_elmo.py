import subprocess
import sys

import pytest
import torch

from elmo_bench.elmo import Elmo
from elmo_bench.encoders.bilm import BiLm, Chars, Options
from elmo_bench.text.chars import char_ids

OPTIONS = Options(cell_size=6, projection_size=4, filters=((1, 3),))
CHARS = char_ids([["a", "b", "c"], ["d"]])
MASK = (CHARS > 0).any(-1)


@pytest.mark.parametrize(
    ("at", "widths"),
    [(["input"], (8, 0)), (["output"], (0, 8)), (["input", "output"], (8, 8)), ([], (0, 0))],
)
def test_places(at, widths):
    elmo = Elmo(BiLm(OPTIONS), at=at)
    vectors = elmo(MASK, Chars(CHARS))
    assert tuple(v.shape for v in vectors) == ((2, 3, widths[0]), (2, 3, widths[1]))
    assert (elmo.dim("input"), elmo.dim("output")) == widths
    assert len({id(mix.weights) for mix in elmo.mixes.values()}) == len(at)  # separate mixes


def test_nonsense_from_python_is_not_ignored():
    """In a process without pytest, which compares every call with its types."""
    code = "from elmo_bench.elmo import Elmo; Elmo(None, at=['inputt'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stderr.endswith("ValueError: elmo.at=inputt, but it must be input or output\n")


def test_baseline_is_a_null_object():
    elmo = Elmo(None, mix="none", at=["input", "output"])
    assert [v.shape[-1] for v in elmo(MASK, Chars(CHARS))] == [0, 0]
    assert not list(elmo.parameters())
    assert elmo.penalty() == 0


@pytest.mark.parametrize("finetune", [False, True])
def test_gradients(finetune):
    elmo = Elmo(BiLm(OPTIONS, dropout=0.5).train(not finetune), finetune=finetune, dropout=0.0)
    assert {module.training for module in elmo.encoder.modules()} == {finetune}
    elmo.train()(MASK, Chars(CHARS)).input.sum().backward()
    assert elmo.encoder.training is finetune
    assert elmo.mixes["input"].gamma.grad is not None
    assert all((p.grad is not None) is finetune for p in elmo.encoder.directions.parameters())


def test_penalty_adds_up_over_places():
    elmo = Elmo(BiLm(OPTIONS), at=["input", "output"], l2=0.5)
    with torch.no_grad():
        for mix in elmo.mixes.values():
            mix.weights.fill_(-3.0)
            mix.gamma.fill_(100.0)  # of which there is no penalty
    assert elmo.penalty().item() == pytest.approx(0.5 * 2 * 3 * 9)


def test_dropout_only_in_training():
    elmo = Elmo(BiLm(OPTIONS), dropout=0.9)
    assert (elmo.train()(MASK, Chars(CHARS)).input[MASK] == 0).float().mean() > 0.5
    assert (elmo.eval()(MASK, Chars(CHARS)).input[MASK] != 0).all()


@pytest.mark.parametrize("finetune", [False, True])
def test_a_frozen_encoder_keeps_its_precision_under_autocast(finetune):
    """So that a run without a store reads the layers that a store has."""
    elmo = Elmo(BiLm(OPTIONS), finetune=finetune)
    exact = elmo.encoder(Chars(CHARS), elmo.chosen)
    with torch.autocast("cpu", torch.bfloat16):
        layers = elmo._layers(Chars(CHARS), CHARS.shape[1])
    assert torch.equal(layers, exact) is not finetune
    assert torch.allclose(layers.float(), exact, atol=0.1)
