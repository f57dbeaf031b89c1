"""Hostile files, the same ones each time: every reader reads them right or refuses them by name."""

import pytest

from .rows import ROWS
from .run import case_of


@pytest.mark.parametrize("name", ["ner", "squad", "hdf5", "safetensors", "store"])
def test_a_case_is_always_the_same(name):
    cases = [[case_of(ROWS[name], 0, number).mutant for number in range(20)] for _ in range(2)]
    assert cases[0] == cases[1]
    assert len({mutant.data for mutant in cases[0]}) > 10
