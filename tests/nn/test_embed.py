"""Word vectors from characters."""

import torch

from elmo_bench.nn import tokens
from elmo_bench.nn.embed import Characters
from elmo_bench.text import Vocab
from elmo_bench.text.chars import char_ids


def test_a_word_is_the_same_beside_a_longer_one():
    characters = Characters(4, 64, 3, 0.0, None)
    alone, beside = (
        characters(char_ids([words]))[0, 0] for words in (["a"], ["a", "internationalisation"])
    )
    torch.testing.assert_close(alone, beside)


def test_it_is_the_maximum_over_the_places_that_touch_the_word():
    characters = Characters(4, 8, 3, 0.0, None)
    ids = char_ids([["ab", "abcdef"]])
    inside = ids[0, 0][:4]  # begin, a, b, end
    frame = torch.nn.functional.pad(characters.embedding(inside).T, (2, 2))
    weight, bias = characters.convolution.weight, characters.convolution.bias
    places = [(weight * frame[:, k : k + 3]).sum((1, 2)) + bias for k in range(6)]
    torch.testing.assert_close(characters(ids)[0, 0], torch.stack(places).amax(0).relu())


def test_characters_start_small_and_are_dropped_before_the_convolution():
    characters = Characters(4, 8, 1, 0.0, 0.05)
    assert 0.04 < characters.embedding.weight.abs().max() <= 0.05
    ids = char_ids([["word"]])
    dropped = Characters(4, 8, 1, 0.999, None)
    torch.testing.assert_close(dropped(ids)[0, 0], dropped.convolution.bias.relu())
    assert not torch.equal(dropped.eval()(ids)[0, 0], dropped.convolution.bias.relu())


def test_characters_reach_to_the_end_of_the_longest_word():
    batch = tokens([["a", "bc"], ["d"]], Vocab([], []))
    assert batch.with_chars().chars.tolist() == [
        [[259, 98, 260, 261], [259, 99, 100, 260]],
        [[259, 101, 260, 261], [0, 0, 0, 0]],
    ]
