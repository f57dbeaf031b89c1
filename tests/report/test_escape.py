"""Any text as a name or a value is shown in every format, and does nothing else there."""

import csv
import io
import logging
import re
import tempfile
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from elmo_bench.report import Tables, report, show
from elmo_bench.report.page import as_page
from elmo_bench.report.plots import picture, style
from elmo_bench.report.records import as_csv
from elmo_bench.report.result import print_metrics, print_result
from elmo_bench.report.write import latex, markdown
from elmo_bench.report.writers import SHRINK
from elmo_bench.runs import Run, collect
from elmo_bench.sweeps.outcome import Outcome, print_outcomes
from elmo_bench.terminal import PlainLines, plain, plain_lines
from tests.runs.made_runs import write_run

# Characters that mean something in one of the formats, more often than others.
MARKS = st.sampled_from(
    [*"\\|<>&$%#_{}[]()*`~^!=+-@'\"/:;, \n\r\t\x00\x1b\x08\x7f\u2028\u202e\ud800"]
)
TEXTS = st.text(st.one_of(MARKS, st.characters(exclude_categories=())), min_size=1, max_size=12)


def reported(name, value, kind):
    """A report in which texts are a corpus, an encoder, values of the config, a layer's place, a
    metric and a title.
    """
    with tempfile.TemporaryDirectory() as folder:
        for number, (corpus, mix) in enumerate([(name, value), (name, "b"), ("c", value)]):
            config = {"task": {"name": name, "monitor": kind}, "data": {"name": corpus}}
            config |= {"encoder": {"name": name}, "elmo": {"mix": mix}, "fraction": 1.0}
            mixes = {"input": {"layers": [0], "shares": [1.0], "gamma": 1.0, "norms": []}}
            figures = {f"test/{kind}": 0.5, "dev/f1": 0.5}
            write_run(Path(folder, str(number)), figures, config, mix=mixes, epochs=0)
        runs = collect([folder])
    return report(runs, ["data"], ["elmo.mix"], title=name)


# Of texts that mean nothing anywhere: so many elements, lines and cells there are to be.
PLAIN = reported("a", "d", "f")


@given(TEXTS, TEXTS, TEXTS)
@settings(max_examples=25, deadline=None)
def test_any_text_in_every_format(name, value, kind):
    shown = reported(name, value, kind)
    # Fewer rows or columns, or a baseline, which has no layers to show.
    if {"b", "c", "none"} & {name, value} or name == value:
        return
    for form in (elements, rows_of_latex, rows_of_markdown, records, cells):
        assert form(shown) == form(PLAIN), form.__name__


@given(TEXTS, TEXTS)
@settings(max_examples=3, deadline=None)
def test_any_text_in_a_figure(name, value):
    if name == value or {"b", "c"} & {name, value}:
        return
    assert shapes(reported(name, value, "f")) == shapes(PLAIN)


def elements(shown):
    """The tags of the page but its figures, as a browser sees them, and as XML."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "svg", lambda plots: "")
        whole = as_page([shown])
    whole += f"<div>{Tables([shown])._repr_html_()}</div>"  # in a notebook
    tags = []
    parser = HTMLParser()
    parser.handle_starttag = lambda tag, attributes: tags.append((tag, len(attributes)))
    parser.feed(whole)
    page_and_tables = f"<body>{whole.removeprefix('<!DOCTYPE html>')}</body>"
    return sorted(tags), len([*ElementTree.fromstring(page_and_tables.encode()).iter()])


def shapes(shown):
    """The kinds of elements of the picture."""
    whole = ElementTree.fromstring(picture([shown], "svg"))
    return {element.tag for element in whole.iter()}  # a name may stand on several lines


def rows_of_latex(shown):
    """The number of cells in each line; nothing in one is a command, a comment or a formula."""
    rows = []
    for line in latex([shown]).split("\n"):
        if (
            line in (SHRINK, "}")
            or line.startswith("%")
            or re.fullmatch(r"(\\\w+(\{[\w:*-]+\})*)*", line)
        ):
            rows.append(line[:1])
            continue
        line = re.sub(r"^\\caption\{(.*)\}$", r"\1", line)
        line = line.removesuffix(r" \\")
        line = re.sub(r"\\(text(backslash|asciitilde|asciicircum)|ldots)\{\}", "", line)
        line = re.sub(
            r"\\[_%&#${}]|\$(\\pm|\\lambda|\\gamma|\\times|[<>|-])\$|(^|& |\\textbf\{)\{\}(?=[\[*])",
            r"\2",
            line,
        )
        line = re.sub(r"\\textbf\{([^{}]*)\}", r"\1", line)
        assert not set(line) & set("\\{}$#%^~_"), line
        rows.append(str(line.count("&")))
    return sorted(rows)


def rows_of_markdown(shown):
    """The kinds of its tokens: no HTML, no link; every row has its cells."""
    text = markdown([shown])
    inside = MarkdownIt("commonmark").enable("table").parse(text)
    kinds = {child.type for token in inside for child in token.children or ()}
    assert kinds <= {"text", "text_special", "strong_open", "strong_close"}, kinds
    tables = [token.type for token in inside if token.type in ("table_open", "tr_open", "td_open")]
    assert "html_block" not in {token.type for token in inside}
    return tables, [len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in text.splitlines()]


def records(shown):
    """The size of the table; no field is a formula."""
    rows = [*csv.reader(io.StringIO(as_csv([shown])))]
    for field in (field for row in rows for field in row):
        assert field in ("-",) or not re.match(r"[=@\t\r]|[+-](?![\d.]+$)", field)
    return len(rows), {len(row) for row in rows}


def cells(shown):
    """No control character is on the terminal."""
    console = Console(width=1000, file=io.StringIO(), emoji=False)
    show([shown], console)
    printed = console.file.getvalue()
    assert printed == plain_lines(printed)


@given(TEXTS)
@settings(max_examples=30, deadline=None)
def test_any_text_on_the_terminal(name):
    """What a run and a sweep print of themselves at their end."""
    stream = io.StringIO()
    run = Run(
        Path("x[/x]"),
        config={"task": {"name": name}, "data": {"name": ""}, "encoder": {"name": ""}},
        metrics={f"test/{name}/f1": 0.5, "test/f1": 0.5},
        mix={name: {"layers": [0], "shares": [1.0], "gamma": 1.0, "norms": []}},
        seconds={"training": 1.0, "total": 2.0},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("sys.stdout", stream)
        patch.setenv("COLUMNS", "1000")
        print_result(run)
        print_metrics(run.metrics, "test", name)
        print_outcomes({0: Outcome([name], "failed", reason=name), 1: Outcome(["a"], "done")})
    printed = stream.getvalue()
    assert printed == plain_lines(printed)
    assert "x[/x]/result.json" in printed
    if not name.isspace():
        assert plain(name).split()[0] in printed


def test_a_log_line_does_nothing_to_the_terminal():
    record = logging.makeLogRecord({"msg": "corpus %s\n\tread", "args": ("\x1b]0;x\x07",)})
    assert PlainLines("%(message)s").format(record) == "corpus \\x1b]0;x\\x07\n\tread"
