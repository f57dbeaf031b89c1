"""Format reports as one self-contained HTML page without scripts."""

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from elmo_bench.files import listed
from elmo_bench.runs import MIX

from . import names
from .aggregate import cost, weights
from .escape import xml
from .grids import heads, tables
from .provenance import NOWHERE, Origin, methods, provenance, runs_of
from .table import Report
from .write import footnotes
from .writers import html_table

if TYPE_CHECKING:
    from .plots.style import Plot

RESULTS = "Results"  # chapter title of a report without a title
COMMANDS = ("command", "report")  # labels of commands in the provenance
NAMED = 3  # a title names up to this many settings, and counts them otherwise
CURVES = {
    "fraction": "Sample efficiency (the paper's Figure 1)",
    "elmo.l2": "The penalty on the mix",
    "elmo.dropout": "Dropout on ELMo's vectors",
}
STYLE = Path(__file__).with_name("page.css")
GENERATOR = "elmo-bench report"  # job=report overwrites only pages with this mark
# Forbid scripts and external resources, so that text from a run cannot load or execute anything.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'"


class Part(NamedTuple):
    """A section of a chapter; the first section of a chapter has the title ""."""

    title: str
    body: str


class Chapter(NamedTuple):
    """A chapter: a report, or how all of them were made, with its non-empty parts."""

    anchor: str
    title: str
    parts: list[Part]


def as_page(
    reports: Sequence[Report],
    title: str | None = None,
    origin: Origin = NOWHERE,
) -> str:
    """Return the page, with a chapter for each report.

    The default title names the compared tasks and settings.
    """
    title = title or compared(reports)
    chapters = [
        Chapter(f"s{k}", report.title or RESULTS, [part for part in _parts(report) if part.body])
        for k, report in enumerate(reports)
    ]
    chapters.append(Chapter("made", "How this was made", [*_made(reports, origin)]))
    links = "".join(map(_links, chapters))
    bodies = "".join(map(_section, chapters))
    navigation = f'<nav aria-label="Sections"><ul>{links}</ul></nav>'
    about = f'<p class="lead">{xml(_lead(reports, origin))}</p>{navigation}'
    return html(GENERATOR, "A report of elmo-bench", title, about, bodies)


def compared(reports: Sequence[Report]) -> str:
    """Return the compared tasks and settings, such as "NER, SRL: books against no encoder"."""
    runs = runs_of(reports)
    titles = names.task_titles(runs)
    tasks = ", ".join(dict.fromkeys(titles[run.task] for run in runs))
    first = reports[0]
    if any((each.columns, each.baseline) != (first.columns, first.baseline) for each in reports):
        return f"{tasks}: {len(reports)} comparisons"
    settings = [names.name(first.columns, column, titles) for column in heads(first)]
    if first.baseline is None or len(settings) == 1:
        return f"{tasks}: {_few(settings)}"
    return f"{tasks}: {_few(settings[1:])} against {settings[0]}"


def _few(texts: Sequence[str]) -> str:
    if len(texts) > NAMED:
        return f"{len(texts)} settings"
    return "; ".join(texts) if any("," in text for text in texts) else listed(texts)


def _lead(reports: Sequence[Report], origin: Origin) -> str:
    runs = runs_of(reports)
    count = "One run" if len(runs) == 1 else f"{len(runs):,} runs"
    failed = f" ({origin.failed:,} more failed)" if origin.failed else ""
    return (
        f"{count}{failed} of models that were trained alike in everything but what the tables "
        "name: how well each way to train does on text that it has not seen, whether differences "
        "are larger than chance would have them, and what each way costs."
    )


def html(generator: str, kind: str, title: str, about: str, body: str) -> str:
    """Return an HTML page; `about`, shown below the title, and `body` are already HTML."""
    unbroken = re.sub(r"(?<=\w)-(?=\w)", "\u2011", title)  # SST-5 stays on one line
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"/>'
        f'<meta name="generator" content="{generator}"/>'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}"/>'
        '<meta name="viewport" content="width=device-width, initial-scale=1"/>'
        f'<title>{xml(title)}</title><link rel="icon" href="data:,"/>'
        f"<style>\n{STYLE.read_text(encoding='utf-8')}</style></head>\n"
        '<body><a class="skip" href="#results">Skip to the results</a>'
        f'<header><p class="kind">{xml(kind)}</p><h1>{xml(unbroken)}</h1>{about}</header>\n'
        f'<main id="results">{body}</main></body>\n</html>\n'
    )


