"""Notes on scores that do not mean what they seem to: what runs were warned of, intervals that rest
on few clusters, scores that are all 0, runs that were cut short.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from elmo_bench.runs import FEW_CLUSTERS, Key, smoke_batches
from elmo_bench.terminal import counted_noun

from .comparison import SPLITS
from .names import corpus_title, name, task_titles
from .table import NAMED, Cell, Report


def cautions(report: Report) -> list[str]:
    """Return the notes, each once for all the sides that share it."""
    owners: dict[str, dict[Key, None]] = defaultdict(dict)  # sentence -> keys of its cells
    for cell in report.cells:
        for sentence in _of_cell(cell, report.split):
            owners[sentence][cell.key] = None
    notes = [f"{_named(report, keys)}: {sentence}" for sentence, keys in owners.items()]
    for corpus, cells in _by_corpus(report).items():
        if not any(figure for cell in cells for figure in cell.figures):
            notes.append(f"{corpus}: every score is 0.00, so nothing is compared")
    return notes


def _of_cell(cell: Cell, split: str) -> Iterator[str]:
    """Yield sentences on a cell's runs, and on its comparison."""
    limits = {smoke_batches(run.config) or 0 for run in cell.runs}
    for number in sorted(limits):
        if number:
            yield f"smoke runs (trainer.limit_train_batches={number}), whose scores mean nothing"
    other_splits = set(SPLITS) - {split}
    for about in dict.fromkeys(about for run in cell.runs for about in run.cautions):
        if about.partition("/")[0] not in other_splits:
            yield _shared([run.cautions.get(about) for run in cell.runs])
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


def _named(report: Report, keys: dict[Key, None]) -> str:
    """Return the names of cells; those of a corpus if it has no others."""
    titles = task_titles(report.runs)
    names: list[str] = []
    for corpus, cells in _by_corpus(report).items():
        concerned = [cell for cell in cells if cell.key in keys]
        if len(concerned) == len(cells):
            names.append(corpus)
        else:
            names += [name(report.keys, cell.key, titles) for cell in concerned]
    shown = "; ".join(names[:NAMED])
    return f"{shown} and {len(names) - NAMED} more" if len(names) > NAMED else shown


def _by_corpus(report: Report) -> dict[str, list[Cell]]:
    """Return the cells of each task and corpus, by its title."""
    titles = task_titles(report.runs)
    by_corpus: dict[str, list[Cell]] = defaultdict(list)
    for cell in report.cells:
        by_corpus[corpus_title(cell.runs[0], titles)].append(cell)
    return by_corpus
