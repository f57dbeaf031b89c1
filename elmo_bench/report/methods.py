"""Texts for a paper, generated from the runs: provenance of the figures, a paragraph on methods,
and answers to reproducibility checklists (NAACL 2021; ACL Rolling Review).
"""

import statistics
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from elmo_bench.files import duration
from elmo_bench.runs import NOTHING, Run, read_counts

from .choice import searched
from .grid import Grid
from .grids import Words, after_correction, capital, corrections, heads, points, tests
from .names import axis, metric_title, task_titles, value
from .provenance import commands
from .significance import FEWEST, LEVEL
from .table import SPLITS, Report, comparisons_of, order

UNKNOWN = "not known"
NOTHING_ELSE = (
    "among these runs nothing beside what the tables compare; add what you searched elsewhere"
)
DIGITS = 12  # hexadecimal digits shown of a hash
READ = ("encoder.weights", "encoder.vectors")  # the main file of an encoder


class Origin(NamedTuple):
    """The origin of a report: its command and its failed runs.

    `failed` counts the failed runs with the report's settings.
    """

    command: str = ""
    failed: int | None = None


NOWHERE = Origin()


def provenance(reports: Sequence[Report], origin: Origin = NOWHERE) -> Grid:
    """Return a table on the origin of the figures: runs, dates, software, data and commands."""
    runs = runs_of(reports)
    rows = [
        ["report", origin.command],
        ["runs", _runs(reports)],
        ["trained", _dates(runs)],
        ["epochs", _epochs(runs)],
        ["software", _software(runs)],
        *(["data", text] for text in _data(runs)),
        *(["sha256", text] for text in _files(runs)),
        *(["command", line] for line in commands(runs)),
    ]
    filled = [row for row in rows if row[1]]
    return Grid("where the figures come from", ["what", "which"], filled, set(), 1)


def checklist(reports: Sequence[Report], origin: Origin = NOWHERE) -> Grid:
    """Return a table of the checklists' questions, answered from the runs."""
    runs = runs_of(reports)
    rows = [
        ("Which runs are behind the figures?", _runs(reports)),
        ("What is shown of them?", "the mean over runs, the standard deviation, and their number"),
        ("Which metrics, on which split?", _metrics(reports)),
        ("Are there figures on dev for each on test?", _on_dev(reports)),
        ("How large are the splits?", "; ".join(_data(runs))),
        ("Where are the data from?", " ".join(_origins(runs))),
        ("Which encoders?", "; ".join(_encoders(runs))),
        ("How many parameters do models have?", _parameters(runs)),
        ("What was searched, in which bounds?", _search(reports) or NOTHING_ELSE),
        ("How was chosen among it?", _choice(reports)),
        ("Where are all other settings?", "in each run's result.json, under config"),
        ("Which epoch is measured?", _best(runs)),
        ("How were differences tested?", _tests(reports)),
        ("Which differences could the design find?", _power(reports)),
        ("On which machines?", _devices(runs)),
        ("How long did runs take?", _time(runs)),
        ("With which software?", _software(runs)),
        ("How many runs failed?", _failed(origin)),
    ]
    answers = [[question, answer or UNKNOWN] for question, answer in rows]
    return Grid("reproducibility checklist", ["question", "answer"], answers, set(), 1)


