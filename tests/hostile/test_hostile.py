"""Hostile files, the same ones each time: every reader reads them right or refuses them by name."""

import pytest

from .rows import ROWS
from .run import bad, case_of, fuzz
from .shown import damage


@pytest.mark.xdist_group("hostile")  # which share the good files, and one of two processors
@pytest.mark.parametrize("name", ROWS)
def test_read_right_or_refused_by_name(name):
    assert not any(damage(name, seed.file, seed.content) for seed in ROWS[name].seeds())
    tallies = fuzz([ROWS[name]], cases=ROWS[name].gate)
    assert bad(tallies) == []
    assert tallies[name].counts.total() == ROWS[name].gate


@pytest.mark.xdist_group("hostile")
@pytest.mark.parametrize("name", ["ner", "squad", "hdf5", "safetensors", "best.ckpt"])
def test_a_case_is_always_the_same(name):
    cases = [[case_of(ROWS[name], 0, number).mutant for number in range(20)] for _ in range(2)]
    assert cases[0] == cases[1]
    assert len({mutant.data for mutant in cases[0]}) > 10
