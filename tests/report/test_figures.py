"""Figures show every run, in the right places, and are files that stand alone."""

import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from elmo_bench.files import begins
from elmo_bench.report import OWN, course, significance
from elmo_bench.report.comparison import Comparison
from elmo_bench.report.plots import comparison as comparisons
from elmo_bench.report.plots import curves, document, drawing, noise, profiles, rendering
from elmo_bench.report.plots.drawing import COLORS, PAPER
from elmo_bench.report.plots.rendering import VARIABLES
from elmo_bench.report.table import Cell, Report

from .made import a_run

TASK = {"name": "ner", "monitor": "f1"}
RUN = a_run(TASK)


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
        scales=(significance.Scale(reach / 3, 4.0),),
        p=p,
        interval=(by - reach, by + reach),
        detectable=0.1,
        shares=significance.Shares(0.2, 0.5, 0.3),
        examples=100,
        clusters=100,
        runs=(5, 5),
    )
    return Comparison(by, None, test, p, family=1)


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
    plot = comparisons.comparison(compared())
    easy, easy_differences, _, hard_differences = panels = marks(drawing.figure([plot]))
    assert [x for mark, x, _ in easy if mark in "oX"] == pytest.approx([70, 71, 72, 81, 82, 83])
    assert [x for mark, x, _ in easy if mark == "|"] == pytest.approx([71, 82])
    assert len(panels) == 4
    # Filled where it is significant, hollow elsewhere; a far longer interval ends in arrows.
    assert easy_differences == [("o", pytest.approx(11), COLORS[0])]
    assert [mark for mark, _, _ in hard_differences] == ["<", ">", "o"]
    assert hard_differences[-1] == ("o", pytest.approx(3), PAPER)


def test_equal_lengths_are_equal_differences_in_all_rows():
    easy, _, hard, _ = (
        panel.get_xlim() for panel in drawing.figure([comparisons.comparison(compared())]).axes[:4]
    )
    assert easy[1] - easy[0] == pytest.approx(hard[1] - hard[0])
    assert easy[0] < 70
    assert easy[1] > 83
    assert hard[0] < 20
    assert hard[1] > 25


def apart(folder):
    """The baseline in a row of its own, which serves that of the encoder; no figure is far from 0."""
    figures = {("none", "no layers"): [0.0, 0.02], ("books", "all"): [0.03, 0.05]}
    cells = [
        Cell(
            row=(encoder,),
            column=(mix,),
            runs=[
                trained(folder / f"{mix}{seed}", seed, [0.0, figure])
                for seed, figure in enumerate(values)
            ],
            figures=tuple(values),
            mean=sum(values) / 2,
            deviation=None,
            best=False,
            published=None,
            comparison=difference(0.03, 0.01) if encoder == "books" else None,
        )
        for (encoder, mix), values in figures.items()
    ]
    return Report(["encoder.name"], ["elmo.mix"], None, "dev", ("no layers",), cells, [])


def test_a_baseline_stands_beside_what_it_serves(tmp_path):
    """As in the tables, and no axis shows figures below 0."""
    report = apart(tmp_path)
    for draw in (comparisons.comparison, curves.learning):
        plot = draw(report)
        panel, *others = (axes for axes in drawing.figure([plot]).axes if axes.axison)
        assert len(others) == (draw is comparisons.comparison)  # its differences
        shown = panel.get_xlim() if others else panel.get_ylim()
        assert shown[0] == 0 < 5 < shown[1]
        marks_ = [line for line in panel.lines if line.get_marker() in "oX"]
        assert len(marks_) == 4
        assert "books: no layers" in plot.description


def test_an_interval_is_cut_only_where_it_is_far_longer():
    """Than thrice what is usual and any difference."""
    for end, cut in ((0.54, False), (0.70, True)):
        cells = [
            cell(("a",), ("none",), [0.30]),
            cell(("a",), ("books",), [0.44], difference(0.14, 0.04)),
            cell(("a",), ("mini",), [0.32], difference(0.02, end - 0.02)),
        ]
        report = Report(["task.name"], ["encoder.name"], None, "test", ("none",), cells, [])
        _, right = marks(drawing.figure([comparisons.comparison(report)]))
        assert (">" in [mark for mark, _, _ in right]) == cut


def test_the_papers_difference_stands_beside_ours():
    """A cross, on an axis that reaches it."""
    base, better = (
        replace(cell(("a",), ("none",), [0.30]), published=0.5),
        replace(cell(("a",), ("books",), [0.32], difference(0.02, 0.01)), published=0.6),
    )
    report = Report(["task.name"], ["encoder.name"], None, "test", ("none",), [base, better], [])
    plot = comparisons.comparison(report)
    _, axes = (axes for axes in drawing.figure([plot]).axes if axes.axison)
    (cross,) = (line for line in axes.lines if line.get_marker() == "x")
    assert [*cross.get_xdata()] == pytest.approx([10])
    assert axes.get_xlim()[1] > 10


