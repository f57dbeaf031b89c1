"""Whatever the width of a terminal, every figure is there, and none is cut."""

import io

import pytest
from rich.console import Console

from elmo_bench.report.writers import Grid, Terminal

FIGURES = [
    ["63.23 ± 2.64 (3)", "−0.24", "−5.79 to +5.30", "1.000", "−0.67"],
    ["64.08 ± 4.47 (3)", "+10.61", "−8.03 to +19.25", "<0.001*", "14.93"],
]
HEADS = ["mean", "difference", "95 % interval", "p (Holm)", "error reduction"]


def grid(*names, heads=("task", "share of the training set", "encoder and layers")):
    rows = [[*each, *FIGURES[k % 2]] for k, each in enumerate(names)]
    left = len(names[0])
    return Grid("title", [*heads[:left], *HEADS], rows, left, "A caption. " * 20, {(1, left)})


TWO = [("NER", "100 %", way) for way in ("no encoder", "books, backward only")]
TWO += [("SRL", "10 %", way) for way in ("no encoder", "books, backward only")]
ONE = [("NER", "100 %", "no encoder"), ("SRL", "10 %", "books, layers 0, 1 and 2")]
LONG = [("a" * 90,), ("漢" * 90,)]


def lines(shown, width, **options):
    console = Console(width=width, file=io.StringIO(), **options)
    console.print(Terminal(shown))
    return console.file.getvalue().split("\n")


@pytest.mark.parametrize("names", [TWO, ONE, LONG, [()]])
@pytest.mark.parametrize("width", [40, 60, 80, 120, 300])
def test_no_figure_is_cut(names, width):
    shown = grid(*names)
    found = lines(shown, width)
    text = "\n".join(found)
    for row in shown.rows:
        for figure in row[shown.left :]:
            assert text.count(figure) >= sum(figure in other for other in shown.rows)
    assert max(map(len, found)) <= width


@pytest.mark.parametrize("names", [TWO, ONE])
def test_a_row_stands_in_a_line_or_in_a_list(names):
    """In 100 columns the figures of a row share a line; in 50 each has its own, beside its head."""
    shown = [line for line in lines(grid(*names), 100) if "4.47" in line]
    assert shown
    assert all(figure in line for line in shown for figure in FIGURES[1])
    narrow = [" ".join(line.split()) for line in lines(grid(*names), 50)]
    pairs = zip(HEADS, FIGURES[1], strict=True)
    assert all(f"{head} {figure}" in narrow for head, figure in pairs)


def test_a_column_is_spared_first():
    shown = grid(*ONE)._replace(spare=("error reduction", "p (Holm)"))
    found = " ".join("\n".join(lines(shown, 80)).split())
    assert "14.93" not in found
    assert "<0.001*" in found
    assert "Left out of 80 columns: error reduction." in found
    assert "14.93" in "\n".join(lines(shown, 120))


def test_a_name_is_not_repeated():
    assert sum(line.startswith("NER   100 %") for line in lines(grid(*TWO), 200)) == 1


def test_what_is_bold_is_said_where_it_is_shown():
    shown = grid(*ONE)._replace(bold_is="the best of its row")
    assert "Bold" not in "\n".join(lines(shown, 120))
    found = lines(shown, 300, force_terminal=True, color_system="standard")
    assert "Bold: the best of its row." in " ".join("\n".join(found).split())
