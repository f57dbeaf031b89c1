"""Where a report's scores come from: a table of what was run, and a paragraph on how."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from elmo_bench import COMMAND
from elmo_bench.runs import OVERRIDES, SHORT, Run, below, key_of, overrides, portable_overrides
from elmo_bench.terminal import counted_noun, duration, listed

from .names import metric_title, name, task_titles
from .significance import FEWEST, LEVEL
from .table import Report, comparisons_of, grouped, software
from .tuning import sides
from .writers import Grid

TUNING = ("sweep", "budget", "seeds", "tune")  # keys with which a command would draw once more
CORPORA = ("trained_on.name", "data.name")  # the second is another after job=evaluate data=...
TESTS = (
    " Differences are tested by a two-sided t-test that takes runs and test examples alike as "
    "drawn at random (Obuchowski and Rockette 1995; Hillis 2007), with examples that belong "
    f"together as one, at {100 * LEVEL:g} %, corrected for all comparisons of a split by Holm's "
    "(1979) method; the 95 % intervals are not corrected. With fewer than "
    f"{FEWEST} runs a side no difference is claimed."
)


def runs_of(reports: Iterable[Report]) -> list[Run]:
    """Return the distinct runs of all reports."""
    return [*{run.folder: run for report in reports for run in report.runs}.values()]


def methods(reports: Sequence[Report]) -> str:
    """Return a Methods paragraph, ready to paste into a paper."""
    runs = runs_of(reports)
    titles = task_titles(runs)
    cells = {frozenset(r.folder for r in cell.runs) for each in reports for cell in each.cells}
    seeds = sorted({run.seed for run in runs})
    tasks, figures, notes = dict[str, None](), dict[str, None](), dict[str, None]()  # ordered sets
    for report in reports:
        for run in report.runs:
            corpora = [f"{run.settings.get(key, 'a corpus')}" for key in CORPORA]
            tasks[f"{titles[run.task]} ({', scored on '.join(dict.fromkeys(corpora))})"] = None
            if note := (run.config.get("data") or {}).get("note"):
                notes[f" {corpora[-1]}: {note}"] = None
            figures[f"{report.split} {metric_title(run, report.metric)}"] = None
    is_tested = any(each.test and each.test.p is not None for each in comparisons_of(reports))
    return (
        f"We train models of {listed(tasks)}: {counted_noun(len(runs), 'run')} of "
        f"{counted_noun(len(cells), 'setting')}, with seed{'s' * (len(seeds) > 1)} "
        f"{listed(map(str, seeds))}. Scores are {listed(figures)}, means over runs with their "
        "standard deviation. Of each run the epoch that is best on dev is measured."
        f"{_tuning(reports)}{TESTS * is_tested}{''.join(notes)}"
    )


def _tuning(reports: Sequence[Report]) -> str:
    """Return a sentence on the draws of settings; "" without any."""
    draws = {draw.folder: draw for report in reports for draw in report.draws}
    if not draws:
        return ""
    groups = [grouped(report.draws, report.rows, report.columns) for report in reports]
    numbers = sorted({len(side) for each in groups for side in each.values()})
    seconds = sum(draw.seconds.get("total", 0) for draw in draws.values())
    cells = [(each.keys, cell) for each in reports for cell in each.cells]
    tuned = [(keys, cell) for keys, cell in cells if cell.runs[0].tune]
    names = dict.fromkeys(name(keys, cell.key) for keys, cell in tuned)
    is_each = len(tuned) == len(cells)
    begin = "The settings of each side" if is_each else f"Only the settings of {'; '.join(names)}"
    curves = "; tuning curves have simultaneous bands (Lourie et al. 2024)"
    return (
        f" {begin} are the best on dev of {listed(map(str, numbers))} random draws, each trained "
        f"with one seed ({len(draws):,} draws in all, {duration(seconds)})"
        f"{curves * any(map(sides, reports))}."
    )


def provenance(reports: Sequence[Report], command: str = "") -> Grid:
    """Return a table of machines, time, software, data and commands; `command` made the report."""
    runs = runs_of(reports)
    days = sorted({run.finished[:10] for run in runs if run.finished})
    seconds = sum(run.seconds.get("total", 0) for run in runs)
    devices = Counter(run.device for run in runs if run.device)
    rows = [
        ("report", command),
        ("runs", f"{len(runs):,}"),
        ("finished", " to ".join(dict.fromkeys([*days[:1], *days[-1:]]))),
        ("time of all runs", duration(seconds) if seconds else ""),
        *(("drawn", text) for text in _spaces(reports)),
        ("device", listed(f"{each} ({counted_noun(n, 'run')})" for each, n in devices.items())),
        ("software", software(runs)),
        *(("sha256", text) for text in _hashes(runs)),
        *(("command", line) for line in commands(runs)),
    ]
    return Grid("where the scores come from", ["what", "which"], [[*r] for r in rows if r[1]], 1)


def _spaces(reports: Sequence[Report]) -> list[str]:
    """Return what each key was drawn from, behind its task."""
    draws = [draw for report in reports for draw in report.draws]
    titles = task_titles(draws)
    lines = (f"{titles[d.task]}: {key} from {d.tune[key]}" for d in draws for key in d.tune)
    return [*dict.fromkeys(lines)]


def _hashes(runs: Sequence[Run]) -> list[str]:
    """Return the hash of each file that the runs read, behind its corpus or component."""
    lines = dict[str, None]()  # an ordered set
    for run in runs:
        for key, digest in run.inputs.items():
            group, _, file = key.partition(".")
            trained_on, scored_on = CORPORA
            is_scored = file == run.settings.get("split", file)  # job=evaluate reads a split
            corpus = scored_on if is_scored else trained_on
            owner = run.settings.get(corpus, group) if group == "data" else group
            lines[f"{owner}: {file} {digest[:SHORT]}"] = None
    return [*lines]


def commands(runs: Iterable[Run]) -> list[str]:
    """Return the recorded command lines of the runs; those that differ only in seed share a line.

    An evaluation has its checkpoint's seed, which is not named. Without folders of the machine,
    draws of `sweep=tune`, `job=card`, and runs without a command.
    """
    seeds: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for run in runs:
        aside = ("seed", "out", *(TUNING if run.tune else ()))  # the folder of a card
        if recorded := overrides(Path(run.folder, OVERRIDES)):
            own = (one for one in recorded if one != "job=card" and not below(key_of(one), aside))
            seeds[tuple(own)] |= {run.seed} if run.epochs else set()
    lines = []
    for settings, numbers in seeds.items():
        several = ["-m"] * (len(numbers) > 1)
        seed = [f"seed={','.join(map(str, sorted(numbers)))}"] * bool(numbers)
        lines.append(shlex.join([*COMMAND, *several, *settings, *seed]))
    return lines


def typed(words: Iterable[str]) -> str:
    """Return the command line of these overrides, without folders of the machine.

    >>> typed(["job=report", "runs=[/home/me/a,b]"])
    "python run.py job=report 'runs=[a,b]'"
    """
    return shlex.join([*COMMAND, *portable_overrides(words)])
