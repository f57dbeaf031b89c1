"""Attention and pooling against loops over single sentences, and at their edges.

Axes: B batch, N tokens that look, M tokens that are looked at, H features.
"""

import pytest
import torch

from elmo_bench.nn import attend, masked_max, masked_mean, masked_softmax

LENGTHS = [4, 1, 3]
MASK = torch.arange(4) < torch.tensor(LENGTHS)[:, None]
VALUES = torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))
QUERIES = torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(1))


def test_softmax_is_that_of_the_true_places_alone():
    scores = VALUES[..., 0]
    shares = masked_softmax(scores, MASK)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(shares[row, :length], scores[row, :length].softmax(-1))
        assert (shares[row, length:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_softmax_of_huge_scores_and_of_rubbish_outside_the_mask(dtype):
    mask = torch.tensor([True, True, False, False])
    scores = torch.tensor([6e4, -6e4, float("nan"), float("inf")], dtype=dtype)
    expected = torch.tensor([1.0, 0, 0, 0], dtype=dtype)
    torch.testing.assert_close(masked_softmax(scores, mask), expected)


def test_softmax_of_nothing_is_zero_and_has_no_gradient():
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    shares = masked_softmax(scores, torch.tensor([[False, False], [True, True]]))
    assert shares[0].tolist() == [0, 0]
    shares[:, 0].sum().backward()
    assert scores.grad[0].tolist() == [0, 0]
    assert (scores.grad[1] != 0).all()


def test_attention_against_loops():
    context = attend(QUERIES @ VALUES.mT, VALUES, MASK[:, None])
    for b, length in enumerate(LENGTHS):
        for n in range(2):
            powers = [float((QUERIES[b, n] @ VALUES[b, m]).exp()) for m in range(length)]
            expected = sum(power * VALUES[b, m] for m, power in enumerate(powers)) / sum(powers)
            torch.testing.assert_close(context[b, n], expected)


def test_each_token_may_have_a_mask_of_its_own():
    itself = torch.eye(4, dtype=torch.bool)
    others = MASK[:, None] & ~itself  # as in self-attention
    context = attend(VALUES @ VALUES.mT, VALUES, others)
    alone = attend(VALUES[2:, :1] @ VALUES[2:, 1:].mT, VALUES[2:, 1:], MASK[2:, None, 1:])
    torch.testing.assert_close(context[2:, :1], alone)
    assert (context[1, 0] == 0).all()  # a sentence of one word has nothing else to look at


def test_pooling_against_loops():
    mean, highest = masked_mean(VALUES, MASK), masked_max(VALUES, MASK)
    lowest = -masked_max(-VALUES, MASK)
    for b, length in enumerate(LENGTHS):
        torch.testing.assert_close(mean[b], VALUES[b, :length].mean(0))
        torch.testing.assert_close(highest[b], VALUES[b, :length].amax(0))
        torch.testing.assert_close(lowest[b], VALUES[b, :length].amin(0))


def test_pooling_of_a_sentence_without_words():
    nothing = torch.zeros(3, 4, dtype=torch.bool)
    assert (masked_mean(VALUES, nothing) == 0).all()
    assert (masked_max(VALUES, nothing) == 0).all()
    assert (attend(VALUES @ VALUES.mT, VALUES, nothing[:, None]) == 0).all()