def methods(reports: Sequence[Report], origin: Origin = NOWHERE) -> str:
    """Return a paragraph on methods for a paper."""
    runs = runs_of(reports)
    ways = list(dict.fromkeys(way for report in reports for way in _ways(report)))
    tasks = _and(_corpora(runs))
    first = f"We train on {tasks}: {ways[0]}."
    if len(ways) > 1:
        first = f"We compare {len(ways)} ways to train on {tasks}: {'; '.join(ways)}."
    facts = (
        ("There are {}.", _runs(reports)),
        ("Figures are {}, means over runs with their standard deviation.", _metrics(reports)),
        ("The data: {}.", "; ".join(_data(runs))),
        ("Of each run {} is measured.", _best(runs)),
        ("We searched {}.", _search(reports)),
        ("{}.", _choice(reports)),
        ("Differences are tested by {}.", _tests(reports)),
        ("In 80 % of cases the design finds {}.", _power(reports)),
        ("A model has {}.", _parameters(runs)),
        ("Runs took {}.", _time(runs)),
        ("They ran on {}.", _devices(runs)),
        ("Software: {}.", _software(runs)),
        ("Runs that failed: {}.", _failed(origin)),
    )
    return " ".join([first, *(capital(text.format(fact)) for text, fact in facts if fact)])


def runs_of(reports: Sequence[Report]) -> list[Run]:
    """Return the distinct runs of all reports."""
    runs = (run for report in reports for cell in report.cells for run in cell.runs)
    return [*{run.folder: run for run in runs}.values()]


def _ways(report: Report) -> list[str]:
    words = Words.of(report)
    return [words.columns[column] for column in heads(report)]


def _runs(reports: Sequence[Report]) -> str:
    runs = runs_of(reports)
    cells = {
        frozenset(str(run.folder) for run in cell.runs)
        for report in reports
        for cell in report.cells
    }
    seeds = sorted({run.seed for run in runs})
    each = _span(map(len, cells))
    return (
        f"{_count(len(runs), 'run')}, {each} of each of {_count(len(cells), 'setting')}, with the "
        f"seed{'s' if len(seeds) > 1 else ''} {_and(map(str, seeds))}"
    )


def _dates(runs: Sequence[Run]) -> str:
    days = sorted(str(run.finished)[:10] for run in runs if run.finished)
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""


def _software(runs: Sequence[Run]) -> str:
    versions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for package, version in run.versions.items():
            versions[package].add(version)
    packages = [f"{package} {_and(sorted(each))}" for package, each in versions.items()]
    commits = sorted({_commit(run.commit) for run in runs if run.commit})
    named = f"commit{'s' if len(commits) > 1 else ''} {_and(commits)}" if commits else ""
    return ", ".join(filter(None, (*packages, named)))


def _commit(commit: str) -> str:
    return f"{commit[:10]}{' with uncommitted changes' * commit.endswith('+')}"


def _corpora(runs: Sequence[Run]) -> list[str]:
    return [task if task == corpus else f"{task} ({corpus})" for task, corpus in _by_corpus(runs)]


def _by_corpus(runs: Sequence[Run]) -> dict[tuple[str, str], list[Run]]:
    """Group the runs by the titles of task and corpus."""
    titles = task_titles(runs)
    groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in runs:
        task = titles[run.task]
        groups[task, str(run.settings.get("data.name", task))].append(run)
    return groups


def _data(runs: Sequence[Run]) -> list[str]:
    """Return a phrase for each corpus with its numbers of examples."""
    phrases = []
    for group, name in zip(_by_corpus(runs).values(), _corpora(runs), strict=True):
        sizes = [f"{_read(group)} for training"] if any(_trained_on(group)) else []
        for split in SPLITS:
            if size := _measured_on(group, split):
                sizes.append(f"{size:,} for {split}")
        if sizes:
            phrases.append(f"{name} has {_and(sizes)}")
    return phrases


def _read(runs: Sequence[Run]) -> str:
    """Format the number of training examples per epoch, by share of the training set."""
    parts: dict[Hashable, list[Run]] = defaultdict(list)
    for run in runs:
        if run.epochs:
            parts[run.settings.get("fraction", 1)].append(run)
    ordered = sorted(parts.items(), key=lambda part: order((part[0],)))
    if parts.keys() <= {1}:
        return _span(_trained_on(runs))
    return _and(
        f"{_span(_trained_on(group))} ({value('fraction', share)} of the training set)"
        for share, group in ordered
    )


