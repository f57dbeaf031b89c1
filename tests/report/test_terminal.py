"""Whatever the width of a terminal, every figure is there, and none is cut."""

import io

import pytest
from rich.console import Console

from elmo_bench.report.grid import Grid
from elmo_bench.report.terminal import parts, terminal

FIGURES = [
    ["63.23 ± 2.64 (3)", "−0.24", "−5.79 to +5.30", "1.000", "−0.67"],
    ["64.08 ± 4.47 (3)", "+10.61", "−8.03 to +19.25", "<0.001*", "14.93"],
]
HEADS = ["mean", "difference", "95 % interval", "p (Holm)", "errors removed"]


def grid(*names, heads=("task", "share of the training set", "encoder and layers")):
    rows = [[*each, *FIGURES[k % 2]] for k, each in enumerate(names)]
    left = len(names[0])
    return Grid("title", [*heads[:left], *HEADS], rows, {(1, left)}, left, {}, "A caption. " * 20)


TWO = [("NER", "100 %", way) for way in ("no encoder", "books, backward alone")]
TWO += [("SRL", "10 %", way) for way in ("no encoder", "books, backward alone")]
ONE = [("NER", "100 %", "no encoder"), ("SRL", "10 %", "books, layers 0, 1 and 2")]
LONG = [("a" * 90,), ("漢" * 90,)]


def lines(shown, width):
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(terminal(shown))
    return console.file.getvalue().split("\n")


@pytest.mark.parametrize("names", [TWO, ONE, LONG, [()]])
@pytest.mark.parametrize("width", [24, 60, 80, 120, 300])
def test_no_figure_is_cut(names, width):
    shown = grid(*names)
    found = lines(shown, width)
    text = "\n".join(found)
    for row in shown.rows:
        for figure in row[shown.left :]:
            assert text.count(figure) >= sum(figure in other for other in shown.rows)
    assert max(map(len, found)) <= width


@pytest.mark.parametrize("names", [TWO, ONE])
def test_in_a_pipe_what_matters_stands_first(names):
    """In 80 columns mean, difference, interval and p of a row share a line, whatever its names."""
    found = lines(grid(*names), 80)
    rows = [line for line in found if "4.47" in line]
    assert rows
    assert all(figure in line for line in rows for figure in FIGURES[1][:4])


def test_a_column_is_spared_before_a_table_is_divided():
    shown = grid(*ONE)._replace(spare=("errors removed", "p (Holm)"))
    found = " ".join("\n".join(lines(shown, 70)).split())
    assert found.count("NER, 100") == 1
    assert "14.93" not in found
    assert "<0.001*" in found
    assert "Left out of 70 columns: errors removed." in found
    assert "14.93" in "\n".join(lines(shown, 120))


def test_what_is_bold_is_said_where_it_is_shown():
    shown = grid(*ONE)._replace(bold_is="the best of its row")
    assert "Bold" not in "\n".join(lines(shown, 120))
    console = Console(width=300, file=io.StringIO(), force_terminal=True, color_system="standard")
    console.print(terminal(shown))
    assert "Bold: the best of its row." in " ".join(console.file.getvalue().split())


def test_groups_stand_above_their_rows_where_room_is_scarce():
    narrow, wide = lines(grid(*TWO), 80), lines(grid(*TWO), 200)
    assert [line.strip() for line in narrow].count("NER, 100 %") == 1
    assert sum(line.startswith("NER   100 %") for line in wide) == 1  # a name is not repeated
    merged = [line for line in lines(grid(*ONE), 80) if line.startswith("NER, 100")]
    assert len(merged) == 1


def test_names_take_what_figures_leave():
    """Wide enough for all, each column is as wide as its texts; narrower, names are broken first."""
    shown = grid(*TWO)
    ((columns, widths),) = parts(shown, 200)
    assert columns == [*range(8)]
    assert widths == [4, 25, 21, 16, 10, 15, 7, 7]
    assert len(parts(shown, 95)) == 1
    assert [len(part.columns) > 3 for part in parts(shown, 40)] == [True] * len(parts(shown, 40))
