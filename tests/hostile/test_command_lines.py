"""Random command lines, the same ones each time, compared as `run.py` compares them."""

from itertools import islice

from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException

from elmo_bench.config.check import faults

from .command_lines import commands, composed


def test_wrong_ones_are_refused_and_right_ones_are_not():
    judged_wrong = []
    for command in islice(commands(seed=2), 42, 102):
        try:
            lines = faults(composed(command.arguments))
        except (HydraException, OmegaConfBaseException) as error:  # its own words for its grammar
            lines = [str(error)]
        if bool(lines) != bool(command.key):
            judged_wrong.append((command, lines))
    assert not judged_wrong
