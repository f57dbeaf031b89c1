"""Format reports as one self-contained HTML page without scripts."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from .costs import cost
from .escape import xml
from .grids import tables
from .guide import compared, findings, lead, reading
from .markup import figure, settings, table, terms
from .methods import NOWHERE, Origin, checklist, methods, provenance
from .mixes import weights
from .table import Report
from .write import footnotes

RESULTS = "Results"  # chapter title of a report without a title
COMMAND = "command"  # label of a run's command in the provenance
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
    """A chapter: a report, or the methods of all reports, with its non-empty parts."""

    anchor: str
    title: str
    parts: list[Part]


def page(
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
    about = f'<p class="lead">{xml(lead(reports, origin))}</p>{navigation}'
    return html(GENERATOR, "A report of elmo-bench", title, about, _reading(reports) + bodies)


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


def _reading(reports: Sequence[Report]) -> str:
    return (
        '<aside aria-labelledby="reading"><h2 id="reading">How to read this page</h2>'
        f"{terms(reading(reports))}</aside>\n"
    )


def _parts(report: Report) -> Iterator[Part]:
    """Yield the parts of a report's chapter; the body of a part without content is empty."""
    from .plots import comparison, noise  # imports matplotlib, which is slow

    grids = tables(report)
    shown = {kind: table(grid) for kind, grid in grids.items()}
    first = [
        f"<p>{xml(findings(report))}</p>" if findings(report) else "",
        figure(comparison.comparison(report)),
        shown.get("means", ""),
        shown.get("differences", ""),
        settings(grids.values()),
        *(f"<p>{xml(note)}</p>" for note in footnotes([report])),
    ]
    yield Part("", "".join(first))
    yield Part("What so many runs can show", shown.get("power", "") + figure(noise.noise(report)))
    yield Part("Beside the paper", shown.get("paper", ""))
    if not report.chosen_among:  # otherwise the previous chapter, on dev, includes these runs
        yield from _training(report)


def _training(report: Report) -> Iterator[Part]:
    """Yield the parts on training: mixes, curves and costs, which do not depend on the split."""
    from .plots import curves, profiles

    shares = weights(report)
    layers = figure(profiles.layers(report)) + (table(*shares) if shares else "")
    yield Part("Layers (the paper's Figure 2)", layers)
    for quantity, title in CURVES.items():
        yield Part(title, figure(curves.curve(report, quantity)))
    yield Part("Learning curves", figure(curves.learning(report)))
    costs = cost(report)
    yield Part("Cost", table(costs) if costs else "")


def _made(reports: Sequence[Report], origin: Origin) -> Iterator[Part]:
    """Yield the parts on all runs: methods, checklist, provenance and commands."""
    yield Part("Methods", f"<p>{xml(methods(reports, origin))}</p>")
    yield Part("Reproducibility", terms(checklist(reports, origin).rows))
    origins = provenance(reports, origin).rows
    details = [(label, detail) for label, detail in origins if label not in (COMMAND, "report")]
    run_commands = [detail for label, detail in origins if label == COMMAND]
    report_commands = [detail for label, detail in origins if label == "report"]
    yield Part("Where the figures come from", terms(details))
    if run_commands or report_commands:
        code = "\n".join(map(xml, [*run_commands, *report_commands]))
        yield Part("Commands", f'<pre tabindex="0"><code>{code}</code></pre>')
