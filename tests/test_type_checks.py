"""Tests check the types of every call, and the shapes of tensors: here, that they do."""

import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import TypeCheckError

from elmo_bench.elmo import ScalarMix
from elmo_bench.files import hash_file
from tests.type_checks import with_shapes


def test_types():
    assert hash_file.__module__ not in with_shapes()
    with pytest.raises(BeartypeCallHintViolation):
        hash_file(3)


def test_shapes():
    """Of two arguments that share an axis."""
    assert ScalarMix.__module__ in with_shapes()
    mix = ScalarMix(2)
    assert mix(torch.ones(2, 1, 3, 4), torch.ones(1, 3, dtype=torch.bool)).shape == (1, 3, 4)
    with pytest.raises(TypeCheckError):
        mix(torch.ones(2, 1, 3, 4), torch.ones(1, 2, dtype=torch.bool))
