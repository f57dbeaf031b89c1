"""Random command lines, the same ones each time, compared as `run.py` compares them."""

from itertools import islice

from .command_lines import GOOD, commands, judged


def test_wrong_ones_are_refused_and_right_ones_are_not():
    some = [*islice(commands(seed=2), 30, 90)]
    outcomes = [(one, *judged(one)) for one in some]
    assert [each for each in outcomes if each[1] not in GOOD] == []
