"""Viterbi against every sequence there is."""

import itertools

import pytest
import torch

from elmo_bench.nn import barrier, viterbi
from elmo_bench.text import bio_moves, bioul_moves

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
    moves, starts, ends = torch.randn(size, size), torch.randn(size), torch.randn(size)
    if constrained:
        moves, starts, ends = (barrier(allowed) for allowed in bio_moves(LABELS))
    lengths = [4, 1, 3]
    mask = torch.arange(4) < torch.tensor(lengths)[:, None]
    expected = [
        best_of_all(row[:length], moves, starts, ends)
        for row, length in zip(scores, lengths, strict=True)
    ]
    assert viterbi(scores, moves, starts, ends, mask) == expected


@pytest.mark.parametrize("moves_of", [bio_moves, bioul_moves])
def test_no_sequence_is_decoded_that_the_scheme_forbids(moves_of):
    labels = LABELS if moves_of is bio_moves else ["O", "B-X", "I-X", "L-X", "U-X"]
    moves, starts, ends = moves_of(labels)
    inside = [
        10.0 if label[0] == "I" else 0.0 for label in labels
    ]  # what no sequence can have throughout
    scores = torch.tensor(inside).repeat(4, 6, 1) + torch.randn(4, 6, len(labels))
    for path in viterbi(
        scores, *map(barrier, (moves, starts, ends)), torch.ones(4, 6, dtype=torch.bool)
    ):
        assert starts[path[0]]
        assert ends[path[-1]]
        assert all(moves[a][b] for a, b in itertools.pairwise(path))
