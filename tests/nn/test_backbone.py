from functools import partial

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from elmo_bench.elmo import Elmo
from elmo_bench.nn import Backbone, BiGru, BiLstm, Words, WordsChars, tokens, variational_dropout
from elmo_bench.text import Vocab
from tests.encoders.random_bilm import random_bilm

VOCAB = Vocab(["the", "cat"], ["O"])
SENTENCES = [["The", "cat", "sat"], ["the"]]


def backbone(at, **more):
    torch.manual_seed(0)
    embed = WordsChars(vocab=VOCAB, vectors={}, word_dim=6, char_dim=3, num_filters=4, width=3)
    elmo = Elmo(random_bilm(), at=at)
    return Backbone(embed, elmo, partial(BiLstm, hidden_size=5), **more)


@pytest.mark.parametrize(
    ("at", "dim"), [([], 10), (["input"], 10), (["output"], 18), (["input", "output"], 18)]
)
def test_widths(at, dim):
    built = backbone(at)
    out = built(tokens(SENTENCES, VOCAB))
    assert built.dim == dim
    assert out.shape == (2, 3, dim)


def test_padding_changes_nothing():
    built = backbone(["input", "output"]).eval()
    together, alone = built(tokens(SENTENCES, VOCAB)), built(tokens(SENTENCES[1:], VOCAB))
    torch.testing.assert_close(together[1, :1], alone[0])


def test_tokens():
    batch = tokens([["The", "dog"], []], VOCAB)
    assert batch.words.tolist() == [[2, 1], [0, 0]]
    assert batch.mask.tolist() == [[True, True], [False, False]]


def test_pretrained_vectors():
    vectors = {"cat": np.array([1.0, 2.0], dtype=np.float32)}
    embed = Words(vocab=VOCAB, vectors=vectors, word_dim=50, freeze=True)
    assert embed.dim == 2
    assert embed(tokens([["Cat"]], VOCAB)).tolist() == [[[1.0, 2.0]]]
    assert not embed(tokens([["the", "dog"]], VOCAB)).any()  # what has no vector is zero
    assert not embed.embedding.weight.requires_grad
    trained = Words(vocab=VOCAB, vectors={}, word_dim=5, freeze=True)  # nothing to freeze
    assert trained.embedding.weight.requires_grad
    nothing = Words(vocab=VOCAB, vectors={}, word_dim=0)
    assert not nothing.embedding.weight.requires_grad  # its gradient ends a process on a GPU
    assert nothing(tokens([["Cat"]], VOCAB)).shape == (1, 1, 0)


def test_lstm_equals_torch_on_packed_sequences():
    """Layers, directions and padding; one sentence has no words. The gradient to the input as well."""
    lstm = BiLstm(input_size=3, hidden_size=4, num_layers=2)
    theirs = nn.LSTM(3, 4, num_layers=2, batch_first=True, bidirectional=True)
    for k, directions in enumerate(lstm.layers):
        for direction, suffix in zip(directions, ("", "_reverse"), strict=True):
            for name, weight in direction.named_parameters():
                getattr(theirs, name.replace("_l0", f"_l{k}") + suffix).data.copy_(weight.data)
    x, lengths = torch.randn(4, 5, 3, requires_grad=True), torch.tensor([2, 5, 1, 4])
    mask = torch.arange(5) < lengths[:, None]
    packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
    expected = pad_packed_sequence(theirs(packed)[0], batch_first=True)[0]
    torch.testing.assert_close(lstm(x, mask), expected)
    gradients = [torch.autograd.grad(out.square().sum(), x)[0] for out in (lstm(x, mask), expected)]
    torch.testing.assert_close(*gradients)
    mask[2] = False
    assert lstm(x, mask)[2].abs().sum() == 0


def test_a_gru_starts_small():
    parameters = BiGru(input_size=3, hidden_size=40).parameters()
    assert all(each.abs().max() <= (0.1 if each.dim() > 1 else 0) for each in parameters)


def test_variational_dropout():
    x = torch.ones(4, 7, 50)
    dropped = variational_dropout(x, 0.5, training=True)
    assert (dropped == dropped[:, :1]).all()  # one mask a sequence
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert variational_dropout(x, 0.5, training=False) is x
