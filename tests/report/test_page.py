"""The page is one well-formed file that needs nothing else, and shows what there is, in the right
places.
"""

import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from elmo_bench.report import report
from elmo_bench.report.cost import cost
from elmo_bench.report.mixes import weights
from elmo_bench.report.page import as_page
from elmo_bench.report.plots import style
from elmo_bench.report.write import OWN
from elmo_bench.report.writers import Grid, html_table
from elmo_bench.runs import collect
from tests.runs.made_runs import change, trained_run


def shown(folder, rows, columns, **settings):
    """The page's text, its parsed body, and the titles of its sections."""
    text = as_page([report(collect([folder]), rows, columns, **settings)])
    body = ElementTree.fromstring(text).find("body")
    heads = [part.find(level) for part in body.iter("section") for level in ("h2", "h3")]
    return text, body, [head.text for head in heads if head is not None]


@pytest.fixture
def undrawn(monkeypatch):
    """Figures cost more than all else on a page: for tests that do not look at them."""
    monkeypatch.setattr(style, "svg", lambda plots: "<svg><title>drawn</title></svg>")


@pytest.fixture
def sweep(tmp_path):
    for name, fraction, seed in itertools.product(("none", "mini"), (0.001, 0.1, 1.0), (1, 2)):
        figure = (0.2 if name == "none" else 0.4) + 0.2 * fraction + 0.01 * seed
        about = {"seed": seed, "name": name, "fraction": fraction}
        trained_run(tmp_path / f"{name}{fraction}{seed}", figure, **about)
    return tmp_path


def test_it_needs_nothing_but_itself(sweep):
    """Nothing is fetched and nothing runs, which its policy says to the browser, too."""
    text, body, _ = shown(sweep, ["task", "fraction"], ["encoder"], baseline=("none",))
    assert not re.search(r"<script|@import|url\((?!#)|src=|https?:", text)
    policy = re.search('http-equiv="Content-Security-Policy" content="(.*?)"', text)[1]
    assert policy.startswith("default-src 'none';")
    assert "script" not in policy
    addresses = {link.get("href") for link in body.iter("a")}
    anchors = {f"#{each.get('id')}" for each in body.iter() if each.get("id")}
    assert addresses <= anchors
    assert {f"#{section.get('id')}" for section in body.iter("section")} <= addresses
    assert "@media print" in text
    assert 'name="viewport"' in text
    figures = body.findall(".//figure[@class='table']")
    assert figures
    for figure in figures:
        scroll = figure.find("div")  # it is reached by keyboard, and has a name
        place = (scroll.get("class"), scroll.get("tabindex"), scroll.get("role"))
        assert place == ("scroll", "0", "region")
        assert figure.find("figcaption/b").text.lower() == scroll.get("aria-label").lower()
        assert figure.find("div/table").get("aria-label") == scroll.get("aria-label")
        assert {head.get("scope") for head in figure.iter("th")} >= {"col", "row"}
        assert len({len(row) for row in figure.iter("tr")}) <= 2  # a name may span several
    plots = body.findall(".//figure[@class='plot']")
    assert plots
    assert all(plot.find("figcaption/b").text for plot in plots)
    assert all(svg.find("title").text for svg in body.iter("svg"))


def test_a_table():
    """A name that repeats the row above is marked."""
    rows = [["NER", "top", "1"], ["NER", "all", "2"], ["SRL", "top", "3"]]
    grid = Grid("entity F1", ["task", "layers", ""], rows, 2, "Of <all> runs.", {(0, 2)})
    figure = ElementTree.fromstring(html_table(grid))
    said = "".join(figure.find("figcaption").itertext()).strip()
    assert said == "Entity F1. Of <all> runs."
    heads = figure.findall(".//tbody/tr/th[1]")
    names = [(head.text.strip(), head.get("class").split()) for head in heads]
    assert names == [("NER", []), ("NER", ["again"]), ("SRL", [])]
    assert figure.find(".//tbody/tr/td/b").text == "1"


@pytest.mark.usefixtures("undrawn")
def test_the_title(sweep):
    """It says what is compared on which tasks, unless it is given."""
    found = report(collect([sweep]), None, ["encoder", "fraction"])
    for given, title in ((None, "ner: encoder, share of the training set"), ("Do <b> help?",) * 2):
        text = as_page([found], given)
        assert re.match(OWN[".html"], text, re.DOTALL)  # it may be written over
        head = ElementTree.fromstring(text)
        assert head.find("body/header/h1").text == head.find("head/title").text == title


