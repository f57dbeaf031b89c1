"""Notes on what differs between the runs of a report beside what it compares, and on examples that
stand elsewhere, too.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from elmo_bench.runs import MIX, WITHIN, Overlap, Run, below, overlap_lines, varies
from elmo_bench.runs.query import HYDRAS, drawn
from elmo_bench.runs.read import FILES, INPUTS
from elmo_bench.terminal import listed

from .comparison import splits_of
from .table import Report

MIXED = "runs of different code"
READ = {  # what follows from a column below these keys: files that a run reads, and their names
    "data": ("inputs.data", "trained_on"),
    "encoder": ("inputs.encoder", "encoder.dir", "encoder.options", "encoder.weights"),
    "elmo.adapt": ("inputs.encoder.softmax", "inputs.encoder.vocabulary"),
    "vocab.vectors": ("inputs.vocab",),
}
OF_ENCODER = ("encoder", MIX, "inputs.encoder")  # keys that a baseline does not have
MOST = 8  # a note names up to so many settings


def remarks(report: Report) -> Iterator[str]:
    """Yield notes on the runs: different code, further settings that differ, overlaps."""
    code = {(run.commit or "", tuple(sorted(run.versions.items()))) for run in report.runs}
    if len(code) > 1:
        yield f"{MIXED}: {software(report.runs)}"
    yield from _unlike(report)
    yield from _overlaps(report)


def _unlike(report: Report) -> Iterator[str]:
    """Yield notes on what differs within a row beside the keys of the columns."""
    named = [re.sub(r"\.(name|_target_)$", "", key) for key in report.columns]
    parts = [key for key in report.columns if key in ("task.name", "data.name")]
    rows = []
    for cells in report.by_row.values():  # with a baseline that another row lends
        runs_of_row: list[Run] = []
        for cell in cells.values():
            runs_of_row += cell.runs
        rows.append(runs_of_row)
    yield from unlike(rows, parts, named)


def unlike(
    rows: Sequence[Sequence[Run]], parts: Sequence[str], named: Sequence[str]
) -> Iterator[str]:
    """Yield notes: all sides were tuned with as many draws, or runs of a row, with equal values of
    `parts`, differ in settings that neither are below a named key nor follow from it.

    Two runs of a row, which compares encoders:

    >>> from pathlib import Path
    >>> ner = {"name": "ner"}
    >>> books = {"task": ner, "encoder": {"name": "books", "dir": "b"}, "rnn": {"dropout": 0.5}}
    >>> mini = {"task": ner, "encoder": {"name": "mini", "dir": "m"}, "rnn": {"dropout": 0.2}}
    >>> list(unlike([[Run(Path("a"), books), Run(Path("b"), mini)]], [], ["encoder"]))
    ['the sides differ in rnn.dropout, too']
    """
    runs: list[Run] = []
    rows_with_layers: list[list[Run]] = []
    for row in rows:
        runs += row
        rows_with_layers.append([run for run in row if not run.is_baseline])
    keys: set[str] = set()
    for run in runs:
        keys |= run.acting
    budget = _common_budget(runs)
    if budget is not None:
        yield f"each side with its own choice of {budget} draws"
        keys -= drawn(runs)
    expected = _expected_to_differ(named)
    differing = []
    for key in sorted(keys):
        if below(key, expected):
            continue
        concerned = rows_with_layers if below(key, OF_ENCODER) else rows
        if any(varies(row, parts, key) for row in concerned):
            differing.append(key)
    shown = _without_repetition(differing)
    if len(shown) > MOST:
        num_more = len(shown) - MOST
        del shown[MOST:]
        shown.append(f"{num_more} more")
    if shown:
        yield f"the sides differ in {listed(shown)}, too"


def _expected_to_differ(named: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that runs may differ in, with all keys below them, if those of the columns
    are named: these, the files and names that follow from them, and those of WITHIN.

    >>> _expected_to_differ(["vocab.vectors", "elmo.l2"])[len(WITHIN):]
    ('vocab.vectors', 'elmo.l2', 'inputs.vocab')
    """
    expected = list(WITHIN)
    expected += named
    for group, following in READ.items():
        if any(below(key, (group,)) for key in named):
            expected += following
    return tuple(expected)


def _common_budget(runs: Sequence[Run]) -> int | None:
    """Return the number of draws that each run was chosen from; None if not all have one number."""
    budgets = {run.config.get("budget") if run.tune else None for run in runs}
    return budgets.pop() if len(budgets) == 1 else None


def _without_repetition(keys: Sequence[str]) -> list[str]:
    """Return keys without the hash of a file whose name is among them, and without Hydra's own.

    >>> _without_repetition(["data.files.train", "inputs.data.train", "rnn._partial_"])
    ['data.files.train']
    """
    hashes = {f"{INPUTS}{FILES[key]}" for key in keys if key in FILES}
    return [key for key in keys if key not in hashes and not key.endswith(HYDRAS)]


def _overlaps(report: Report) -> Iterator[str]:
    """Yield notes on examples that stand elsewhere, too: of each corpus, those of the run with
    most, since runs may have read a part of it.
    """
    splits = splits_of(report.split)

    def num_examples(run: Run) -> int:
        number = 0
        for counts in run.overlap.values():
            number += sum(counts.get(split, [0])[0] for split in splits)
        return number

    by_corpus: dict[str, Overlap] = {}
    for run in sorted(report.runs, key=num_examples):  # the last run of a corpus has most
        title = report.task_titles[run.task]
        by_corpus[f"{title} ({run.settings.get('data.name', 'a corpus')})"] = run.overlap
    for corpus, overlap in by_corpus.items():
        for split in splits:
            for line in overlap_lines(overlap, split):
                yield f"{corpus}: {line}"


def software(runs: Iterable[Run]) -> str:
    """Return the packages and the commits of runs, with all their versions."""
    versions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for package, version in run.versions.items():
            versions[package].add(version)
        if run.commit:
            commit = run.commit[:10]
            if run.commit.endswith("+"):
                commit = f"{commit} with uncommitted changes"
            versions["commit"].add(commit)
    phrases = [f"{package} {listed(sorted(of_runs))}" for package, of_runs in versions.items()]
    return ", ".join(phrases)