def _trained_on(runs: Iterable[Run]) -> Iterator[int]:
    """Yield the number of training examples per epoch of each run."""
    for run in runs:
        if run.epochs:
            yield round(run.examples_per_second * run.seconds["training"] / run.epochs)


def _measured_on(runs: Sequence[Run], split: str) -> int:
    """Return the number of a split's examples in the first run that has counts; 0 if none has."""
    for run in runs:
        path = run.folder / "counts" / f"{split}.npz"
        if counts := read_counts(path, run.config["task"]["monitor"]):
            return len(counts.sentences)
    return 0


def _files(runs: Sequence[Run]) -> list[str]:
    """Return the hashes of the files that the runs read, a text for each corpus or component."""
    hashes: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for run in runs:
        for name, digest in run.inputs.items():
            group, _, file = name.partition(".")
            owner = str(run.settings.get("data.name", group)) if group == "data" else group
            hashes[owner][file].add(digest[:DIGITS])
    return [
        f"{owner}: {', '.join(f'{file} {_and(sorted(each))}' for file, each in files.items())}"
        for owner, files in hashes.items()
    ]


def _origins(runs: Sequence[Run]) -> list[str]:
    """Return the origin of each corpus, from the config key `data.origin`."""
    origins = {
        str(run.settings.get("data.name", "")): run.config["data"]["origin"]
        for run in runs
        if run.config.get("data", {}).get("origin")
    }
    return [f"{corpus}: {text}" for corpus, text in origins.items()]


def _metrics(reports: Sequence[Report]) -> str:
    figures: dict[tuple[str, str], set[str]] = defaultdict(set)
    for report in reports:
        titles = task_titles(runs_of([report]))
        for run in runs_of([report]):
            figure = metric_title(run, report.metric), report.split
            figures[figure].add(titles[run.task])
    return _and(
        f"{split} {figure} of {_and(sorted(tasks))}" for (figure, split), tasks in figures.items()
    )


def _on_dev(reports: Sequence[Report]) -> str:
    runs = runs_of([report for report in reports if report.split == "test"])
    measured = [run for run in runs if any(name.startswith("val/") for name in run.metrics)]
    if not runs:
        return "the figures are of dev"
    where = ", in the report's CSV and JSON"
    return f"of {len(measured)} of {_count(len(runs), 'run')}{where if measured else ''}"


def _encoders(runs: Sequence[Run]) -> list[str]:
    encoders: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        config, inputs = run.config.get("encoder", {}), run.inputs
        name = str(run.settings.get("encoder.name", "none"))
        if name == "none" or run.settings.get("elmo.mix") == "none":
            continue
        file_details = {
            "model": config.get("model"),
            "revision": config.get("revision"),
            "sha256": next((inputs[file][:DIGITS] for file in READ if file in inputs), ""),
        }
        details = [f"{key} {text}" for key, text in file_details.items() if text]
        details += [] if config.get("pretrained", True) else ["random weights"]
        details.append("fine-tuned" if run.settings.get("elmo.finetune") else "frozen")
        encoders[value("encoder.name", name)].add(", ".join(details))
    return [
        f"{name} ({' and '.join(sorted(file_details))})" for name, file_details in encoders.items()
    ]


def _parameters(runs: Sequence[Run]) -> str:
    trained = [run.parameters for run in runs if run.epochs]
    if not trained:
        return ""
    parts = {kind: [sizes[kind] for sizes in trained] for kind in ("trainable", "frozen")}
    phrase = f"{_span(parts['trainable'])} trained parameters"
    return phrase + (f" and up to {max(parts['frozen']):,} frozen ones" * any(parts["frozen"]))


def _search(reports: Sequence[Report]) -> str:
    runs = runs_of(reports)
    bounds = []
    for key in searched(runs):
        found = {run.settings.get(key, NOTHING) for run in runs if key not in run.idle}
        settings = sorted(found - {NOTHING, "none"}, key=lambda setting: order((setting,)))
        bounds.append(f"{axis(key)} in {{{', '.join(value(key, each) for each in settings)}}}")
    return _and(bounds)


