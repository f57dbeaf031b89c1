"""The gains over the baseline: a table with a row for each corpus and encoder."""

from collections.abc import Mapping
from typing import Any

from omegaconf import OmegaConf
from pydantic import BaseModel, TypeAdapter

from elmo_bench.report import Grid, Report, as_list
from elmo_bench.report.grids import score, tested
from elmo_bench.report.labels import labels_of, titled
from elmo_bench.report.names import NONE
from elmo_bench.report.table import Cell


class Corpus(BaseModel, extra="forbid", strict=True):
    """What runs do not say of their corpus.

    Args:
        title: its name and task.
        command: the settings that choose the corpus and its recipe.
        train, of: the number of training examples, and their share of the full training set.
        published: a score of the nearest published model, in percent.
        source: which model, and whose score.

    """

    title: str
    command: str
    train: str
    of: str
    source: str
    published: str = NONE


Corpora = Mapping[str, Corpus]  # by data.name


def read(sources: Any) -> Corpora:
    """Return what a file, a mapping, or several of them say; later ones count.

    Raises OSError if a file cannot be read, and ValueError, with the key, for an invalid one.
    """
    loaded = (OmegaConf.load(s) if isinstance(s, str) else s for s in as_list(sources))
    content: Any = OmegaConf.to_container(OmegaConf.merge(*loaded))
    return TypeAdapter(dict[str, Corpus]).validate_python(content)


def gains(report: Report, corpora: Corpora) -> list[tuple[Corpus, list[Cell]]]:
    """Return the corpora, the largest gain first, and the cells that have a comparison."""
    cells: dict[str, list[Cell]] = {}
    for cell in (cell for cell in report.cells if cell.comparison):
        cells.setdefault(str(cell.runs[0].settings["data.name"]), []).append(cell)
    if unknown := cells.keys() - corpora.keys():
        raise ValueError(f"corpora: the file does not have {', '.join(sorted(unknown))}: add it")
    by_gain = sorted(cells, key=lambda name: -max(c.comparison.difference for c in cells[name]))
    return [(corpora[name], cells[name]) for name in by_gain]


def numbers(report: Report, cell: Cell) -> str:
    """Return the numbers of runs of both sides.

    A cell that has a comparison has a baseline.
    """
    return f"{len(cell.runs)} + {len(report.base(cell.row).runs)}"


def grid(report: Report, corpora: Corpora) -> Grid:
    """Return the table; its caption has the sources of the published scores."""
    labels, rows, several = labels_of(report), [], len(report.heads) > 2
    found = gains(report, corpora)
    for corpus, cell in ((corpus, cell) for corpus, cells in found for cell in cells):
        gain, interval, _, p, _ = tested(cell.comparison)
        base = report.base(cell.row)
        rows.append(
            [
                corpus.title,
                *[labels.columns[cell.column]] * several,
                f"{corpus.train} ({corpus.of})",
                score(base).rpartition(" ")[0],
                corpus.published,
                f"{gain} ({interval})" if interval else gain,
                p,
                numbers(report, cell),
                corpus.command,
            ]
        )
    heads = ["corpus (task)", *["encoder"] * several, "training examples (share)", labels.base]
    heads += ["published", "gain (95 % interval)", "p (Holm)", "runs", "settings"]
    sources = "; ".join(f"{corpus.title}: {corpus.source}" for corpus, _ in found)
    shown = titled(report.title, f"test scores, percent, and gains over {labels.base}, points")
    return Grid(shown, heads, rows, 2 + several, f"Published: {sources}.")
