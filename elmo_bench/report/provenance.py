"""Where a page's figures come from: the commands of its runs, their seeds, dates and code."""

import shlex
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from elmo_bench.installation import COMMAND
from elmo_bench.runs import OVERRIDES, Run, overridden, overrides, portable_overrides


def commands(runs: Iterable[Run]) -> list[str]:
    """The command lines that the runs say they came from, a line for those that differ in seeds
    alone; without folders of the machine, and without runs that do not say.
    """
    seeds: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for run in runs:
        given = overrides(Path(run["folder"], OVERRIDES))
        if given:
            kept = tuple(one for one in given if overridden(one) != "seed")
            seeds[kept] += [str(run["seed"])]
    lines = []
    for settings, numbers in seeds.items():
        several = ["-m"] if len(numbers) > 1 else []
        together = ",".join(sorted(numbers, key=lambda number: (len(number), number)))
        lines.append(shlex.join([*COMMAND, *several, *settings, f"seed={together}"]))
    return lines


def typed(words: Iterable[str]) -> str:
    """What was typed for these overrides, without folders of the machine.

    >>> typed(["job=report", "runs=[/home/me/a,b]"])
    "python run.py job=report 'runs=[a,b]'"
    """
    return shlex.join([*COMMAND, *portable_overrides(words)])
