"""Figures show every run, in the right places, and are files that stand alone."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from matplotlib.figure import Figure

from elmo_bench.files import begins
from elmo_bench.report.plots import comparison, curve, learning, picture, style, telling
from elmo_bench.report.plots.style import COLORS, PAPER
from elmo_bench.report.table import Cell, Report
from elmo_bench.report.write import OWN
from tests.report.made_comparison import made_comparison
from tests.report.panels import panels
from tests.runs.made_runs import a_run

TASK = {"name": "ner", "monitor": "f1"}
RUN = a_run(TASK)


def cell(row, column, figures, comparison=None, run=RUN):
    return Cell(row, column, [run] * len(figures), tuple(figures), comparison=comparison)


def compared(name="books", **others):
    """Three runs of two settings of an encoder, on two corpora of which one is harder."""
    cells = [
        cell(("easy",), ("none",), [0.70, 0.72, 0.71]),
        cell(("easy",), (name,), [0.81, 0.83, 0.82], made_comparison(0.11, 0.02, p=0.01)),
        cell(("hard",), ("none",), [0.20, 0.22, 0.21]),
        cell(("hard",), (name,), [0.23, 0.25, 0.24], made_comparison(0.03, 0.9)),
    ]
    return Report(["data.name"], ["encoder.name"], None, "test", ("none",), cells, [], **others)


def lines(axes):
    return [line for line in axes.lines if line.get_linestyle() != "None"]


def marks(axes):
    """The marks on these axes: their shape, places along x and y, and face."""
    return [
        (line.get_marker(), [*line.get_xdata()], [*line.get_ydata()], line.get_markerfacecolor())
        for line in axes.lines
        if line.get_linestyle() == "None"
    ]


def test_every_run_is_a_dot_and_every_difference_has_its_interval():
    easy, easy_differences, hard, hard_differences = panels(comparison(compared()))
    runs = [sorted(xs) for mark, xs, _, _ in marks(easy) if mark in "oX"]
    assert runs == [pytest.approx([70, 71, 72]), pytest.approx([81, 82, 83])]
    means = [xs for mark, xs, _, _ in marks(easy) if mark == "|"]
    assert means == [pytest.approx([71]), pytest.approx([82])]
    # Filled where it is significant, hollow elsewhere; a far longer interval goes on.
    assert marks(easy_differences) == [("o", pytest.approx([11]), [1], COLORS[0])]
    assert marks(hard_differences) == [("o", pytest.approx([3]), [1], PAPER)]
    interval = lines(easy_differences)[-1]
    assert [*interval.get_xdata()] == pytest.approx([9, 13])
    assert max(lines(hard_differences)[-1].get_xdata()) > hard_differences.get_xlim()[1]
    # Equal lengths are equal differences in all rows.
    assert [label.get_text() for label in hard.get_yticklabels()] == ["no encoder", "books"]
    (low, high), (lower, higher) = easy.get_xlim(), hard.get_xlim()
    assert high - low == pytest.approx(higher - lower)
    assert (low < 70 < 83 < high, lower < 20 < 25 < higher) == (True, True)
    assert comparison(replace(compared(), cells=compared().cells[:1])) is None


@pytest.mark.parametrize(
    ("limits", "shown"),
    [((84, 104), (80, 100)), ((-3, 17), (0, 20)), ((40, 60), (40, 60)), ((-3, 103), (0, 100))],
)
def test_an_axis_of_percentages_stays_as_long_as_it_can(limits, shown):
    """So that equal lengths are equal differences near 100 %, too."""
    axes = Figure().add_subplot()
    axes.set_xlim(*limits)
    style.percent_axis(axes.xaxis)
    assert axes.get_xlim() == shown


def test_a_picture_in_a_page():
    """It has a title and an explanation, nothing from elsewhere; neither XML nor TeX in a name does anything, nor does what no font has."""
    plot = comparison(compared("$\\frac$ <b>& \x1b 漢", title="Corpora"))
    root = ElementTree.fromstring(style.svg([plot]))
    assert root.get("role") == "img"
    assert root[0].text == "Corpora: test F1, every run a dot, and the differences."
    assert root[1].text.startswith("Left: runs (dots) and their mean (bar).")
    assert "$\\frac$ <b>& \\x1b 漢" in "".join(root.itertext())
    assert not re.search(r"https?:|<script|<metadata", style.svg([plot]))
    assert style.pdf([plot]).startswith(b"%PDF-")


def test_a_report_knows_its_own_pictures(tmp_path):
    """And writes over no other; the same report gives the same bytes."""
    for kind, other in (
        ("svg", b'<svg xmlns="http://www.w3.org/2000/svg"/>'),
        ("pdf", b"%PDF-1.4 /Creator (Somebody)"),
    ):
        path, is_own = tmp_path / f"a.{kind}", begins(OWN[f".{kind}"])
        path.write_bytes(picture([compared()], kind))
        assert path.read_bytes() == picture([compared()], kind)
        assert is_own(path)
        path.write_bytes(other)
        assert not is_own(path)


def swept():
    """Two encoders by the share of the training set."""
    cells = [
        cell((fraction,), (name,), [low + 0.1 * k, low + 0.1 * k + 0.02])
        for name, low in (("none", 0.2), ("books", 0.5))
        for k, fraction in enumerate((0.01, 0.1, 1.0))
    ]
    return Report(["fraction"], ["encoder.name"], None, "test", ("none",), cells, [])


def test_a_curve_over_a_quantity():
    """Every run a dot, the line through the means, the baseline in grey."""
    (panel,) = panels(curve(swept(), "fraction"))
    books, none = sorted(lines(panel), key=lambda line: -max(line.get_ydata()))
    assert [*books.get_ydata()] == pytest.approx([51, 61, 71])
    assert [*none.get_ydata()] == pytest.approx([21, 31, 41])
    assert (none.get_color(), books.get_color()) == (style.SOFT, COLORS[0])
    dots = sorted(y for _, _, ys, _ in marks(panel) for y in ys)
    assert dots == pytest.approx([20, 22, 30, 32, 40, 42, 50, 52, 60, 62, 70, 72])
    assert [text.get_text() for text in panel.get_xticklabels()] == ["1 %", "10 %", "100 %"]
    assert curve(swept(), "elmo.dropout") is None


@pytest.mark.parametrize("across", ["books", "none"])  # in a curve of its own, or in the same
def test_what_does_not_have_the_quantity_is_a_line_across(across):
    cells = [
        cell(("-",), ("none",), [0.2]),
        *(cell((l2,), (across,), [0.5 + l2]) for l2 in (0.0, 0.1, 0.01)),
    ]
    report = Report(["elmo.l2"], ["encoder.name"], None, "test", None, cells, [])
    (panel,) = panels(curve(report, "elmo.l2"))
    heights = sorted([*line.get_ydata()] for line in lines(panel) if len(line.get_ydata()))
    assert heights == [[20, 20], [pytest.approx(50), pytest.approx(51), pytest.approx(60)]]


def trained(folder, seed, values):
    """A run with its figures on dev; the best epoch is measured once more, after the last."""
    folder.mkdir()
    rows = [f"{epoch},{value}," for epoch, value in enumerate([*values, max(values)])]
    (folder / "metrics.csv").write_text("\n".join(["epoch,dev/f1,train/loss", *rows, ",,0.5"]))
    return replace(RUN, folder=folder, seed=seed, epochs=len(values))


def test_learning_curves(tmp_path):
    """A line through the means of the runs that go so far, on an axis that ends at 0."""
    values = [[0.0, 0.4, 0.2], [0.3, 0.4], [0.3, 0.4]]
    runs = [trained(tmp_path / str(k), k, each) for k, each in enumerate(values)]
    cells = [Cell((), ("a",), runs, (0.4,) * 3)]
    report = Report([], ["encoder.name"], None, "dev", None, cells, [])
    (panel,) = panels(learning(report))
    (line,) = lines(panel)
    assert [*line.get_xdata()] == [1, 2, 3]
    assert [*line.get_ydata()] == pytest.approx([20, 40, 20])
    assert panel.get_ylim()[0] == 0
    assert [len(ys) for _, _, ys, _ in marks(panel) if len(ys)] == [3, 3, 1]


def layered():
    """An encoder of three layers, read one by one and together, with two seeds."""

    def run(mix, weights):
        config = {"task": TASK, "elmo": {"mix": mix}, "encoder": {"_target_": "made.up"}}
        return a_run(config=config, mix=weights)

    def mixed(layers, shares):
        return {"input": {"layers": layers, "shares": shares, "gamma": 1.0, "norms": []}}

    weights = [0, 1, 2], [0.2, 0.3, 0.5]
    cells = [
        cell((), ("none",), [0.1, 0.2], run=run("none", {})),
        cell((), (0,), [0.3, 0.4], run=run(0, mixed([0], [1.0]))),
        cell((), (1,), [0.5, 0.6], run=run(1, mixed([1], [1.0]))),
        cell((), ((0, 1),), [0.5, 0.6], run=run((0, 1), mixed([0, 1], [0.5, 0.5]))),
        cell((), ("all",), [0.7, 0.8], run=run("all", mixed(*weights))),
        cell((), ("top",), [0.6, 0.7], run=run("top", mixed([2], [1.0]))),
        cell((), ("uniform",), [0.65, 0.66], run=run("uniform", mixed(*weights))),
    ]
    return Report([], ["elmo.mix"], None, "test", ("none",), cells, [])


def test_a_layer_profile():
    """The figure by layer, the top one among them, mixes beside them, no encoder across."""
    (figures,) = panels(curve(layered(), "elmo.mix"))
    heights = sorted([*map(float, line.get_ydata())] for line in lines(figures))
    assert heights == [pytest.approx(each) for each in ([15, 15], [35, 55, 65])]
    ticks = [text.get_text() for text in figures.get_xticklabels()]
    assert ticks == ["0", "1", "2", "mean", "mix"]
    dots = {float(xs[0]): ys for mark, xs, ys, _ in marks(figures) if mark == "o"}
    assert dots == {
        place: pytest.approx(ys)
        for place, ys in enumerate([[30, 40], [50, 60], [60, 70], [65, 66], [70, 80]])
    }
    assert curve(swept(), "elmo.mix") is None


def test_a_setting_on_which_lambda_has_no_effect_is_drawn_across_by_its_own_name():
    scores = {("none", "-"): 0.5, ("top", "-"): 0.8, ("all", 0.001): 0.6, ("all", 1): 0.7}
    cells = [
        cell((), key, [score], run=a_run(config={"elmo": {"mix": key[0]}}))
        for key, score in scores.items()
    ]
    found = Report([], ["elmo.mix", "elmo.l2"], None, "test", ("none", "-"), cells, [])
    (axes,) = panels(curve(found, "elmo.l2"))
    across = {line.get_color(): float(line.get_ydata()[0]) for line in lines(axes)}
    assert sorted(across.values()) == pytest.approx([50, 60, 80])
    assert across.pop(style.BASELINE["color"]) == pytest.approx(50)
    assert "top layer" in str(picture([found], "svg"))


def test_a_document_has_what_tells_most():
    """Layers, else a curve, else the comparison, each below its title; a report of one cell is left
    out, and alone it is an error.
    """
    alone = Report([], ["encoder.name"], None, "dev", None, [cell((), ("a",), [0.5])], [])
    chosen = [telling(each) for each in (layered(), swept(), alone)]
    assert [plot and plot.title for plot in chosen] == [
        "ner: test F1 by the layer that is read, every run a dot.",
        "ner: test F1 by share of the training set, every run a dot.",
        None,
    ]
    text = picture([compared(title="First"), compared(title="Second & last"), alone], "svg")
    root = ElementTree.fromstring(text)
    shown = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    titles = ["First", "Second & last"]
    assert [each for each in shown if each in titles] == titles
    assert not re.search(rb"<script|@import|https?:(?!//www.w3.org/2000/svg)", text)
    with pytest.raises(ValueError, match=r"output=FILE.pdf: nothing to plot"):
        picture([alone], "pdf")