def _links(chapter: Chapter) -> str:
    inner = "".join(
        f'<li><a href="#{chapter.anchor}-{k}">{xml(part.title)}</a></li>'
        for k, part in enumerate(chapter.parts)
        if part.title
    )
    inner = f"<ul>{inner}</ul>" if inner else ""
    return f'<li><a href="#{chapter.anchor}">{xml(chapter.title)}</a>{inner}</li>'


def _section(chapter: Chapter) -> str:
    inner = "".join(
        f'<section id="{chapter.anchor}-{k}"><h3>{xml(part.title)}</h3>{part.body}</section>\n'
        if part.title
        else part.body
        for k, part in enumerate(chapter.parts)
    )
    return f'<section id="{chapter.anchor}"><h2>{xml(chapter.title)}</h2>{inner}</section>\n'


def terms(pairs: Iterable[Sequence[str]]) -> str:
    """Return a list of terms and their meanings; consecutive equal terms are merged."""
    items = []
    for term, group in itertools.groupby(pairs, lambda pair: pair[0]):
        meanings = "".join(f"<dd>{xml(meaning)}</dd>" for _, meaning in group)
        items.append(f"<dt>{xml(term)}</dt>{meanings}")
    return f'<dl class="terms">{"".join(items)}</dl>'


def figure(plot: "Plot | None") -> str:
    """Return a plot with its caption; "" for None."""
    from .plots.style import inline  # imports matplotlib, which is slow

    if plot is None:
        return ""
    return (
        f'<figure class="plot"><div class="scroll" role="region" tabindex="0" '
        f'aria-label="{xml(plot.title)}">{inline(plot)}</div>'
        f"<figcaption><b>{xml(plot.title)}</b> {xml(plot.caption)}</figcaption></figure>"
    )


def _parts(report: Report) -> Iterator[Part]:
    """Yield the parts of a report's chapter; the body of a part without content is empty."""
    from .plots import comparison  # imports matplotlib, which is slow

    grids = tables(report)
    shown = {kind: html_table(grid) for kind, grid in grids.items()}
    notes = "".join(f"<li>{xml(note)}</li>" for note in footnotes([report]))
    first = [
        figure(comparison.comparison(report)),
        shown.get("means", ""),
        shown.get("differences", ""),
        f'<ul class="notes">{notes}</ul>' if notes else "",
    ]
    yield Part("", "".join(first))
    yield Part("What so many runs can show", shown.get("power", ""))
    yield Part("Beside the paper", shown.get("paper", ""))
    if not report.chosen_among:  # otherwise the previous chapter, on dev, includes these runs
        yield from _training(report)


def _training(report: Report) -> Iterator[Part]:
    """Yield the parts on training: mixes, curves and costs, which do not depend on the split."""
    from .plots import curves

    shares = weights(report)
    profile = figure(curves.curve(report, MIX)) + (html_table(*shares) if shares else "")
    yield Part("Layers (the paper's Figure 2)", profile)
    for quantity, title in CURVES.items():
        yield Part(title, figure(curves.curve(report, quantity)))
    yield Part("Learning curves", figure(curves.learning(report)))
    costs = cost(report)
    yield Part("Cost", html_table(costs) if costs else "")


def _made(reports: Sequence[Report], origin: Origin) -> Iterator[Part]:
    """Yield the parts on all runs: methods, provenance and commands."""
    yield Part("Methods", f"<p>{xml(methods(reports))}</p>")
    rows = provenance(reports, origin).rows
    yield Part("Where the figures come from", terms(row for row in rows if row[0] not in COMMANDS))
    if lines := [xml(line) for label, line in rows if label in COMMANDS]:
        yield Part("Commands", "<pre tabindex='0'><code>" + "\n".join(lines) + "</code></pre>")
