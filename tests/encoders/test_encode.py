"""Batches of sentences, and their layers."""

import pytest
import torch

from elmo_bench.encoders import batches, encode_each
from elmo_bench.encoders.bilm import BiLm, Options

LENGTHS = [3, 0, 50, 7, 7, 1, 12, 300, 0]


@pytest.mark.parametrize("batch_tokens", [1, 20, 100, 10_000])
def test_every_sentence_once_within_the_budget(batch_tokens):
    found = list(batches(LENGTHS, batch_tokens))
    assert sorted(place for batch in found for place in batch) == list(range(len(LENGTHS)))
    for batch in found:
        assert (
            len(batch) == 1
            or len(batch) * (max(LENGTHS[place] for place in batch) + 2) <= batch_tokens
        )


def test_layers_without_dropout_and_the_mode_as_it_was():
    bilm = BiLm(Options(cell_size=8, projection_size=4, filters=((1, 4), (3, 4))), dropout=0.5)
    sentences = [["a", "b"], [], ["c"]]
    found = dict(encode_each(bilm, sentences, batch_tokens=8))
    assert bilm.training
    bilm.eval()
    for place, sentence in enumerate(sentences):
        torch.testing.assert_close(found[place], bilm(bilm.prepare([sentence]))[:, 0])
        assert not found[place].requires_grad
