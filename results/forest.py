"""Plot the gains over the baseline on all corpora below each other."""

from collections.abc import Sequence

from matplotlib.figure import SubFigure
from overview import Corpora, Corpus, gains, numbers

from elmo_bench.report import Report
from elmo_bench.report.labels import labels_of
from elmo_bench.report.plots import style
from elmo_bench.report.plots.comparison import difference
from elmo_bench.report.significance import LEVEL
from elmo_bench.report.table import Cell

READING = (
    "Mark and line: the difference to {} on test and its 95 % interval; filled where p (Holm) is "
    "below {:g}. Right: runs of both sides, training examples, and their share of the training set."
)


def forest(report: Report, corpora: Corpora, kind: str) -> bytes:
    """Return the plot as a file, SVG or (.pdf) PDF."""
    rows, base = gains(report, corpora), labels_of(report).base
    plot = style.Plot(
        f"{report.title}: the difference to {base} on each corpus.",
        READING.format(base, LEVEL),
        style.LINE * (1.1 * sum(len(cells) for _, cells in rows) + 3),
        lambda part: _draw(part, report, rows),
    )
    if kind == ".pdf":
        return style.pdf([plot])
    file = style.svg([plot]).replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return file.encode()


def _draw(part: SubFigure, report: Report, rows: Sequence[tuple[Corpus, list[Cell]]]) -> None:
    axes, labels = part.subplots(), labels_of(report)
    looks, right = style.looks(report.heads, report.baseline), axes.twinx()
    places, left, sizes, y = [], [], [], 0.0
    for corpus, cells in rows:
        places.append(y + (len(cells) - 1) / 2)
        left.append(corpus.title)
        runs = "; ".join(dict.fromkeys(numbers(report, cell) for cell in cells))
        sizes.append(f"{runs} runs, {corpus.train} ({corpus.of})")
        for cell in cells:
            look, label = looks[cell.column], labels.columns[cell.column]
            difference(axes, cell.comparison, y, look, label)
            y += 1
        y += 0.3 * (len(cells) > 1)
    for side, texts in ((axes, left), (right, sizes)):
        side.set_yticks(places, texts)
        side.set_ylim(y - 0.4, -0.6)
        side.grid(visible=False, axis="y")
    axes.axvline(0, color=style.SOFT, linewidth=0.8)
    axes.set_xlabel(
        f"difference to {labels.base}, points, and 95 % interval (filled: p (Holm) < {LEVEL:g})"
    )
