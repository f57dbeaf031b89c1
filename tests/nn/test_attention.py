"""Attention and pooling against loops over single sentences, and at their edges.

Axes: B batch, N tokens that look, M tokens that are looked at, H features.
"""

import pytest
import torch

from elmo_bench.nn import attend, masked_max, masked_mean, masked_softmax

LENGTHS = [4, 1, 3]


@pytest.fixture
def mask() -> torch.Tensor:
    return torch.arange(4) < torch.tensor(LENGTHS)[:, None]


@pytest.fixture
def values() -> torch.Tensor:
    return torch.randn(3, 4, 5, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def queries() -> torch.Tensor:
    return torch.randn(3, 2, 5, generator=torch.Generator().manual_seed(1))


def test_softmax_is_that_of_the_true_places_alone(mask, values):
    scores = values[..., 0]
    shares = masked_softmax(scores, mask)
    for row, length in enumerate(LENGTHS):
        torch.testing.assert_close(shares[row, :length], scores[row, :length].softmax(-1))
        assert (shares[row, length:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
def test_softmax_of_huge_scores_and_of_rubbish_outside_the_mask(dtype):
    mask = torch.tensor([True, True, False, False])
    scores = torch.tensor([6e4, -6e4, float("nan"), float("inf")], dtype=dtype)
    torch.testing.assert_close(
        masked_softmax(scores, mask), torch.tensor([1.0, 0, 0, 0], dtype=dtype)
    )


def test_softmax_of_nothing_is_zero_and_has_no_gradient():
    scores = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    shares = masked_softmax(scores, torch.tensor([[False, False], [True, True]]))
    assert shares[0].tolist() == [0, 0]
    shares[:, 0].sum().backward()
    assert scores.grad[0].tolist() == [0, 0]
    assert (scores.grad[1] != 0).all()


def test_attention_against_loops(mask, values, queries):
    context = attend(queries @ values.mT, values, mask[:, None])
    for b, length in enumerate(LENGTHS):
        for n in range(2):
            powers = [float((queries[b, n] @ values[b, m]).exp()) for m in range(length)]
            expected = sum(power * values[b, m] for m, power in enumerate(powers)) / sum(powers)
            torch.testing.assert_close(context[b, n], expected)


def test_each_token_may_have_a_mask_of_its_own(mask, values):
    itself = torch.eye(4, dtype=torch.bool)
    others = mask[:, None] & ~itself  # as in self-attention
    context = attend(values @ values.mT, values, others)
    alone = attend(values[2:, :1] @ values[2:, 1:].mT, values[2:, 1:], mask[2:, None, 1:])
    torch.testing.assert_close(context[2:, :1], alone)
    assert (context[1, 0] == 0).all()  # a sentence of one word has nothing else to look at


def test_pooling_against_loops(mask, values):
    mean, highest = masked_mean(values, mask), masked_max(values, mask)
    lowest = -masked_max(-values, mask)
    for b, length in enumerate(LENGTHS):
        torch.testing.assert_close(mean[b], values[b, :length].mean(0))
        torch.testing.assert_close(highest[b], values[b, :length].amax(0))
        torch.testing.assert_close(lowest[b], values[b, :length].amin(0))


def test_pooling_of_a_sentence_without_words(values):
    nothing = torch.zeros(3, 4, dtype=torch.bool)
    assert (masked_mean(values, nothing) == 0).all()
    assert (masked_max(values, nothing) == 0).all()
    assert (attend(values @ values.mT, values, nothing[:, None]) == 0).all()
