"""The simulation of which split decides: its corpora are equally good, and its examples the same."""

import numpy as np
import pytest
from splits import EPOCHS, MORE, Corpus, Split, _resampled, simulated


@pytest.fixture
def corpus():
    def a_split(number):
        ease = np.random.default_rng(number).normal(0.5, 1, number)
        return Split(np.ones(number), ease, np.arange(number) // 4, is_label=True)

    return Corpus({"dev": a_split(60), "test": a_split(80)}, skill=0.2, taste=0.5, epochs=0.2)


def test_level(corpus):
    """Of equally good systems p is seldom small, on each split."""
    rejected = np.mean([simulated(corpus, EPOCHS, seed) for seed in range(120)], 0)
    assert rejected.shape == (3, 2)
    assert (rejected[:, 0] < 0.13).all()
    assert (rejected[:, 1] < 0.03).all()


def test_more_epochs_flatter_dev(corpus):
    """A side that chooses among more epochs looks better on dev, not on test."""
    still = Corpus(corpus.splits, skill=0.0, taste=0.0, epochs=0.0)
    rejected = np.mean([simulated(still, 10 * MORE, seed) for seed in range(40)], 0)
    assert rejected[0, 0] > 0.15 > rejected[1, 0]


def test_examples_are_drawn_by_cluster(corpus):
    split = corpus.splits["test"]
    drawn = _resampled(split, np.random.default_rng(1))
    assert len(drawn.ease) == len(split.ease)
    of_clusters = {tuple(split.ease[split.clusters == number]) for number in range(20)}
    assert {tuple(drawn.ease[drawn.clusters == number]) for number in range(20)} <= of_clusters
