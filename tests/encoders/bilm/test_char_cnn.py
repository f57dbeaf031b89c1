"""The character CNN: sums of table rows, on a CPU, against convolutions."""

import pytest
import torch

from elmo_bench.encoders.bilm import Options, char_cnn
from elmo_bench.encoders.bilm.char_cnn import CharCnn
from elmo_bench.text.chars import char_ids
from tests.encoders.bilm import plain_bilm

WORDS = ["", "a", "banana", "naïve", "x" * 60, "abcdefghijklmnopqrstuvwxyz" * 2]


@pytest.fixture
def cnn():
    torch.manual_seed(0)
    made = CharCnn(Options(8, 6, ((1, 5), (3, 64), (7, 130)), activation="tanh"))
    torch.nn.init.normal_(made.convolutions[2].bias)
    return made


@pytest.mark.parametrize("words", [1, 4, 128])
def test_equals_convolutions(cnn, monkeypatch, words):
    """Values and gradients of words of no letter, of one, of more than fit; of an end, zeros."""
    monkeypatch.setattr(char_cnn, "WORDS", words)
    chars = torch.cat([char_ids([WORDS])[0], torch.zeros(1, 50, dtype=torch.int64)])
    results = []
    for vectors in (cnn(chars), cnn.eval()(chars.int()), plain_bilm.token_vectors(cnn, chars)):
        loss = vectors.square().sum()
        results.append([vectors, *torch.autograd.grad(loss, [*cnn.parameters()])])
    torch.testing.assert_close(results[0], results[2], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(results[1], results[0], atol=0, rtol=0)
    with torch.no_grad():
        assert torch.equal(cnn(chars), results[0][0])
    highest = cnn._by_convolution(chars), cnn._by_table(chars)
    torch.testing.assert_close(*highest, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("trains", [False, True])
def test_nan_stays(cnn, trains):
    """So that training with a number that is none is noticed; whatever follows it in the word."""
    chars = char_ids([["word"]])[0]
    with torch.no_grad():
        cnn.embedding.weight[chars[0, 2]] = float("nan")
    assert cnn.requires_grad_(trains)(chars).isnan().all()


def test_what_is_no_word_is_refused(cnn):
    for wrong in (torch.full((1, 50), 262), torch.full((1, 50), -1), char_ids([["w"]])[0][:, :6]):
        with pytest.raises((RuntimeError, IndexError)):
            cnn(wrong)
