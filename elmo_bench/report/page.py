"""Format reports as one self-contained HTML page without scripts."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from elmo_bench.runs import MIX
from elmo_bench.terminal import counted_noun

from .aggregate import cost, weights
from .grids import tables
from .names import axis, corpus_title, heading, task_titles
from .provenance import methods, provenance, runs_of
from .table import Report
from .writers import as_html, html_table

if TYPE_CHECKING:
    from .plots.style import Plot

RESULTS = "Results"  # chapter title of a report without a title
STYLE = Path(__file__).with_name("page.css")
GENERATOR = "elmo-bench report"  # job=report overwrites only pages with this mark

Part = tuple[str, str]  # title, "" for the first of a chapter, and HTML


def as_page(reports: Sequence[Report], title: str | None = None, command: str = "") -> str:
    """Return the page, with a chapter for each report.

    The default title names the compared tasks and settings.
    """
    chapters = [(r.title or RESULTS, [part for part in _parts(r) if part[1]]) for r in reports]
    about = as_html("paragraph", methods(reports)) + html_table(provenance(reports, command))
    chapters.append(("How this was made", [("", about)]))
    lead = (
        f"{counted_noun(len(runs_of(reports)), 'run')} of models that were trained alike "
        "in everything but what the tables and the notes name."
    )
    style = STYLE.read_text(encoding="utf-8")
    return as_html("page", GENERATOR, title or compared(reports), lead, chapters, style) + "\n"


def compared(reports: Sequence[Report]) -> str:
    """Return the tasks, each with its corpus if it has one, and what is compared on them, such as
    "NER, SNLI (snli): encoder, layers".
    """
    corpora: dict[str, set[str]] = defaultdict(set)  # by task
    for each in reports:
        titles = task_titles(each.runs)
        for run in each.runs:
            corpora[heading(titles[run.task], run.task)].add(corpus_title(run, titles))
    tasks = [min(named) if len(named) == 1 else title for title, named in corpora.items()]
    axes = dict.fromkeys(axis(key) for report in reports for key in report.columns)
    return f"{', '.join(tasks)}: {', '.join(axes)}"


def footnotes(reports: Sequence[Report]) -> list[str]:
    """Return the notes of all reports, each once."""
    return [*dict.fromkeys(note for report in reports for note in report.notes)]


def _parts(report: Report) -> Iterator[Part]:
    """Yield the parts of a report's chapter; the body of a part without content is empty."""
    from . import plots  # imports matplotlib, which is slow

    shown = {kind: html_table(grid) for kind, grid in tables(report).items()}
    means = shown.get("means", "") + shown.get("differences", "")
    notes = as_html("notes", footnotes([report]))
    yield ("", _figure(plots.comparison(report)) + means + notes)
    yield ("Tuning", _figure(plots.tuning(report)) + shown.get("tuning", ""))
    yield ("Beside the paper", shown.get("paper", ""))
    if report.chosen_among:  # the previous chapter, on dev, includes these runs
        return
    shares, costs = weights(report), cost(report)
    for quantity, (title, _) in plots.QUANTITIES.items():
        table = shown.get("depth", "") + html_table(shares) if quantity == MIX and shares else ""
        yield (title, _figure(plots.curve(report, quantity)) + table)
    yield ("Learning curves", _figure(plots.learning(report)))
    yield ("Cost", html_table(costs) if costs else "")


def _figure(plot: "Plot | None") -> str:
    """Return a plot with its caption; "" for None."""
    from .plots import style

    return as_html("plot", plot, style.svg([plot])) if plot else ""
