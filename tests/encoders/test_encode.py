"""Batches of sentences, and their layers."""

from typing import NamedTuple

import pytest
import torch

from elmo_bench.encoders import Encoder, batches, encode, encode_each
from elmo_bench.encoders.bilm import BiLm, Options

LENGTHS = [3, 0, 50, 7, 7, 1, 12, 300, 0]
BILM = BiLm(Options(cell_size=8, projection_size=4, filters=((1, 4), (3, 4))), dropout=0.5)


@pytest.mark.parametrize("batch_tokens", [1, 20, 100, 10_000])
def test_every_sentence_once_within_the_budget(batch_tokens):
    found = list(batches(LENGTHS, batch_tokens))
    assert sorted(place for batch in found for place in batch) == list(range(len(LENGTHS)))
    for batch in found:
        longest = max(LENGTHS[place] for place in batch)
        assert len(batch) == 1 or len(batch) * (longest + 2) <= batch_tokens


class Numbers(NamedTuple):
    numbers: torch.Tensor


class Lengths(Encoder):
    """An encoder without parameters: a word's vector is its length."""

    num_layers, dim = 2, 1

    def fingerprint(self):
        return "lengths"

    def parameter_groups(self):
        return []

    def prepare(self, sentences):
        rows = [torch.tensor([float(len(word)) for word in sentence]) for sentence in sentences]
        return Numbers(torch.nn.utils.rnn.pad_sequence(rows, True))

    def forward(self, inputs, layers=None):
        vectors = inputs.numbers[None, ..., None].expand(2, -1, -1, -1)
        return vectors if layers is None else vectors[list(layers)]


@pytest.mark.parametrize("encoder", [BILM, Lengths()])
def test_layers_that_an_encoder_does_not_have(encoder):
    last = encoder.num_layers - 1
    for layer in (-1, encoder.num_layers, 99):
        said = rf"layers=\[0,{layer}\], but this encoder has layers 0..{last}"
        with pytest.raises(ValueError, match=said):
            encode(encoder, [["a"]], [0, layer])
    assert encode(encoder, [["a"]], [last, 0])[0].shape[0] == 2
    assert encode(encoder, []) == []


@pytest.mark.parametrize("sentences", [[["a"], "Hello world"], "Hello world"])
def test_a_text_is_no_list_of_words(sentences):
    with pytest.raises(ValueError, match=r"the text 'H.*must be a list of words"):
        encode(Lengths(), sentences)


def test_batches_are_halved_until_memory_suffices(monkeypatch, caplog):
    """A batch of 5 fails, and its first half; then all parts have room."""
    sentences = [["a"] * length for length in (1, 2, 3, 4, 5)]
    forward, sizes = Lengths.forward, []

    def limited(self, inputs, layers=None):
        sizes.append(len(inputs.numbers))
        if inputs.numbers.numel() > 6:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(self, inputs, layers)

    monkeypatch.setattr(Lengths, "forward", limited)
    found = encode_each(Lengths(), sentences, batch_tokens=40)  # in this order, as a store needs
    assert [(number, vectors.shape[1]) for number, vectors in found] == [*enumerate(range(1, 6))]
    assert sizes == [5, 3, 2, 1, 1, 1]
    said = [message.rpartition("reads ")[2] for message in caplog.messages]
    assert said == ["20 tokens a batch", "10 tokens a batch"]
    with pytest.raises(torch.OutOfMemoryError):
        encode(Lengths(), [["a"] * 7])


def test_layers_without_dropout_and_the_mode_as_it_was():
    bilm = BILM.train()
    sentences = [["a", "b"], [], ["c"]]
    found = dict(encode_each(bilm, sentences, batch_tokens=8))
    assert bilm.training
    bilm.eval()
    for place, sentence in enumerate(sentences):
        torch.testing.assert_close(found[place], bilm(bilm.prepare([sentence]))[:, 0])
        assert not found[place].requires_grad
