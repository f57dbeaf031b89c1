"""A training that ends as by `kill -9`."""

import pytest

from elmo_bench.jobs.train import train
from elmo_bench.training.in_parts import InParts


class Killed(BaseException):
    """What stands for `kill -9`: no one catches it."""


def kill(*_):
    raise Killed


def kill_at(step):
    """A training step that ends the process where it is of this number, counted from 0 over all
    processes.
    """
    training_step = InParts.training_step

    def until(self, *arguments):
        return kill() if self.global_step == step else training_step(self, *arguments)

    return until


def train_and_kill(cfg, where, name, function):
    """Train until a function that stands in for another one ends the process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, name, function)
        with pytest.raises(Killed):
            train(cfg)
