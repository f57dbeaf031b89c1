"""Where a report's scores come from: a table of what was run, and a paragraph on how."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
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
    by_folder = {run.folder: run for report in reports for run in report.runs}
    return list(by_folder.values())


def methods(reports: Sequence[Report]) -> str:
    """Return a Methods paragraph, ready to paste into a paper."""
    runs = runs_of(reports)
    tasks, figures, notes = _trained_and_measured(reports, task_titles(runs))
    settings = set()
    for report in reports:
        for cell in report.cells:
            settings.add(frozenset(run.folder for run in cell.runs))
    seeds = sorted({run.seed for run in runs})
    seed_or_seeds = "seeds" if len(seeds) > 1 else "seed"
    tests = ""
    if any(each.test and each.test.p is not None for each in comparisons_of(reports)):
        tests = TESTS
    return (
        f"We train models of {listed(tasks)}: {counted_noun(len(runs), 'run')} of "
        f"{counted_noun(len(settings), 'setting')}, with {seed_or_seeds} "
        f"{listed(map(str, seeds))}. Scores are {listed(figures)}, means over runs with their "
        "standard deviation. Of each run the epoch that is best on dev is measured."
        f"{_tuning(reports)}{tests}{''.join(notes)}"
    )


def _trained_and_measured(
    reports: Iterable[Report], titles: Mapping[str, str]
) -> tuple[list[str], list[str], list[str]]:
    """Return all tasks with their corpora, all figures, and all notes on corpora, each once."""
    tasks: dict[str, None] = {}  # an ordered set, like the others
    figures: dict[str, None] = {}
    notes: dict[str, None] = {}
    for report in reports:
        for run in report.runs:
            trained_on, tested_on = (str(run.settings.get(key, "a corpus")) for key in CORPORA)
            if trained_on == tested_on:
                tasks[f"{titles[run.task]} ({trained_on})"] = None
            else:
                tasks[f"{titles[run.task]} ({trained_on}, scored on {tested_on})"] = None
            note = (run.config.get("data") or {}).get("note")
            if note:
                notes[f" {tested_on}: {note}"] = None
            figures[f"{report.split} {metric_title(run, report.metric)}"] = None
    return list(tasks), list(figures), list(notes)


def _tuning(reports: Sequence[Report]) -> str:
    """Return a sentence on the draws of settings; "" without any."""
    draws = {draw.folder: draw for report in reports for draw in report.draws}
    if not draws:
        return ""
    numbers = set()
    for report in reports:
        for side in grouped(report.draws, report.rows, report.columns).values():
            numbers.add(len(side))
    shown_numbers = listed(str(number) for number in sorted(numbers))
    curves = ""
    if any(sides(report) for report in reports):
        curves = "; tuning curves have simultaneous bands (Lourie et al. 2024)"
    time = duration(sum(draw.seconds.get("total", 0) for draw in draws.values()))
    return (
        f" {_tuned_sides(reports)} are the best on dev of {shown_numbers} random draws, each "
        f"trained with one seed ({len(draws):,} draws in all, {time}){curves}."
    )


def _tuned_sides(reports: Iterable[Report]) -> str:
    """Return whose settings were drawn, as the begin of a sentence."""
    tuned: dict[str, None] = {}  # an ordered set
    is_each = True
    for report in reports:
        for cell in report.cells:
            if cell.runs[0].tune:
                tuned[name(report.keys, cell.key)] = None
            else:
                is_each = False
    return "The settings of each side" if is_each else f"Only the settings of {'; '.join(tuned)}"


def provenance(reports: Sequence[Report], command: str = "") -> Grid:
    """Return a table of machines, time, software, data and commands; `command` made the report."""
    runs = runs_of(reports)
    days = sorted({run.finished[:10] for run in runs if run.finished})
    shown_days = ""
    if days:
        shown_days = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    seconds = sum(run.seconds.get("total", 0) for run in runs)
    devices = Counter(run.device for run in runs if run.device)
    rows = [
        ["report", command],
        ["runs", f"{len(runs):,}"],
        ["finished", shown_days],
        ["time of all runs", duration(seconds) if seconds else ""],
    ]
    rows += [["drawn", space] for space in _spaces(reports)]
    of_devices = listed(f"{each} ({counted_noun(n, 'run')})" for each, n in devices.items())
    rows.append(["device", of_devices])
    rows.append(["software", software(runs)])
    rows += [["sha256", file] for file in _hashes(runs)]
    rows += [["command", line] for line in commands(runs)]
    known = [row for row in rows if row[1]]
    return Grid("where the scores come from", ["what", "which"], known, 1)


def _spaces(reports: Sequence[Report]) -> list[str]:
    """Return what each key was drawn from, behind its task."""
    draws = [draw for report in reports for draw in report.draws]
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

    An evaluation has its checkpoint's seed, which is not named. Without folders of the machine,
    draws of `sweep=tune`, `job=card`, and runs without a command.
    """
    seeds: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for run in runs:
        aside: tuple[str, ...] = ("seed", "out")  # `out` is the folder of a card
        if run.tune:
            aside += TUNING
        recorded = overrides(Path(run.folder, OVERRIDES))
        if not recorded:
            continue
        own = []
        for override in recorded:
            if override != "job=card" and not below(key_of(override), aside):
                own.append(override)
        of_command = seeds[tuple(own)]
        if run.epochs:
            of_command.add(run.seed)
    lines = []
    for settings, numbers in seeds.items():
        words = list(COMMAND)
        if len(numbers) > 1:
            words.append("-m")
        words += settings
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
