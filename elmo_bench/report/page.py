"""Format reports as one self-contained HTML page without scripts."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_bench.files import counted_noun

from . import names
from .aggregate import cost, weights
from .grids import tables
from .provenance import NOWHERE, Origin, methods, provenance, runs_of
from .table import Report
from .writers import as_html, html_table

if TYPE_CHECKING:
    from .plots.style import Plot

RESULTS = "Results"  # chapter title of a report without a title
COMMANDS = ("command", "report")  # labels of commands in the provenance
CURVES = {
    "elmo.mix": "Layers (the paper's Figure 2)",
    "fraction": "Sample efficiency (the paper's Figure 1)",
    "elmo.l2": "The penalty on the mix",
    "elmo.dropout": "Dropout on ELMo's vectors",
}
STYLE = Path(__file__).with_name("page.css")
GENERATOR = "elmo-bench report"  # job=report overwrites only pages with this mark


Part = tuple[str, str]  # title, "" for the first of a chapter, and HTML


def as_page(
    reports: Sequence[Report],
    title: str | None = None,
    origin: Origin = NOWHERE,
) -> str:
    """Return the page, with a chapter for each report.

    The default title names the compared tasks and settings.
    """
    chapters = [
        (f"s{k}", report.title or RESULTS, [part for part in _parts(report) if part[1]])
        for k, report in enumerate(reports)
    ]
    chapters.append(("made", "How this was made", [*_made(reports, origin)]))
    about, body = as_html("about", _lead(reports, origin), chapters), as_html("body", chapters)
    return html(GENERATOR, "A report of elmo-bench", title or compared(reports), about, body)


def html(generator: str, kind: str, title: str, about: str, body: str) -> str:
    """Return an HTML page; `about`, shown below the title, and `body` are HTML."""
    style = STYLE.read_text(encoding="utf-8")
    return as_html("page", generator, kind, title, about, body, style) + "\n"


def compared(reports: Sequence[Report]) -> str:
    """Return the tasks and what is compared on them, such as "NER, SRL: encoder, layers"."""
    runs = runs_of(reports)
    titles = names.task_titles(runs)
    tasks = dict.fromkeys(titles[run.task] for run in runs)
    axes = dict.fromkeys(names.axis(key) for report in reports for key in report.columns)
    return f"{', '.join(tasks)}: {', '.join(axes)}"


def _lead(reports: Sequence[Report], origin: Origin) -> str:
    failed = f" ({origin.failed:,} more failed)" if origin.failed else ""
    return (
        f"{counted_noun(len(runs_of(reports)), 'run')}{failed} of models that were trained alike "
        "in everything but what the tables name."
    )


def footnotes(reports: Sequence[Report]) -> list[str]:
    """Return the notes of all reports, each once."""
    return [*dict.fromkeys(note for report in reports for note in report.notes)]


def figure(plot: "Plot | None") -> str:
    """Return a plot with its caption; "" for None."""
    if plot is None:
        return ""
    from .plots import style  # imports matplotlib, which is slow

    return as_html("plot", plot, style.inline(plot))


def _parts(report: Report) -> Iterator[Part]:
    """Yield the parts of a report's chapter; the body of a part without content is empty."""
    from .plots import comparison  # imports matplotlib, which is slow

    shown = {kind: html_table(grid) for kind, grid in tables(report).items()}
    means = shown.get("means", "") + shown.get("differences", "")
    notes = as_html("notes", footnotes([report]))
    yield ("", figure(comparison.comparison(report)) + means + notes)
    yield ("Beside the paper", shown.get("paper", ""))
    if not report.chosen_among:  # otherwise the previous chapter, on dev, includes these runs
        yield from _training(report)


def _training(report: Report) -> Iterator[Part]:
    """Yield the parts on training: mixes, curves and costs, which do not depend on the split."""
    from .plots import curves

    shares, costs = weights(report), cost(report)
    for quantity, title in CURVES.items():
        table = html_table(*shares) if quantity == "elmo.mix" and shares else ""
        yield (title, figure(curves.curve(report, quantity)) + table)
    yield ("Learning curves", figure(curves.learning(report)))
    yield ("Cost", html_table(costs) if costs else "")


def _made(reports: Sequence[Report], origin: Origin) -> Iterator[Part]:
    """Yield the parts on all runs: methods, provenance and commands."""
    grid = provenance(reports, origin)
    lines = [line for label, line in grid.rows if label in COMMANDS]
    rows = [row for row in grid.rows if row[0] not in COMMANDS]
    yield ("Methods", as_html("paragraph", methods(reports)))
    yield ("Where the figures come from", html_table(grid._replace(rows=rows)))
    if lines:
        yield ("Commands", as_html("commands", lines))