@pytest.mark.usefixtures("undrawn")
def test_sections_for_which_there_are_data(sweep, tmp_path):
    everything = ["Results", "Layers (the paper's Figure 2)"]
    everything += ["Sample efficiency (the paper's Figure 1)", "Learning curves", "Cost"]
    made = ["How this was made"]
    assert shown(sweep, ["fraction"], ["encoder"])[2] == [*everything, *made]
    trained_run(tmp_path / "alone" / "one", 0.5, name="none")
    (tmp_path / "alone" / "one" / "metrics.csv").unlink()
    assert shown(tmp_path / "alone", None, ["encoder"])[2] == ["Results", "Cost", *made]
    for number, (l2, dropout) in enumerate([(0, 0.5), (0.001, 0.5), (0, 0.1)]):
        trained_run(tmp_path / "mix" / str(number), 0.5, l2=l2, dropout=dropout)
    assert {"The penalty on the mix", "Dropout on ELMo's vectors"} <= {
        *shown(tmp_path / "mix", None, ["elmo.l2"])[2]
    }


@pytest.mark.usefixtures("undrawn")
def test_commands(sweep):
    """What was typed stands in the page's last table, as text."""
    hydra = sweep / "mini1.01" / ".hydra"
    hydra.mkdir()
    (hydra / "overrides.yaml").write_text("- task=ner\n- encoder=<i>\n- seed=1\n")
    found = report(collect([sweep]), ["fraction"], ["encoder"])
    body = ElementTree.fromstring(as_page([found], command="python run.py job=report"))
    rows = [[*map(str.strip, row.itertext())] for row in body.findall(".//table")[-1].iter("tr")]
    texts = [text for row in rows for text in row]
    assert "python run.py task=ner 'encoder=<i>' seed=1" in texts
    assert "python run.py job=report" in texts
    assert body.find(".//p[@class='lead']").text.startswith("12 runs of models")


def test_weights(tmp_path):
    """Means over seeds; a weight times its layer's norm is the mean of each run's product, and a run
    may have no norms.
    """
    for seed, norm in ((1, 10.0), (2, 20.0)):
        trained_run(tmp_path / str(seed), 0.5, seed=seed)
        norms = {"norms": [norm, 2 * norm, 3 * norm]}
        change(tmp_path / str(seed), lambda it, norms=norms: it["mix"]["input"].update(norms))
    trained_run(tmp_path / "earlier", 0.5, fraction=0.5)
    grid = weights(report(collect([tmp_path]), ["fraction"], ["encoder"]))
    layers = [f"layer {layer}" for layer in range(3)]
    assert grid.heads[2:] == [*layers, "γ", *(f"{layer} × its norm" for layer in layers)]
    means = ["0.200", "0.500", "0.300", "1.250"]
    products = ["3.000", "15.000", "13.500"]
    assert [row[2:] for row in grid.rows] == [[*means, "", "", ""], [*means, *products]]


@pytest.mark.usefixtures("undrawn")
def test_cost(tmp_path):
    """Means over runs, since a part of the corpus has its own words; an evaluation says nothing of
    the cost of training.
    """
    for seed in (1, 2, 3):
        trained_run(tmp_path / str(seed), 0.5, seed=seed)
    change(tmp_path / "2", lambda one: one["seconds"].update(encoder=7.0))
    change(tmp_path / "2", lambda one: one["parameters"].update(trainable=1500))
    evaluated = {"epochs": 0, "seconds": {"training": 0.0, "total": 1.0}}
    change(tmp_path / "3", lambda content: content.update(evaluated))
    grid = cost(report(collect([tmp_path]), ["task"], ["encoder"]))
    assert grid.rows == [["mini", "15", "20", "7", "3", "1,234", "1,250", "2,000", "cpu"]]
    assert "Cost" not in shown(tmp_path / "3", None, ["encoder"])[2]


@pytest.mark.usefixtures("undrawn")
def test_several_reports_are_chapters_of_one_page(sweep):
    """Each with its title, its own tables and anchors, and its captions named after it; what dev
    chose is trained and paid for in the chapter before.
    """
    runs = collect([sweep])
    parts = [
        report(runs, ["fraction"], ["encoder"], title="First"),
        replace(report(runs, ["fraction"], ["encoder"], title="Second & last"), chosen_among=2),
    ]
    body = ElementTree.fromstring(as_page(parts)).find("body")
    chapters = [head.text for head in body.findall("main/section/h2")]
    assert chapters == ["First", "Second & last", "How this was made"]
    anchors = [section.get("id") for section in body.iter("section")]
    assert len({*anchors}) == len(anchors)
    links = [link.get("href") for link in body.findall("header/nav//a")]
    assert links == [f"#{anchor}" for anchor in anchors]
    captions = [
        body.find(f".//section[@id='s{number}']/figure[@class='table']/figcaption/b").text
        for number in (1, 2)
    ]
    assert [caption.partition(":")[0] for caption in captions] == ["First", "Second & last"]
    titles = [head.text for head in body.iter("h3")]
    assert titles.count("Cost") == titles.count("Learning curves") == 1