def test_a_single_cell_is_no_comparison():
    alone = [cell((), ("books",), [0.5, 0.6])]
    assert (
        comparisons.comparison(Report([], ["encoder.name"], None, "dev", None, alone, [])) is None
    )


def test_without_a_baseline_the_means_have_intervals():
    """Student's t of three runs that differ by a point: 2.48 to each side."""
    cells = [cell((), ("a",), [0.70, 0.71, 0.72]), cell((), ("b",), [0.5, 0.6])]
    plot = comparisons.comparison(Report([], ["encoder.name"], None, "dev", None, cells, []))
    (panel,) = (axes for axes in drawing.figure([plot]).axes if axes.axison)
    (interval,) = (line for line in panel.lines if len(line.get_xdata()) == 2)
    assert [*interval.get_xdata()] == pytest.approx([71 - 2.484, 71 + 2.484], abs=1e-3)
    assert "95 % interval of the mean" in plot.caption


def test_the_alternative_text_has_the_figures():
    plot = comparisons.comparison(compared("books-2", title="Corpora"))
    text = rendering.inline_svg(drawing.figure([plot]), f"{plot.title} {plot.description}")
    root = ElementTree.fromstring(text)
    assert root.get("role") == "img"
    assert root[0].text == plot.title
    assert root[0].text.startswith("Corpora: test F1 of 2 settings in 2 rows")
    shown = "easy: no encoder 71.00; books-2 82.00 (difference +11.00, +9.00 to +13.00)"
    assert shown in root[1].text
    assert "(difference +3.00, −87.00 to +93.00)" in root[1].text


def test_a_picture_in_a_page():
    """Nothing that could meet another picture's, nothing from elsewhere, no size of its own, and
    colours that the page knows.
    """
    text = rendering.inline(comparisons.comparison(compared()))
    assert not re.search(r"\bid=|url\(|href|https?:|<script|<style|clip-path", text)
    wide, narrow = ElementTree.fromstring(f"<p>{text}</p>")
    assert (wide.get("class"), narrow.get("class")) == ("wide", "narrow")
    assert {*wide[0].attrib} == {"viewBox", "role", "style"}
    assert not re.search("#[0-9a-f]{6}", text)
    known = (Path(drawing.__file__).parents[1] / "page.css").read_text(encoding="utf-8")
    assert set(re.findall(r"var\((--\w+)\)", text)) <= {*VARIABLES.values()}
    assert all(f"{name}:" in known for name in VARIABLES.values())


def test_names_are_shown_as_they_are():
    """Neither XML nor TeX in a name does anything, nor does what no font has."""
    name = "$\\frac$ <b>& \x1b 漢"
    plot = comparisons.comparison(compared(name))
    shown = "".join(ElementTree.fromstring(f"<p>{rendering.inline(plot)}</p>").itertext())
    assert "$\\frac$ <b>& \\x1b 漢" in shown
    assert rendering.pdf([plot]).startswith(b"%PDF-")


def test_files_are_the_same_bytes_each_time():
    plots = [comparisons.comparison(compared()), comparisons.comparison(compared(title="Again"))]
    one = rendering.standalone_svg(plots[:1])
    assert one == rendering.standalone_svg(plots[:1])
    assert rendering.pdf(plots[:1]) == rendering.pdf(plots[:1])
    heights = [
        float(ElementTree.fromstring(picture).get("height")[:-2])
        for picture in (one, rendering.standalone_svg(plots))
    ]
    assert heights[1] > 1.9 * heights[0]


