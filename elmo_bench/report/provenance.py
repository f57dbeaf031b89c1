"""Where a report's figures come from: a table of what was run, and a paragraph on how."""

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import NamedTuple

from elmo_bench import COMMAND
from elmo_bench.files import counted_noun, duration, listed
from elmo_bench.runs import OVERRIDES, Run, key_of, overrides, portable_overrides

from .grid import Grid
from .grids import tests
from .names import metric_title, task_titles
from .significance import FEWEST, LEVEL
from .table import Report

DIGITS = 12  # hexadecimal digits shown of a hash
METHODS = Template(
    "We train models of $tasks: $runs of $settings, with $seeds. Figures are $figures, "
    "means over runs with their standard deviation. Of each run the epoch that is best on dev is "
    "measured.$tests"
)
TESTS = (
    " Differences are tested by a two-sided t-test that takes runs and test examples alike as "
    "drawn at random (Obuchowski and Rockette 1995; Hillis 2007), with examples that belong "
    f"together as one, at {100 * LEVEL:g} %, corrected for all comparisons of a split by Holm's "
    "(1979) method; the 95 % intervals are not corrected. With fewer than "
    f"{FEWEST} runs a side no difference is claimed."
)


class Origin(NamedTuple):
    """The command that made a report, and the number of failed runs with the report's settings."""

    command: str = ""
    failed: int | None = None


NOWHERE = Origin()


def runs_of(reports: Iterable[Report]) -> list[Run]:
    """Return the distinct runs of all reports."""
    runs = (run for report in reports for cell in report.cells for run in cell.runs)
    return [*{run.folder: run for run in runs}.values()]


def methods(reports: Sequence[Report]) -> str:
    """Return a paragraph on methods for a paper."""
    runs = runs_of(reports)
    cells = {
        frozenset(run.folder for run in cell.runs) for report in reports for cell in report.cells
    }
    seeds = sorted({run.seed for run in runs})
    tested = any(test.p is not None for report in reports for _, test in tests(report))
    return METHODS.substitute(
        tasks=listed(_by_corpus(runs)),
        runs=counted_noun(len(runs), "run"),
        settings=counted_noun(len(cells), "setting"),
        seeds=f"seed{'s' * (len(seeds) > 1)} {listed(map(str, seeds))}",
        figures=listed(
            dict.fromkeys(_figure(report, run) for report in reports for run in runs_of([report]))
        ),
        tests=TESTS if tested else "",
    )


def _figure(report: Report, run: Run) -> str:
    return f"{report.split} {metric_title(run, report.metric)}"


def provenance(reports: Sequence[Report], origin: Origin = NOWHERE) -> Grid:
    """Return a table of what was run: machines, time, software, data and commands."""
    runs = runs_of(reports)
    trained = [run for run in runs if run.epochs]
    seconds = sum(run.seconds["total"] for run in trained)
    devices = Counter(run.device for run in trained)
    rows = [
        ("report", origin.command),
        ("runs", f"{len(runs):,}"),
        ("failed", "" if origin.failed is None else f"{origin.failed:,}"),
        ("trained", _span(run.finished[:10] for run in runs if run.finished)),
        ("epochs", _span(run.epochs for run in trained)),
        ("trained parameters", _span(run.parameters["trainable"] for run in trained)),
        ("time of all runs", duration(seconds) if trained else ""),
        ("device", listed(f"{each} ({counted_noun(n, 'run')})" for each, n in devices.items())),
        ("software", _software(runs)),
        *(("data", text) for text in _data(runs)),
        *(("sha256", text) for text in _hashes(runs)),
        *(("command", line) for line in commands(runs)),
    ]
    filled = [[label, text] for label, text in rows if text]
    return Grid("where the figures come from", ["what", "which"], filled, set(), 1)


def _span(values: Iterable[int | str]) -> str:
    """Return the lowest and the highest value."""
    ordered = sorted(values)
    ends = [
        each if isinstance(each, str) else f"{each:,}" for each in (*ordered[:1], *ordered[-1:])
    ]
    return " to ".join(dict.fromkeys(ends))


def _software(runs: Sequence[Run]) -> str:
    versions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for package, version in run.versions.items():
            versions[package].add(version)
    packages = [f"{package} {listed(sorted(each))}" for package, each in versions.items()]
    commits = sorted({run.commit for run in runs if run.commit})
    said = [each[:10] + " with uncommitted changes" * each.endswith("+") for each in commits]
    return ", ".join([*packages, *(f"commit {each}" for each in said)])


def _by_corpus(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Group the runs by task and corpus, with both in the name."""
    titles = task_titles(runs)
    groups: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        corpus = run.settings.get("data.name")
        groups[f"{titles[run.task]} ({corpus})" if corpus else titles[run.task]].append(run)
    return groups


def _data(runs: Sequence[Run]) -> list[str]:
    """Return a line for each corpus: its training examples, and `data.origin` of the config."""
    lines = []
    for name, group in _by_corpus(runs).items():
        trained = [
            round(run.examples_per_second * run.seconds["training"] / run.epochs)
            for run in group
            if run.epochs
        ]
        size = f"{_span(trained)} training examples" if trained else ""
        origin = group[0].config.get("data", {}).get("origin", "")
        if size or origin:
            lines.append(f"{name}: {'. '.join(filter(None, (size, origin)))}")
    return lines


def _hashes(runs: Sequence[Run]) -> list[str]:
    """Return the hashes of the files that the runs read, a line for each corpus or component."""
    hashes: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for run in runs:
        for name, digest in run.inputs.items():
            group, _, file = name.partition(".")
            owner = str(run.settings.get("data.name", group)) if group == "data" else group
            hashes[owner][file].add(digest[:DIGITS])
    return [
        f"{owner}: {', '.join(f'{file} {listed(sorted(each))}' for file, each in files.items())}"
        for owner, files in hashes.items()
    ]


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
            without_seed = tuple(override for override in recorded if key_of(override) != "seed")
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
