"""Format reports as one self-contained HTML page without scripts."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from elmo_bench.runs import MIX
from elmo_bench.terminal import counted_noun

from .cost import cost
from .grids import tables
from .methods import methods
from .mixes import weights
from .names import axis, corpus_title, heading
from .provenance import provenance
from .table import Report, runs_of
from .writers import as_html, html_table

RESULTS = "Results"  # chapter title of a report without a title
STYLE = Path(__file__).with_name("page.css")
GENERATOR = "elmo-bench report"  # job=report overwrites only pages with this mark

Part = tuple[str, str]  # title, "" for the first of a chapter, and HTML


def as_page(reports: Sequence[Report], title: str | None = None, command: str = "") -> str:
    """Return the page, with a chapter for each report.

    The default title names the compared tasks and settings.
    """
    chapters: list[tuple[str, list[Part]]] = []
    for report in reports:
        parts = [(part, body) for part, body in _parts(report) if body]
        chapters.append((report.title or RESULTS, parts))
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
    corpora: dict[str, set[str]] = defaultdict(set)  # the titles of the tasks' corpora, by task
    axes: dict[str, None] = {}
    for report in reports:
        axes |= dict.fromkeys(map(axis, report.columns))
        for run in report.runs:
            task = heading(report.task_titles[run.task], run.task)
            corpora[task].add(corpus_title(run, report.task_titles))
    tasks: list[str] = []
    for task, corpus_titles in corpora.items():
        tasks.append(min(corpus_titles) if len(corpus_titles) == 1 else task)
    return f"{', '.join(tasks)}: {', '.join(axes)}"


def footnotes(reports: Sequence[Report]) -> list[str]:
    """Return the notes of all reports, each once."""
    notes: dict[str, None] = {}
    for report in reports:
        notes |= dict.fromkeys(report.notes)
    return list(notes)


def _parts(report: Report) -> Iterator[Part]:
    """Yield the parts of a report's chapter; the body of a part without content is empty."""
    from . import plots  # imports matplotlib, which is slow

    shown = {kind: html_table(grid) for kind, grid in tables(report).items()}
    means = shown.get("means", "") + shown.get("differences", "")
    notes = as_html("notes", footnotes([report]))
    yield ("", _figure(plots.comparison(report)) + means + notes)
    yield ("Over corpora", shown.get("corpora", ""))
    yield ("Between tasks", shown.get("contrasts", ""))
    yield ("Tuning", _figure(plots.tuning(report)) + shown.get("tuning", ""))
    yield ("Beside the paper", shown.get("paper", ""))
    if report.chosen_among:  # the previous chapter, on dev, includes these runs
        return
    shares = weights(report)
    for quantity, (title, _) in plots.QUANTITIES.items():
        table = ""
        if quantity == MIX and shares:
            table = shown.get("depth", "") + html_table(shares)
        yield (title, _figure(plots.curve(report, quantity)) + table)
    yield ("Learning curves", _figure(plots.learning(report)))
    costs = cost(report)
    yield ("Cost", html_table(costs) if costs else "")


def _figure(plot: Any) -> str:  # a Plot or None; its class imports matplotlib
    """Return a plot with its caption; "" for None."""
    from .plots import style

    return as_html("plot", plot, style.svg([plot])) if plot else ""
