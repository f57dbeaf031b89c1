"""Provenance of a page's figures: the command lines of its runs."""

import shlex
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from elmo_bench import COMMAND
from elmo_bench.runs import OVERRIDES, Run, overridden, overrides, portable_overrides


def commands(runs: Iterable[Run]) -> list[str]:
    """Return the recorded command lines of the runs; trainings that differ only in seed share a
    line.

    Folders of the machine are removed. Runs without a recorded command are skipped.
    """
    seeds: dict[tuple[str, ...], list[str]] = defaultdict(list)
    evaluations = []
    for run in runs:
        recorded = overrides(Path(run.folder, OVERRIDES))
        if "job=evaluate" in recorded:  # the seed is that of its checkpoint
            evaluations.append(shlex.join([*COMMAND, *recorded]))
        elif recorded:
            without_seed = tuple(
                override for override in recorded if overridden(override) != "seed"
            )
            seeds[without_seed] += [str(run.seed)]
    lines = []
    for settings, numbers in seeds.items():
        several = ["-m"] if len(numbers) > 1 else []
        seed_list = ",".join(sorted(numbers, key=lambda number: (len(number), number)))
        lines.append(shlex.join([*COMMAND, *several, *settings, f"seed={seed_list}"]))
    return [*lines, *dict.fromkeys(evaluations)]


def typed(words: Iterable[str]) -> str:
    """Return the command line of these overrides, without folders of the machine.

    >>> typed(["job=report", "runs=[/home/me/a,b]"])
    "python run.py job=report 'runs=[a,b]'"
    """
    return shlex.join([*COMMAND, *portable_overrides(words)])
