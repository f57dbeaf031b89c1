"""Notes on scores that do not mean what they seem to: what runs were warned of, intervals that rest
on few clusters, scores that are all 0, runs that were cut short.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from elmo_bench.runs import FEW_CLUSTERS, Key, smoke_batches
from elmo_bench.terminal import counted_noun

from .comparison import SPLITS, splits_of
from .names import corpus_title
from .table import Cell, Report, first_few


def cautions(report: Report) -> list[str]:
    """Return the notes, each once for all the sides that share it."""
    owners: dict[str, dict[Key, None]] = defaultdict(dict)  # sentence -> keys of its cells
    for cell in report.cells:
        for sentence in _of_cell(cell, report.split):
            owners[sentence][cell.key] = None
    by_corpus = _by_corpus(report)
    notes = [f"{_named(report, by_corpus, keys)}: {told}" for told, keys in owners.items()]
    for corpus, cells in by_corpus.items():
        if not any(any(cell.figures) for cell in cells):
            notes.append(f"{corpus}: every score is 0.00, so nothing is compared")
    return notes


def _of_cell(cell: Cell, split: str) -> Iterator[str]:
    """Yield sentences on a cell's runs, and on its comparison."""
    limits: set[int] = set()
    subjects: dict[str, None] = {}  # an ordered set: what runs were warned of
    for run in cell.runs:
        limits.add(smoke_batches(run.config) or 0)
        subjects |= dict.fromkeys(run.cautions)
    for number in sorted(limits - {0}):
        yield f"smoke runs (trainer.limit_train_batches={number}), whose scores mean nothing"
    other_splits = set(SPLITS) - set(splits_of(split))
    for subject in subjects:
        if subject.partition("/")[0] not in other_splits:
            sentences = [run.cautions.get(subject) for run in cell.runs]
            yield _shared(sentences)
    test = cell.comparison.test if cell.comparison else None
    if test and test.clusters < FEW_CLUSTERS:
        units = counted_noun(test.clusters, test.unit)
        yield f"the interval rests on {units} only, which say little of others"


def _shared(sentences: Sequence[str | None]) -> str:
    """Return what runs were warned of: the first sentence and, if not all have the same, how many
    have one like it.
    """
    given = [sentence for sentence in sentences if sentence is not None]
    if len(set(sentences)) == 1:
        return given[0]
    return f"{given[0]} (so or alike in {len(given)} of {len(sentences)} runs)"


def _named(report: Report, by_corpus: dict[str, list[Cell]], keys: dict[Key, None]) -> str:
    """Return the names of cells; that of a corpus for all its cells."""
    names: list[str] = []
    for corpus, cells in by_corpus.items():
        concerned = [report.name_of(cell.key) for cell in cells if cell.key in keys]
        names += [corpus] if len(concerned) == len(cells) else concerned
    return first_few(names)


def _by_corpus(report: Report) -> dict[str, list[Cell]]:
    """Return the cells of each task and corpus, by its title."""
    by_corpus: dict[str, list[Cell]] = defaultdict(list)
    for cell in report.cells:
        by_corpus[corpus_title(cell.runs[0], report.task_titles)].append(cell)
    return by_corpus
