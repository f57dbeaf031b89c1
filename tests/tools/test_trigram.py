"""The n-gram baseline: a probability distribution, and Kneser-Ney's by hand."""

import numpy as np
import pytest

from benchmarks.trigram import BITS, Trigram

TEXT = [[3, 4, 5], [4, 3], [5, 5, 3, 4], [3, 4, 4], [3, 4, 5]]


@pytest.fixture
def trigram():
    return Trigram([np.array(sentence) for sentence in TEXT], 7, begin=0, end=1)


def test_by_hand(trigram):
    framed = [[0, 0, *sentence, 1] for sentence in TEXT]
    grams = [tuple(row[k : k + 3]) for row in framed for k in range(len(row) - 2)]

    def order(grams, n):
        counts = {gram: grams.count(gram) for gram in set(grams)}
        ones, twos = ([*counts.values()].count(n) for n in (1, 2))
        return counts, ones / (ones + 2 * twos) if ones and twos else 0.5

    tables = [order(grams, 3)]
    for _ in range(2):
        tables.append(order([gram[1:] for gram in tables[-1][0]], 2))

    def probability(gram):
        if not gram:
            return 1 / 6
        counts, discount = tables[3 - len(gram)]
        same = {g: c for g, c in counts.items() if g[:-1] == gram[:-1]}
        lower = probability(gram[1:])
        if not same:
            return lower
        return (max(counts.get(gram, 0) - discount, 0) + discount * len(same) * lower) / sum(
            same.values()
        )

    for gram in [(3, 4, 5), (0, 0, 3), (5, 4, 3), (4, 5, 1), (2, 6, 6), (0, 4, 3)]:
        key = np.array([gram[0] << 2 * BITS | gram[1] << BITS | gram[2]])
        assert trigram.probabilities(key)[0] == pytest.approx(probability(gram))
    assert trigram.perplexity([np.array([3, 4, 2])]) == pytest.approx(
        np.prod([probability(gram) for gram in [(0, 0, 3), (0, 3, 4), (3, 4, 2), (4, 2, 1)]])
        ** (-1 / 4)
    )
