"""A table that says where the scores of reports come from: machines, software, data, commands."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from pathlib import Path

from elmo_bench import COMMAND
from elmo_bench.runs import OVERRIDES, SHORT, Run, below, key_of, overrides, portable_overrides
from elmo_bench.terminal import counted_noun, duration, listed

from .methods import CORPORA
from .names import task_titles
from .remarks import software
from .table import Report, runs_of, total_time
from .writers import Grid

TUNING = ("sweep", "budget", "seeds", "tune")  # keys with which a command would draw once more


def provenance(reports: Sequence[Report], command: str = "") -> Grid:
    """Return a table of machines, time, software, data and commands; `command` made the report."""
    runs = runs_of(reports)
    seconds = total_time(runs)
    lines_of = {
        "report": [command],
        "runs": [f"{len(runs):,}"],
        "finished": [_days(runs)],
        "time of all runs": [duration(seconds) if seconds else ""],
        "drawn": _spaces(reports),
        "device": [_devices(runs)],
        "software": [software(runs)],
        "sha256": _hashes(runs),
        "command": commands(runs),
    }
    rows: list[list[str]] = []
    for what, lines in lines_of.items():
        rows += [[what, line] for line in lines if line]
    return Grid("where the scores come from", ["what", "which"], rows, 1)


def _days(runs: Iterable[Run]) -> str:
    """Return the first and the last day on which runs finished; "" if no run says it."""
    days = sorted({run.finished[:10] for run in runs if run.finished})
    if not days:
        return ""
    return days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"


def _devices(runs: Iterable[Run]) -> str:
    """Return the devices of runs, each with its number of runs."""
    counts = Counter(run.device for run in runs if run.device)
    return listed(f"{device} ({counted_noun(n, 'run')})" for device, n in counts.items())


def _spaces(reports: Sequence[Report]) -> list[str]:
    """Return what each key was drawn from, behind its task."""
    draws: list[Run] = []
    for report in reports:
        draws += report.draws
    titles = task_titles(draws)
    lines: dict[str, None] = {}  # an ordered set
    for draw in draws:
        for key, space in draw.tune.items():
            lines[f"{titles[draw.task]}: {key} from {space}"] = None
    return list(lines)


def _hashes(runs: Sequence[Run]) -> list[str]:
    """Return the hash of each file that the runs read, behind its corpus or component."""
    lines: dict[str, None] = {}  # an ordered set
    for run in runs:
        for key, digest in run.inputs.items():
            group, _, file = key.partition(".")
            owner = _corpus_of(run, file) if group == "data" else group
            lines[f"{owner}: {file} {digest[:SHORT]}"] = None
    return list(lines)


def _corpus_of(run: Run, file: str) -> Hashable:
    """Return the corpus that has a file; job=evaluate reads a split of the one it scores."""
    trained_on, scored_on = CORPORA
    is_scored = file == run.settings.get("split", file)
    return run.settings.get(scored_on if is_scored else trained_on, "data")


def commands(runs: Iterable[Run]) -> list[str]:
    """Return the recorded command lines of the runs; those that differ only in seed share a line.

    An evaluation has its checkpoint's seed, which is not named. Without folders of the machine and
    of a card (`out`), draws of `sweep=tune`, `job=card`, and runs without a command.
    """
    seeds: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for run in runs:
        aside = ("seed", "out", *TUNING) if run.tune else ("seed", "out")
        recorded = overrides(Path(run.folder, OVERRIDES))
        if not recorded:
            continue
        settings: list[str] = []
        for override in recorded:
            if override != "job=card" and not below(key_of(override), aside):
                settings.append(override)
        of_command = seeds[tuple(settings)]
        if run.epochs:
            of_command.add(run.seed)
    lines: list[str] = []
    for of_runs, numbers in seeds.items():
        words = list(COMMAND)
        if len(numbers) > 1:
            words.append("-m")
        words += of_runs
        if numbers:
            words.append(f"seed={','.join(map(str, sorted(numbers)))}")
        lines.append(shlex.join(words))
    return lines


def typed(words: Iterable[str]) -> str:
    """Return the command line of these overrides, without folders of the machine.

    >>> typed(["job=report", "runs=[/home/me/a,b]"])
    "python run.py job=report 'runs=[a,b]'"
    """
    return shlex.join([*COMMAND, *portable_overrides(words)])