def test_a_report_knows_its_own_pictures(tmp_path):
    """And writes over no other."""
    for suffix, write, other in (
        (".svg", document.svg, b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
        (".pdf", document.pdf, b"%PDF-1.4 /Creator (Somebody)"),
    ):
        path, is_own = tmp_path / f"a{suffix}", begins(OWN[suffix])
        path.write_bytes(write([compared()]))
        assert is_own(path)
        path.write_bytes(other)
        assert not is_own(path)


def swept(rows=("fraction",), columns=("encoder.name",)):
    """Two encoders by the share of the training set; what has no encoder has no λ."""
    cells = [
        cell((fraction,), (name,), [low + 0.1 * k, low + 0.1 * k + 0.02])
        for name, low in (("none", 0.2), ("books", 0.5))
        for k, fraction in enumerate((0.01, 0.1, 1.0))
    ]
    return Report([*rows], [*columns], None, "test", ("none",), cells, [])


def test_a_curve_over_a_quantity():
    """Every run a dot, the line through the means, shares of the training set in equal ratios."""
    plot = curves.curve(swept(), "fraction")
    (panel,) = (axes for axes in drawing.figure([plot]).axes if axes.axison)
    lines = [line for line in panel.lines if line.get_linestyle() != "None"]
    books, none = sorted(lines, key=lambda line: -max(line.get_ydata()))
    assert [*books.get_ydata()] == pytest.approx([51, 61, 71])
    assert [*none.get_ydata()] == pytest.approx([21, 31, 41])
    first, second, third = books.get_xdata()
    assert third - second == pytest.approx(second - first)
    dots = sorted(y for line in panel.lines if line not in lines for y in line.get_ydata())
    assert dots == pytest.approx([20, 22, 30, 32, 40, 42, 50, 52, 60, 62, 70, 72])
    assert [text.get_text() for text in panel.get_xticklabels()] == ["1 %", "10 %", "100 %"]
    assert "books: 51.00 at 1 %" in plot.description
    assert curves.curve(swept(), "elmo.dropout") is None


@pytest.mark.parametrize("across", ["books", "none"])  # in a curve of its own, or in the same
def test_what_does_not_have_the_quantity_is_a_line_across(across):
    cells = [
        cell(("-",), ("none",), [0.2]),
        *(cell((l2,), (across,), [0.5 + l2]) for l2 in (0.0, 0.1, 0.01)),
    ]
    report = Report(["elmo.l2"], ["encoder.name"], None, "test", None, cells, [])
    (panel,) = (
        axes for axes in drawing.figure([curves.curve(report, "elmo.l2")]).axes if axes.axison
    )
    heights = [[*line.get_ydata()] for line in panel.lines if line.get_linestyle() != "None"]
    assert sorted(heights) == [[20, 20], [pytest.approx(50), pytest.approx(51), pytest.approx(60)]]


def trained(folder, seed, values):
    """A run with its figures on dev; the best epoch is measured once more, after the last."""
    folder.mkdir()
    rows = [f"{epoch},{value}," for epoch, value in enumerate([*values, max(values)])]
    (folder / "metrics.csv").write_text("\n".join(["epoch,val/f1,train/loss", *rows, ",,0.5"]))
    return replace(RUN, folder=folder, seed=seed, epochs=len(values))


def test_learning_curves(tmp_path):
    """A thin line for each run with a dot at its best epoch; the mean as far as all runs go, also
    as a table; equal lines are said to be equal.
    """
    values = [[0.1, 0.4, 0.2], [0.3, 0.4], [0.3, 0.4]]
    runs = [trained(tmp_path / str(k), k, each) for k, each in enumerate(values)]
    cells = [Cell((), ("a",), runs, (0.4,) * 3, 0.4, None, False, None, None)]
    plot = curves.learning(Report([], ["encoder.name"], None, "test", None, cells, []))
    figure = drawing.figure([plot])
    (panel,) = (axes for axes in figure.axes if axes.axison)
    thin = [line for line in panel.lines if line.get_linewidth() < 1 and len(line.get_xdata()) > 1]
    assert [[*line.get_ydata()] for line in thin] == [[10, 40, 20], [30, 40], [30, 40]]
    (mean,) = (line for line in panel.lines if line.get_linewidth() > 1.5)
    assert [*mean.get_ydata()] == pytest.approx([70 / 3, 40])
    assert [*mean.get_xdata()] == [1, 2]
    assert [mark[1] for mark in marks(figure)[0]] == [2, 2, 2]
    assert "identical lines: a, seed 1; a, seed 2" in [text.get_text() for text in figure.texts]
    grid = course(Report([], ["encoder.name"], None, "dev", None, cells, []))
    assert (grid.heads[-2:], grid.rows) == (["1", "2"], [["a", "23.33", "40.00"]])
    (tmp_path / "0" / "metrics.csv").unlink()
    assert course(Report([], ["encoder.name"], None, "dev", None, cells, [])) is None


def test_the_best_epoch_is_that_of_the_monitored_metric(tmp_path):
    """The report shows precision, but the run kept the model of the epoch with the best F1."""
    rows = ["epoch,val/f1,val/precision", "0,0.2,0.9", "1,0.4,0.3", "2,0.4,0.5", "3,0.1,0.6"]
    (tmp_path / "metrics.csv").write_text("\n".join(rows))
    one = replace(RUN, folder=tmp_path, epochs=4)
    cells = [Cell((), ("a",), [one], (0.3,), 0.3, None, False, None, None)]
    plot = curves.learning(Report([], ["encoder.name"], "precision", "test", None, cells, []))
    ((dot,),) = (
        [line for line in panel.lines if line.get_linestyle() == "None"]
        for panel in drawing.figure([plot]).axes
        if panel.axison
    )
    assert (dot.get_xdata()[0], dot.get_ydata()[0]) == (2, 30)
    assert "30.00 at its best epoch" in plot.description


def layered():
    """An encoder of three layers, read one by one and together, with two seeds."""

    def run(mix, weights):
        config = {"task": TASK, "elmo": {"mix": mix}, "encoder": {"_target_": "made.up"}}
        return a_run(config=config, mix=weights)

    def mixed(layers, shares, norms=()):
        return {"input": {"layers": layers, "shares": shares, "gamma": 1.0, "norms": norms}}

    weights = [0, 1, 2], [0.2, 0.3, 0.5]
    cells = [
        cell((), ("none",), [0.1, 0.2], run=run("none", {})),
        cell((), (0,), [0.3, 0.4], run=run(0, mixed([0], [1.0]))),
        cell((), (1,), [0.5, 0.6], run=run(1, mixed([1], [1.0]))),
        cell((), ("all",), [0.7, 0.8], run=run("all", mixed(*weights, [10.0, 20.0, 4.0]))),
        cell((), ("top",), [0.6, 0.7], run=run("top", mixed([2], [1.0]))),
        cell((), ("uniform",), [0.65, 0.66], run=run("uniform", mixed(*weights))),
    ]
    return Report([], ["elmo.mix"], None, "test", ("none",), cells, [])


def test_a_layer_profile():
    """The figure by layer, the top one among them; the mixes and no encoder across; shares, and
    shares times norms, which are 2, 6 and 2 of 10.
    """
    plot = profiles.layers(layered())
    figures_, shares = (axes for axes in drawing.figure([plot]).axes if axes.axison)
    lines = [line for line in figures_.lines if line.get_linestyle() != "None"]
    heights = sorted([*map(float, line.get_ydata())] for line in lines)
    assert heights == [
        pytest.approx(each) for each in ([15, 15], [35, 55, 65], [65.5, 65.5], [75, 75])
    ]
    weights, lengths = (
        [*line.get_ydata()] for line in shares.lines if line.get_linestyle() != "None"
    )
    assert weights == pytest.approx([20, 30, 50])
    assert lengths == pytest.approx([20, 60, 20])
    assert "layer 0 35.00, layer 1 55.00, top layer (2) 65.00" in plot.description
    assert "layer 1 30 %, top layer (2) 50 %" in plot.description
    for panel in (figures_, shares):
        assert [text.get_text() for text in panel.get_xticklabels()] == ["0", "1", "2 (top)"]
    assert profiles.layers(swept(columns=("encoder.name",))) is None


def test_the_top_layer_is_named_where_it_is_known():
    """Not where runs read lower layers alone."""
    whole = layered()
    cells = [one for one in whole.cells if one.column[0] in ("none", 0, 1)]
    plot = profiles.layers(Report([], ["elmo.mix"], None, "test", ("none",), cells, []))
    assert "layer 0 35.00, layer 1 55.00;" in plot.description


def test_where_the_noise_comes_from():
    plot = noise.noise(compared())
    first, second = (axes for axes in drawing.figure([plot]).axes if axes.axison)
    parts = [patch for patch in first.patches if patch.get_fill()]
    assert [patch.get_x() for patch in parts] == pytest.approx([0, 20, 70])
    assert [patch.get_width() for patch in parts] == pytest.approx([20, 50, 30])
    assert len(second.patches) == len(first.patches)
    assert "easy, books: 20 % seeds, 50 % examples, 30 % both together" in plot.description
    assert noise.noise(swept()) is None


def test_a_document_has_what_tells_most():
    """Layers, else a curve, else the comparison, each below its title; a report of one cell is left
    out, and alone it is an error.
    """
    alone = Report([], ["encoder.name"], None, "dev", None, [cell((), ("a",), [0.5])], [])
    assert [
        document._telling(each).title.partition(" by ")[2] for each in (layered(), swept())
    ] == [
        "the layer that is read, and each layer's share in a learned mix.",
        "share of the training set, every run a dot.",
    ]
    text = document.svg([compared(title="First"), compared(title="Second & last"), alone])
    root = ElementTree.fromstring(text)
    shown = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [each for each in shown if each in ("First", "Second & last")] == [
        "First",
        "Second & last",
    ]
    assert not re.search(rb"<script|@import|url\(|href|https?:(?!//www.w3.org/2000/svg)", text)
    with pytest.raises(ValueError, match=r"output=FILE.pdf: nothing to plot"):
        document.pdf([alone])