def _choice(reports: Sequence[Report]) -> str:
    most = max((report.chosen_among for report in reports), default=0)
    if most > 1:
        return (
            f"beside the baseline, of up to {most} settings the best on dev was chosen, and test "
            "was asked once, for it and the baseline"
        )
    splits = _and(dict.fromkeys(report.split for report in reports))
    return (
        f"among these runs nothing was chosen: all settings are compared on {splits}; add what you "
        "chose elsewhere"
    )


def _best(runs: Sequence[Run]) -> str:
    fits = [run.config["fit"] for run in runs if run.epochs and run.config.get("fit")]
    patience = [fit["patience"] for fit in fits if "patience" in fit]
    most = [fit["max_epochs"] for fit in fits if "max_epochs" in fit]
    if not patience or not most:
        return ""
    early = f", or after {_span(patience)} without a better one" * (min(patience) < max(most))
    return (
        "the epoch that is best on dev (training ends after "
        f"{_span(most)} epoch{'s' * (max(most) > 1)}{early})"
    )


def _epochs(runs: Sequence[Run]) -> str:
    return _span(run.epochs for run in runs if run.epochs)


def _tests(reports: Sequence[Report]) -> str:
    compared = [[test for _, test in tests(report) if test.p is not None] for report in reports]
    all_tests = [test for group in compared for test in group]
    if not all_tests:
        return ""
    counts = corrections(comparisons_of(reports))
    holm = f", corrected for {counts} comparisons by Holm's (1979) method" if counts else ""
    return (
        "a two-sided t-test that takes runs and test examples alike as drawn at random (Obuchowski "
        "and Rockette, 1995; Hillis, 2007), with p never below Welch's over the runs"
        + ", examples that belong together as one" * any(t.clusters < t.examples for t in all_tests)
        + f", at {100 * LEVEL:g} %{holm}; 95 % intervals have the same error and are not corrected"
        + f"; with fewer than {FEWEST} runs a side no difference is claimed"
        * any(test.is_preliminary for test in all_tests)
    )


def _power(reports: Sequence[Report]) -> str:
    found: dict[str, list[float]] = defaultdict(list)  # by their correction
    for report in reports:
        detectable = [test.detectable for _, test in tests(report) if test.detectable is not None]
        correction = after_correction(comparisons_of([report]))
        found[correction] += detectable
    spans = [
        (dict.fromkeys((points(min(each)), points(max(each)))), correction)
        for correction, each in found.items()
        if each
    ]
    several = ", depending on the comparison" * any(len(ends) > 1 for ends, _ in spans)
    return (
        _and(
            f"a true difference of {' to '.join(ends)} points{correction}"
            for ends, correction in spans
        )
        + several
    )


def _devices(runs: Sequence[Run]) -> str:
    devices = Counter(run.device for run in runs if run.epochs)
    return _and(f"{device} ({_count(count, 'run')})" for device, count in devices.most_common())


def _time(runs: Sequence[Run]) -> str:
    seconds = [run.seconds["total"] for run in runs if run.epochs]
    if not seconds:
        return ""
    return (
        f"{duration(sum(seconds))} of machine time together, "
        f"{duration(statistics.fmean(seconds))} each on average"
    )


def _failed(origin: Origin) -> str:
    if origin.failed is None:
        return ""
    return f"{origin.failed:,}" if origin.failed else "none"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _span(numbers: Iterable[int]) -> str:
    ends = sorted(numbers)
    return " to ".join(dict.fromkeys(f"{end:,}" for end in (ends[0], ends[-1]))) if ends else ""


def _and(texts: Iterable[str]) -> str:
    *leading, last = [*texts] or [""]
    return f"{', '.join(leading)} and {last}" if leading else last
