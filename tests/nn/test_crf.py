"""The CRF against all paths, one by one, and against the original's figures."""

import json
from itertools import pairwise, product

import numpy as np
import pytest
import torch

from elmo_bench.nn import Crf
from elmo_bench.text import tag_moves

LABELS = ["O", "B-PER", "I-PER", "L-PER", "U-PER"]


def random_crf(labels=LABELS):
    crf = Crf(*tag_moves(labels, bioul=True))
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return crf


def path_score(crf, scores, path):
    score = sum(scores[t, label] for t, label in enumerate(path))
    return float(score + sum(crf.transitions[a, b] for a, b in pairwise(path)))


def allowed(path):
    moves, starts, ends = tag_moves(LABELS, bioul=True)
    return starts[path[0]] and ends[path[-1]] and all(moves[a][b] for a, b in pairwise(path))


@torch.no_grad()
def test_equals_brute_force():
    crf = random_crf()
    lengths = [5, 1, 3, 4]
    scores = torch.randn(len(lengths), max(lengths), len(LABELS))
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    gold = torch.randint(len(LABELS), mask.shape)
    likelihoods, decoded = crf.log_likelihood(scores, gold, mask), crf.decode(scores, mask)
    for row, length in enumerate(lengths):
        paths = list(product(range(len(LABELS)), repeat=length))
        figures = np.array([path_score(crf, scores[row], path) for path in paths])
        partition = np.logaddexp.reduce(figures)
        assert likelihoods[row].item() == pytest.approx(
            path_score(crf, scores[row], gold[row, :length].tolist()) - partition, abs=1e-4
        )
        best = max(filter(allowed, paths), key=lambda path: path_score(crf, scores[row], path))
        assert decoded[row] == list(best)


@torch.no_grad()
def test_golden(golden_modules):
    golden = json.loads((golden_modules / "crf.json").read_text("utf-8"))
    moves, starts, ends = tag_moves(golden["labels"], bioul=True)
    size = len(golden["labels"])
    assert torch.tensor(moves).nonzero().tolist() == golden["allowed_transitions"]
    assert [k for k in range(size) if starts[k]] == golden["allowed_start"]
    assert [k for k in range(size) if ends[k]] == golden["allowed_end"]

    def tensor(entry):
        return torch.tensor(np.array(entry["data"], dtype=np.float32).reshape(entry["shape"]))

    cases = [case for case in golden["cases"] if not case["start_end_transitions"]]
    assert cases
    for case in cases:
        free = [True] * size
        constrained, loose = Crf(moves, starts, ends), Crf([free] * size, free, free)
        for crf in (constrained, loose):
            crf.transitions.copy_(tensor(case["transitions_from_row_to_col"]))
        scores, rows = tensor(case["logits"]), case["rows"]
        lengths = torch.tensor([row["length"] for row in rows])
        mask = torch.arange(scores.shape[1]) < lengths[:, None]
        tags = torch.zeros(mask.shape, dtype=torch.long)
        for place, row in enumerate(rows):
            tags[place, : len(row["tags"])] = torch.tensor(row["tags"])
        likelihoods = constrained.log_likelihood(scores, tags, mask)
        expected = [row["gold_score"] - row["log_partition"] for row in rows]
        assert likelihoods.tolist() == pytest.approx(expected, abs=1e-4)
        assert likelihoods.sum().item() == pytest.approx(case["sum_log_likelihood"], abs=1e-4)
        assert constrained.decode(scores, mask) == [row["viterbi_bioul"][0] for row in rows]
        assert loose.decode(scores, mask) == [row["viterbi_unconstrained"][0] for row in rows]


def test_gradient_and_padding():
    crf = random_crf()
    scores = torch.randn(2, 4, len(LABELS), requires_grad=True)
    mask = torch.tensor([[True] * 4, [True, True, False, False]])
    crf.log_likelihood(scores, torch.zeros(2, 4, dtype=torch.long), mask).sum().backward()
    assert scores.grad[0].abs().sum() > 0
    assert not scores.grad[1, 2:].any()
