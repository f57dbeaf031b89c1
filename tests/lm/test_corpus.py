"""The encoded text: every token once, from any place."""

import numpy as np
import pytest

from elmo_bench.encoders.bilm import DIRECTIONS
from elmo_bench.lm import Corpus

TEXT = [["a", "b", "c"], ["b", "a"], [], ["c", "c", "a", "b"], ["é"]]
SHAPE = {"batch_size": 3, "unroll": 4}


def windows(corpus, direction="forward", seed=0, start=0, **shape):
    return list(
        corpus.windows(direction, **(shape or SHAPE), rng=np.random.default_rng(seed), start=start)
    )


def test_counts(monkeypatch):
    monkeypatch.setattr("elmo_bench.lm.corpus._CHUNK", 3)
    corpus = Corpus(iter(TEXT))
    assert corpus.words == ["<S>", "</S>", "a", "b", "c", "é"]
    assert corpus.counts.tolist() == [0, 0, 3, 3, 3, 1]
    assert (corpus.num_tokens, corpus.num_sentences) == (10, 4)
    assert corpus.digest() == Corpus(TEXT).digest() != Corpus(TEXT[:-1]).digest()
    orders = "ab ba ab a b", "ab ba a b ab"  # of sentences with equal counts of words
    assert len({Corpus(map(list, text.split())).digest() for text in orders}) == 2
    with pytest.raises(ValueError, match="no sentences"):
        Corpus([[], []])


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_every_token_once_an_epoch(direction, batch_size):
    """Whatever the shapes: all words and one end a sentence are targets, in an order that is
    another one in each epoch.
    """
    corpus = Corpus(TEXT * 3)
    shape = {"batch_size": batch_size, "unroll": 4}
    epochs = []
    for seed in range(2):
        targets = [t for _, t in windows(corpus, direction, seed, **shape)]
        assert len(targets) == corpus.num_windows(**shape)
        stream = np.concatenate(targets, 1)
        found = stream[stream >= 0].tolist()
        words = [word for word in corpus.tokens.tolist() if word > 1]
        expected = [*words, *[int(direction == "forward")] * corpus.num_sentences]
        assert sorted(found) == sorted(expected)
        epochs.append(found)
    assert epochs[0] != epochs[1]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_from_any_place(direction):
    corpus = Corpus(TEXT * 9)
    whole = windows(corpus, direction)
    for start in (1, 3):
        rest = windows(corpus, direction, start=start)
        for ours, theirs in zip(whole[start:], rest, strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_vocabulary_by_size_and_count():
    """It has what a line of a file can hold."""
    corpus = Corpus([*TEXT, ["<UNK>", "</S>", "b\nc", "\ud800"]])
    assert corpus.vocabulary() == ["<S>", "</S>", "<UNK>", "a", "b", "c", "é"]
    assert corpus.vocabulary(5) == ["<S>", "</S>", "<UNK>", "a", "b"]
    assert corpus.vocabulary(min_count=2) == ["<S>", "</S>", "<UNK>", "a", "b", "c"]
