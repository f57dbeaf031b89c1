"""The sides of a sweep: runs that differ only in the seed, or in the draw of `sweep=tune`.

Sides take turns, so that one that fails does so soon, and each has a pace of its own.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from omegaconf import DictConfig, OmegaConf

from elmo_bench.runs import drawn_space, settings_digest
from elmo_bench.terminal import duration


def side_of(config: DictConfig) -> str:
    """Return a digest of a run's settings without seed, fold, and what `sweep=tune` draws."""
    content = config.copy()
    OmegaConf.set_struct(content, False)
    raw: Any = OmegaConf.to_container(content)
    differing = ["seed", "trial", *drawn_space(raw)]
    if OmegaConf.select(content, "data.folds"):
        differing.append("data.fold")
    for key in differing:
        OmegaConf.update(content, key, None, force_add=True)
    return settings_digest(content)


def in_turns(sides: Mapping[int, str]) -> list[int]:
    """Return the numbers of runs by how many runs of their side come before them.

    >>> in_turns({0: "none", 1: "none", 2: "wiki", 3: "wiki"})
    [0, 2, 1, 3]
    """
    before = Counter[str]()
    turns = dict[int, int]()
    for number, side in sorted(sides.items()):
        turns[number] = before[side]
        before[side] += 1
    return sorted(sides, key=lambda number: (turns[number], number))


class Pace:
    """How long the runs of each side have taken, and the others will take."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, list[float]] = defaultdict(list)

    def add(self, side: str, seconds: float) -> None:
        """Note a run that has ended."""
        self.seconds[side].append(seconds)

    def left(self, sides: Sequence[str], at_a_time: int) -> str:
        """Return how long runs of these sides will take; empty if that is not known.

        >>> pace = Pace()
        >>> pace.add("none", 60.0)
        >>> pace.left(["none", "wiki"], at_a_time=1), pace.left(["wiki"], at_a_time=1)
        ('at least 0:01:00 left', 'about 0:01:00 left if the others take as long')
        >>> pace.add("wiki", 120.0)
        >>> pace.left(["none", "wiki", "wiki"], at_a_time=1)
        'about 0:05:00 left'
        """
        if not sides or not self.seconds:
            return ""
        means = {side: fmean(seconds) for side, seconds in self.seconds.items()}
        expected = [means[side] for side in sides if side in means]
        if len(expected) == len(sides):
            return f"about {duration(_wall(expected, at_a_time))} left"
        if expected:
            return f"at least {duration(_wall(expected, at_a_time))} left"
        as_long = [fmean(means.values())] * len(sides)
        return f"about {duration(_wall(as_long, at_a_time))} left if the others take as long"


def _wall(seconds: Sequence[float], at_a_time: int) -> float:
    """Return the time that runs of so many seconds take, some of them at a time."""
    return max(max(seconds), sum(seconds) / at_a_time)
