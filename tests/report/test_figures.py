"""Figures show every run, in the right places, and are files that stand alone."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from elmo_bench.report import drawing, figures, significance
from elmo_bench.report.drawing import COLORS, PAPER, VARIABLES
from elmo_bench.report.table import Cell, Comparison, Report

RUN = {"config": {"task": {"name": "ner", "monitor": "f1"}}, "mix": {}}


def cell(row, column, figures, comparison=None, run=RUN):
    return Cell(
        row=row,
        column=column,
        runs=[run] * len(figures),
        figures=tuple(figures),
        mean=sum(figures) / len(figures),
        deviation=None,
        best=False,
        published=None,
        comparison=comparison,
    )


def difference(by, reach, p=0.2):
    test = significance.Test(
        difference=by,
        error=reach / 3,
        freedom=4.0,
        p=p,
        interval=(by - reach, by + reach),
        detectable=0.1,
        seeds_needed=7,
        shares=significance.Shares(0.2, 0.5, 0.3),
        p_same_models=p,
        p_same_examples=p,
        correlation=None,
        examples=100,
        clusters=100,
        runs=(3, 3),
    )
    return Comparison(by, None, test, p)


def compared(name="books", **others):
    """Three runs of two settings of an encoder, on two corpora of which one is harder."""
    cells = [
        cell(("easy",), ("none",), [0.70, 0.72, 0.71]),
        cell(("easy",), (name,), [0.81, 0.83, 0.82], difference(0.11, 0.02, p=0.01)),
        cell(("hard",), ("none",), [0.20, 0.22, 0.21]),
        cell(("hard",), (name,), [0.23, 0.25, 0.24], difference(0.03, 0.9)),
    ]
    return Report(["data.name"], ["encoder.name"], None, "test", ("none",), cells, [], **others)


def marks(figure):
    """Where the marks of each panel stand, in its own units, by the rows of panels."""
    return [
        [
            (line.get_marker(), float(line.get_xdata()[0]), line.get_markerfacecolor())
            for line in panel.lines
            if line.get_linestyle() == "None"
        ]
        for panel in figure.axes
        if panel.axison
    ]


def test_every_run_is_a_dot_and_every_difference_has_its_interval():
    plot = figures.comparison(compared())
    easy, easy_differences, _, hard_differences = panels = marks(drawing.figure([plot]))
    assert [x for mark, x, _ in easy if mark == "o"] == pytest.approx([70, 71, 72, 81, 82, 83])
    assert [x for mark, x, _ in easy if mark == "|"] == pytest.approx([71, 82])
    assert len(panels) == 4
    # Filled where it is significant, hollow elsewhere; a far longer interval ends in arrows.
    assert easy_differences == [("o", pytest.approx(11), COLORS[0])]
    assert [mark for mark, _, _ in hard_differences] == ["<", ">", "o"]
    assert hard_differences[-1] == ("o", pytest.approx(3), PAPER)


def test_equal_lengths_are_equal_differences_in_all_rows():
    easy, _, hard, _ = (
        panel.get_xlim() for panel in drawing.figure([figures.comparison(compared())]).axes[:4]
    )
    assert easy[1] - easy[0] == pytest.approx(hard[1] - hard[0])
    assert easy[0] < 70
    assert easy[1] > 83
    assert hard[0] < 20
    assert hard[1] > 25


def test_a_single_cell_is_no_comparison():
    alone = [cell((), ("books",), [0.5, 0.6])]
    assert figures.comparison(Report([], ["encoder.name"], None, "dev", None, alone, [])) is None


def test_without_a_baseline_the_means_have_intervals():
    """Student's t of three runs that differ by a point: 2.48 to each side."""
    cells = [cell((), ("a",), [0.70, 0.71, 0.72]), cell((), ("b",), [0.5, 0.6])]
    plot = figures.comparison(Report([], ["encoder.name"], None, "dev", None, cells, []))
    (panel,) = (axes for axes in drawing.figure([plot]).axes if axes.axison)
    (interval,) = (line for line in panel.lines if len(line.get_xdata()) == 2)
    assert [*interval.get_xdata()] == pytest.approx([71 - 2.484, 71 + 2.484], abs=1e-3)
    assert "95 % interval of the mean" in plot.caption


def test_the_alternative_text_has_the_figures():
    plot = figures.comparison(compared(title="Corpora"))
    text = drawing.inline_svg(drawing.figure([plot]), f"{plot.title} {plot.description}")
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    assert root[0].text == plot.title
    assert root[0].text.startswith("Corpora: test F1 of 2 settings in 2 rows")
    assert (
        "easy: no encoder 71.00; books 82.00 (difference +11.00, +9.00 to +13.00)" in root[1].text
    )


def test_a_picture_in_a_page():
    """Nothing that could meet another picture's, nothing from elsewhere, no size of its own, and
    colours that the page knows.
    """
    text = drawing.inline(figures.comparison(compared()))
    assert not re.search(r"\bid=|url\(|href|https?:|<script|<style|clip-path", text)
    wide, narrow = ElementTree.fromstring(f"<p>{text}</p>")
    assert (wide.get("class"), narrow.get("class")) == ("wide", "narrow")
    assert {*wide[0].attrib} == {"viewBox", "role", "style"}
    assert not re.search("#[0-9a-f]{6}", text)
    known = Path(drawing.__file__).with_name("page.css").read_text(encoding="utf-8")
    assert set(re.findall(r"var\((--\w+)\)", text)) <= {*VARIABLES.values()}
    assert all(f"{name}:" in known for name in VARIABLES.values())


def test_names_are_shown_as_they_are():
    """Neither XML nor TeX in a name does anything, nor does what no font has."""
    name = "$\\frac$ <b>& \x1b 漢"
    plot = figures.comparison(compared(name))
    for text in (drawing.inline(plot), drawing.standalone_svg([plot]).decode()):
        shown = "".join(ElementTree.fromstring(f"<p>{text}</p>").itertext())
        assert "$\\frac$ <b>& \\x1b 漢" in shown
    assert drawing.pdf([plot]).startswith(b"%PDF-")


def test_files_are_the_same_bytes_each_time():
    plots = [figures.comparison(compared()), figures.comparison(compared(title="Again"))]
    for write in (drawing.standalone_svg, drawing.pdf):
        assert write(plots) == write(plots)
    root = ElementTree.fromstring(drawing.standalone_svg(plots))
    one = ElementTree.fromstring(drawing.standalone_svg(plots[:1]))
    assert float(root.get("height")[:-2]) > 1.9 * float(one.get("height")[:-2])
