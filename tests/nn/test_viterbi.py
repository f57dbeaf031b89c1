"""Viterbi against every sequence there is."""

import itertools

import pytest
import torch

from elmo_bench.nn import viterbi
from elmo_bench.text import tag_moves

LABELS = ["O", "B-X", "I-X", "B-Y", "I-Y"]


def best_of_all(scores, moves, starts, ends):
    """The best path by its definition."""
    scores, moves, starts, ends = (table.tolist() for table in (scores, moves, starts, ends))

    def value(path):
        steps = sum(moves[a][b] for a, b in itertools.pairwise(path))
        return (
            starts[path[0]] + ends[path[-1]] + steps + sum(scores[t][k] for t, k in enumerate(path))
        )

    return list(max(itertools.product(range(len(ends)), repeat=len(scores)), key=value))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("constrained", [False, True])
def test_equals_the_best_of_all_sequences(seed, constrained):
    torch.manual_seed(seed)
    scores, size = torch.randn(3, 4, len(LABELS)), len(LABELS)
    rules = tag_moves(LABELS) if constrained else ([[True] * size] * size, *([[True] * size] * 2))
    transitions = torch.randn(size, size)
    moves, starts, ends = (torch.where(torch.tensor(allowed), 0.0, -torch.inf) for allowed in rules)
    lengths = [4, 1, 3]
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    expected = [
        best_of_all(row[:length], moves + transitions, starts, ends)
        for row, length in zip(scores, lengths, strict=True)
    ]
    assert viterbi(scores, mask, rules, transitions) == expected
