"""The character CNN by table, in C, against its definition: values and gradients."""

import pytest
import torch

from elmo_bench.encoders.bilm import Options, bilm, char_ids, native
from elmo_bench.encoders.bilm.lookup import LookupCnn

pytestmark = pytest.mark.skipif(native.LIBRARY is None, reason="native.c was not built")
OPTIONS = Options(8, 6, ((1, 5), (3, 64), (7, 130)), activation="tanh")


def pair(options=OPTIONS):
    """The two with the same weights."""
    torch.manual_seed(0)
    defined, ours = bilm.CharCnn(options), LookupCnn(options)
    torch.nn.init.normal_(defined.convolutions[2].bias)
    ours.load_state_dict(defined.state_dict())
    return defined, ours


def test_equals_the_definition():
    """Words of no letter, of one, of more than fit; a sentence's end, which is zeros."""
    words = ["", "a", "banana", "naïve", "x" * 60, "abcdefghijklmnopqrstuvwxyz" * 2]
    chars = torch.cat([char_ids([words]), char_ids([[]]).new_zeros(1, 6, 50)])
    results = []
    for cnn in pair():
        vectors = cnn(chars)
        loss = vectors.square().sum()
        results.append([vectors, *torch.autograd.grad(loss, [*cnn.parameters()])])
    for expected, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, expected, atol=1e-5, rtol=1e-5)


def test_without_gradients_and_on_two_threads():
    _, cnn = pair()
    chars, threads = char_ids([[f"w{number}" for number in range(999)]]), torch.get_num_threads()
    expected = cnn(chars)
    torch.set_num_threads(2)
    with torch.no_grad():
        vectors = cnn(chars)
    torch.set_num_threads(threads)
    torch.testing.assert_close(vectors, expected, atol=1e-6, rtol=0)


def test_nan_stays():
    _, cnn = pair()
    with torch.no_grad():
        cnn.convolutions[1].weight[3].fill_(float("nan"))
    assert cnn(char_ids([["word"]])).isnan().any()


def test_nan_of_one_character_stays():
    """Whatever follows it in the word."""
    chars = char_ids([["word"]])
    for cnn in pair():
        with torch.no_grad():
            cnn.embedding.weight[chars[0, 0, 2]] = float("nan")
        assert cnn(chars).isnan().all()


def test_a_character_that_is_none_is_refused():
    _, cnn = pair()
    with pytest.raises(IndexError):
        cnn(torch.full((1, 1, 50), 262))


def test_integers_of_other_sizes():
    """C reads addresses: numbers half as wide would be others, and outside the table."""
    _, cnn = pair()
    chars = char_ids([["some", "words"]])
    assert torch.equal(cnn(chars.int()), cnn(chars))


def test_words_shorter_than_a_filter_are_refused():
    for cnn in pair():
        with pytest.raises(RuntimeError):
            cnn(char_ids([["word"]])[..., :6])
