"""Sampled against full softmax: the sampler draws as often as it says, and training has the same
goal.
"""

import itertools

import numpy as np
import pytest
import torch

from elmo_bench.lm.sampled import Candidates, candidates, draw, log_uniform, sampled_loss


def test_samples_are_different_and_as_frequent_as_expected():
    rng, size, samples, times = np.random.default_rng(0), 30, 8, 4000
    seen, expected = np.zeros(size), np.zeros(size)
    for _ in range(times):
        drawn, tries = draw(samples, size, rng)
        assert len(set(drawn.tolist())) == samples
        seen[drawn] += 1
        expected += 1 - (1 - log_uniform(np.arange(size), size)) ** tries
    np.testing.assert_allclose(expected / times, seen / times, atol=0.025)
    with pytest.raises(ValueError, match=r"samples=30, but they must be fewer than the 30 words"):
        draw(30, 30, rng)


def test_all_words_as_samples_is_the_full_softmax(monkeypatch):
    monkeypatch.setattr("elmo_bench.lm.sampled._CPU_SCORES", 10)  # two tokens at a time
    x, weight, bias = torch.randn(7, 3), torch.randn(5, 3), torch.randn(5)
    parameters = [tensor.requires_grad_() for tensor in (x, weight, bias)]
    targets, samples = torch.tensor([0, 1, 2, 3, 4, 4, 0]), torch.tensor([3, 0, 4, 1, 2])
    losses = (
        sampled_loss(x, weight, bias, Candidates(targets, samples, torch.zeros(7), torch.zeros(5))),
        torch.nn.functional.cross_entropy(x @ weight.T + bias, targets, reduction="sum"),
    )
    torch.testing.assert_close(*losses)
    torch.testing.assert_close(*(torch.autograd.grad(3 * loss, parameters) for loss in losses))


def test_the_expected_gradient_is_the_full_softmaxs():
    """Exactly, over all sets of samples: where targets come from the model itself, both gradients
    are zero.
    """
    size = 5
    shapes = (1, 3), (size, 3), (size,)
    x, weight, bias = (torch.randn(shape).double().requires_grad_() for shape in shapes)
    truth = (x @ weight.T + bias).softmax(-1).detach()[0]
    # How likely each word is to be among the samples.
    often = torch.tensor([0.9, 0.6, 0.5, 0.3, 0.2]).double()
    total = torch.zeros(()).double()
    for chosen in itertools.product([False, True], repeat=size):
        mask = torch.tensor(chosen)
        samples = mask.nonzero()[:, 0]
        share = torch.where(mask, often, 1 - often).prod()
        for word in range(size) if any(chosen) else ():  # a target that is alone has no gradient
            targets = torch.tensor([word])
            counts = often.log()[targets], often.log()[samples]
            loss = sampled_loss(x, weight, bias, Candidates(targets, samples, *counts))
            total = total + share * truth[word] * loss
    for gradient in torch.autograd.grad(total, [x, weight, bias]):
        torch.testing.assert_close(gradient, torch.zeros_like(gradient), atol=1e-6, rtol=0)


def test_candidates_are_places_among_the_gathered_rows():
    goals = [np.array([7, 3, 7]), np.array([99, 0, 3])]
    rows, chosen = candidates(goals, 10, 100, np.random.default_rng(0))
    assert rows.tolist() == sorted(set(rows.tolist()))
    for goal, part in zip(goals, chosen, strict=True):
        assert rows[part.targets].tolist() == goal.tolist()
        assert len(set(rows[part.samples].tolist())) == 10
        assert (part.log_target_counts <= 0).all()
