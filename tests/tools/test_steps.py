"""The count of what waits for a device sees what there is to see."""

import pytest
import torch

from benchmarks.steps import Waits


@pytest.mark.parametrize(
    ("ask", "name"),
    [
        (lambda x: x.sum().item(), "a value is read"),
        (lambda x: bool(x.any()), "a value is read"),
        (lambda x: x.tolist(), "a tensor is read"),
        (lambda x: x.cpu(), "a tensor is read"),
        (lambda x: torch.ones(3).to(x.device), "a tensor is sent"),
        (lambda x: x.new_tensor([1.0, 2.0]), "a tensor is sent"),
        (lambda x: torch.tensor([1, 2], device=x.device), "a tensor is sent"),
        (lambda x: x[torch.tensor([0, 1])], "an index comes from the host"),
    ],
)
def test_what_waits(ask, name):
    x = torch.ones(3, device="meta")
    with Waits() as waits:
        ask(x)
    assert waits.names == [name]


def test_what_does_not_wait():
    x = torch.ones(3, device="meta")
    with Waits() as waits:
        (x.cumsum(0) + torch.ones(3).to(x.device, non_blocking=True)).sort()
    assert not waits.names
    assert [tensor.nbytes for tensor in waits.sent] == [12]
