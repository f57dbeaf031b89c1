"""Adapters beside a frozen model's linear layers."""

import re
import sys

import pytest
import torch

from elmo_bench.encoders import add_adapters
from elmo_bench.encoders.transformer import Transformer
from elmo_bench.training.optim import FineTuning
from tests.encoders import random_transformers
from tests.encoders.random_bilm import random_bilm

SENTENCES = [["Ann", "runs"], ["No", "one", "slept"]]


@pytest.mark.filterwarnings("ignore:fan_in_fan_out")  # GPT-2's weights lie the other way round
@pytest.mark.parametrize("name", ["bert", "gpt2", "t5"])
def test_adapters_alone_train(sample_lines, tmp_path, name):
    """They add nothing before the first step; afterwards every block's have moved, and no weight."""
    encoder = Transformer(model=random_transformers.save(name, tmp_path / name, sample_lines))
    inputs = encoder.prepare(SENTENCES)
    before = encoder(inputs).detach()
    weights = {name: p.detach().clone() for name, p in encoder.named_parameters()}
    add_adapters(encoder, 2)
    torch.testing.assert_close(encoder(inputs), before)

    groups = FineTuning().groups(encoder)
    assert len(groups) == 3  # blocks, the embeddings have none
    trained = {p for group in groups for p in group}
    assert trained == {p for p in encoder.parameters() if p.requires_grad}
    assert all(2 in p.shape for p in trained)
    others = re.compile("embed|w[tp]e|shared|bias")
    linear = [p for name, p in weights.items() if p.ndim == 2 and not others.search(name)]
    assert len(trained) == 2 * len(linear)

    optimizer = torch.optim.SGD(trained, lr=0.1)
    for _ in range(2):  # the second factor starts from 0, so the first has no gradient yet
        optimizer.zero_grad()
        encoder(inputs).square().sum().backward()
        optimizer.step()
    assert all(p.grad is not None and p.grad.any() for p in trained)
    after = {name.replace("base_layer.", ""): p for name, p in encoder.named_parameters()}
    assert all(torch.equal(after[name], weight) for name, weight in weights.items())


def test_an_encoder_without_a_model_of_transformers():
    said = r"finetune=lora requires an encoder with .* but this one is a BiLm"
    with pytest.raises(ValueError, match=said):
        add_adapters(random_bilm(), 8)


def test_without_peft(sample_lines, tmp_path, monkeypatch):
    encoder = Transformer(model=random_transformers.save("bert", tmp_path / "bert", sample_lines))
    monkeypatch.setitem(sys.modules, "peft", None)
    said = r"finetune=lora .* pip install .*\[transformers\]"
    with pytest.raises(ImportError, match=said):
        add_adapters(encoder, 4)
