"""The page is one well-formed file that needs nothing else, and shows what there is, in the right
places.
"""

import csv
import io
import json
import re
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from elmo_bench.report import collect, page, picture, report
from elmo_bench.report.grid import Grid
from elmo_bench.report.guide import compared
from elmo_bench.report.page import behind, cost, table
from elmo_bench.report.plot import HEIGHT, WIDTH, Point, Series, chart


def run(
    folder, f1, *, seed=1, name="mini", l2=0.1, dropout=0.5, fraction=1.0, epochs=(0.1, 0.3, 0.2)
):
    """A finished run as job=train leaves it; its best epoch is measured once more, after the last."""
    elmo = {"name": name, "mix": "none" if name == "none" else "all", "l2": l2, "dropout": dropout}
    mix = (
        {}
        if name == "none"
        else {
            "elmo/input/s0": 0.2,
            "elmo/input/s1": 0.5,
            "elmo/input/s2": 0.3,
            "elmo/input/gamma": 1.25,
        }
    )
    content = {
        "task": "ner",
        "seed": seed,
        "metrics": {"test/f1": f1, "val/f1": max(epochs)},
        "mix": mix,
        "config": {
            "task": {"name": "ner", "monitor": "f1"},
            "elmo": elmo,
            "fraction": fraction,
            "seed": seed,
        },
        "seconds": {"training": 10.0 * seed, "total": 20.0},
        "epochs": len(epochs),
        "examples_per_second": 1234.5,
        "parameters": {"trainable": 1000, "frozen": 2000},
        "device": "cpu",
    }
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(content))
    rows = [f"{epoch},{value},\n{epoch},,0.5" for epoch, value in enumerate(epochs)]
    (folder / "metrics.csv").write_text(
        "\n".join(["epoch,val/f1,train/loss", *rows, f"{len(epochs)},{max(epochs)},", ",0.9,"])
    )


def shown(folder, rows, columns, **settings):
    """The page's text, its parsed body, and the titles of its sections."""
    text = page([report(collect([folder]), rows, columns, **settings)])
    body = ElementTree.fromstring(text).find("body")
    heads = [part.find(level) for part in body.iter("section") for level in ("h2", "h3")]
    return text, body, [head.text for head in heads if head is not None]


def sections(body):
    """Those below the tables, by their titles."""
    return {
        section.find("h3").text: section
        for section in body.iter("section")
        if section.find("h3") is not None
    }


def lines(svg):
    """Each line of a plot, as the corners that are drawn."""
    return [
        [tuple(map(float, corner.split(","))) for corner in line.get("points").split()]
        for line in svg.iter("polyline")
    ]


@pytest.fixture
def sweep(tmp_path):
    for name, low in (("none", 0.2), ("mini", 0.4)):
        for fraction in (0.001, 0.1, 1.0):
            for seed in (1, 2):
                run(
                    tmp_path / f"{name}{fraction}{seed}",
                    low + 0.2 * fraction + 0.01 * seed,
                    seed=seed,
                    name=name,
                    fraction=fraction,
                )
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
    assert {address for address in addresses if not address.startswith("data:")} <= anchors
    assert {f"#{section.get('id')}" for section in body.iter("section")} <= addresses
    assert "prefers-color-scheme: dark" in text
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
    assert all(svg.find("title").text for svg in body.iter("svg") if not svg.get("aria-hidden"))
    used, styled = (
        set(re.findall(r'class="(line\d)"', text)),
        set(re.findall(r"\.(line\d) {", text)),
    )
    assert used <= styled


def test_a_table_is_saved_as_csv(tmp_path):
    """What is shown, for a spreadsheet: no name is a formula, and a minus sign is one of numbers."""
    run(tmp_path / "none", 0.5, name="none")
    run(tmp_path / "ours", 0.4, name="=HYPERLINK(1)")
    _, body, _ = shown(tmp_path, ["task"], ["encoder"], baseline=("none",))
    links = [link for link in body.iter("a") if link.get("download")]
    assert len({link.get("download") for link in links}) == len(links)
    assert all(re.fullmatch(r"[a-z0-9-]+\.csv", link.get("download")) for link in links)
    head, _, content = links[0].get("href").partition(",")
    assert head == "data:text/csv;charset=utf-8"
    rows = [*csv.reader(io.StringIO(unquote(content).removeprefix("\ufeff")))]
    assert [len(row) for row in rows] == [len(rows[0])] * 3
    assert "-10.00" in rows[2]
    assert any(text.startswith("'=HYPERLINK") for text in rows[2])


def test_the_settings_behind_names():
    """A name that many rows begin with stands once; the config keys are on hover, and in a list."""
    rows = [["NER", "top", "1"], ["NER", "all", "2"], ["SRL", "top", "3"]]
    hover = {(-1, 1): "elmo.mix", (0, 1): "elmo.mix=top", (2, 1): "elmo.mix=top"}
    grid = Grid("entity F1", ["task", "layers", ""], rows, {(0, 2)}, 2, hover, "Of <all> runs.")
    figure = ElementTree.fromstring(table(grid))
    assert "".join(figure.find("figcaption").itertext()).startswith("Entity F1. Of <all> runs. CSV")
    heads = [(head.text, head.get("rowspan")) for head in figure.iter("th")]
    assert ("NER", "2") in heads
    assert ("SRL", None) in heads
    assert [row.get("class") for row in figure.iter("tr")] == [None, None, None, "group"]
    hints = [hint.get("title") for hint in figure.iter("abbr")]
    assert hints == ["elmo.mix", "elmo.mix=top", "elmo.mix=top"]
    terms = ElementTree.fromstring(behind([grid]))
    assert [[*each.itertext()] for each in terms.find("dl")] == [
        *(["layers"], ["elmo.mix"], ["top"], ["elmo.mix=top"]),
    ]


def test_the_title(sweep, tmp_path):
    """It says what is compared on which tasks, unless it is given; others are counted."""

    def title(*settings, **options):
        found = ElementTree.fromstring(page([report(collect([sweep]), *settings)], **options))
        assert found.find("body/header/h1").text == found.find("head/title").text
        return found.find("head/title").text

    assert title(None, ["encoder"]) == "ner: no encoder and mini"
    assert title(None, ["encoder"], title="Do books <help>?") == "Do books <help>?"
    runs = collect([sweep])
    against = report(runs, ["fraction"], ["encoder"], baseline=("none",))
    assert compared([against]) == "ner: mini against no encoder"
    many = report(runs, ["task"], ["encoder", "fraction"], baseline=("none", "1.0"))
    assert compared([many]) == "ner: 5 settings against no encoder, 100 % of training"


def test_sections_for_which_there_are_data(sweep, tmp_path):
    everything = [
        "Results",
        "Layer weights (the paper's Figure 2)",
        "Sample efficiency (the paper's Figure 1)",
    ]
    assert shown(sweep, ["fraction"], ["encoder"])[2] == [*everything, "Learning curves", "Cost"]
    run(tmp_path / "alone" / "one", 0.5, name="none")
    (tmp_path / "alone" / "one" / "metrics.csv").unlink()
    assert shown(tmp_path / "alone", None, ["encoder"])[2] == ["Results", "Cost"]
    for number, (l2, dropout) in enumerate([(0, 0.5), (0.001, 0.5), (0, 0.1)]):
        run(tmp_path / "mix" / str(number), 0.5, l2=l2, dropout=dropout)
    assert {"The penalty on the mix", "Dropout on ELMo's vectors"} <= {
        *shown(tmp_path / "mix", None, ["elmo.l2"])[2]
    }


def test_sample_efficiency(sweep):
    """Two lines on a logarithmic axis; the higher figure stands higher, and a table has the
    numbers.
    """
    _, body, _ = shown(sweep, ["fraction"], ["encoder"])
    section = sections(body)["Sample efficiency (the paper's Figure 1)"]
    none, mini = lines(section.find("figure/svg"))
    xs = [x for x, _ in mini]
    assert (xs[2] - xs[1]) / (xs[1] - xs[0]) == pytest.approx(1 / 2, abs=0.01)
    assert all(ours[1] < theirs[1] for ours, theirs in zip(mini, none, strict=True))
    assert [cell.text for cell in section.findall(".//tbody/tr[2]/td")] == [
        "41.52 ± 0.71 (2)",
        "43.50 ± 0.71 (2)",
        "61.50 ± 0.71 (2)",
    ]


def test_the_overview_is_drawn(tmp_path):
    """A mark for each cell, the rows from left to right, a row's columns side by side, the higher
    figure higher.
    """
    for number, (l2, name, f1) in enumerate(
        [(0, "books", 0.2), (0, "mini", 0.4), (1, "books", 0.3), (1, "mini", 0.1)]
    ):
        run(tmp_path / str(number), f1, name=name, l2=l2)
    _, body, _ = shown(tmp_path, ["elmo.l2"], ["encoder"], baseline=("books",))
    books, mini = (
        [(float(c.get("cx")), float(c.get("cy"))) for c in g.iter("circle")]
        for g in body.find("main/section/figure/svg").iter("g")
    )
    assert books[0][0] < mini[0][0] < books[1][0] < mini[1][0]
    assert mini[0][1] < books[1][1] < books[0][1] < mini[1][1]


def test_a_picture_for_a_document(sweep):
    """The same plots with their titles and legends, nothing outside the frame, nothing from
    elsewhere.
    """
    runs = collect([sweep])
    parts = [
        report(runs, ["fraction"], ["encoder"], title=title)
        for title in ("First", "Second & last", "Third")
    ]
    text = picture(parts)
    svg = ElementTree.fromstring(text)
    assert not re.search(r"<script|@import|url\(|href|https?:(?!//www.w3.org/2000/svg)", text)
    width, height = map(float, svg.get("viewBox").split()[2:])
    places = [
        tuple(map(float, re.findall(r"\d+", group.get("transform"))))
        for group in svg
        if group.get("transform")
    ]
    assert len(places) == len({*places}) == 3
    assert all(x + WIDTH <= width and y + HEIGHT + 30 <= height for x, y in places)
    texts = [text.text for text in svg.iter("{http://www.w3.org/2000/svg}text")]
    assert {"First", "Second & last", "Third", "encoder=mini", "encoder=none"} <= {*texts}
    with pytest.raises(
        ValueError,
        match=r"output=FILE.svg: a picture has a single config key along its x axis: rows=task",
    ):
        picture([report(runs, ["task", "elmo.mix"], ["encoder", "fraction"])])


def test_weights_and_cost(sweep):
    _, body, _ = shown(sweep, ["fraction"], ["encoder"])
    found = sections(body)
    weights = list(found["Layer weights (the paper's Figure 2)"].find(".//tbody/tr").iter("td"))
    assert [cell.text for cell in weights] == ["0.200", "0.500", "0.300", "1.250"]
    assert [cell.get("style") for cell in weights] == ["--s:0.200", "--s:0.500", "--s:0.300", None]
    assert [cell.text for cell in found["Cost"].find(".//tbody/tr").iter("td")] == [
        *("15.0", "20.0", "3.0", "1,234.5", "1,000", "2,000", "cpu"),
    ]


def test_learning_curves(sweep):
    """A line for each run, a point for each epoch, and not the measurement after the last."""
    _, body, _ = shown(sweep, ["fraction"], ["encoder"])
    section = sections(body)["Learning curves"]
    drawn = [lines(svg) for svg in section.iter("svg") if not svg.get("aria-hidden")]
    assert [len(plot) for plot in drawn] == [4, 4, 4]
    heights = [y for _, y in drawn[0][0]]
    assert len(heights) == 3
    assert min(heights) == heights[1]


def test_a_chart_stays_in_its_frame():
    """Whatever the numbers: all the same, a single point, far apart, with bars."""
    for values in ([0.0], [5.0, 5.0], [-3.0, 0.001, 9e5], [1e-9, 2e-9]):
        series = [Series("a", [[Point(float(x), y, abs(y) / 10) for x, y in enumerate(values)]])]
        svg = ElementTree.fromstring(
            chart(series, x="x", y="y", marks=[(float(x), str(x)) for x in range(len(values))])
        )
        assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for line in lines(svg) for x, y in line)
        heights = [
            float(end)
            for bar in svg.findall("g/path")
            for end in re.findall(r"[\d.]+", bar.get("d"))[1:]
        ]
        assert all(0 <= height <= HEIGHT for height in heights)
        assert 2 <= len(svg.findall("path")) <= 7


def test_names_are_escaped(tmp_path):
    run(tmp_path / "a", 0.5, name="<b>&")
    text, _, _ = shown(tmp_path, ["task"], ["encoder"])
    assert "&lt;b&gt;&amp;" in text
    assert "<b>&" not in text


def test_several_reports_are_chapters_of_one_page(sweep):
    """Each with its title, its own tables and anchors, and its captions named after it."""
    runs = collect([sweep])
    parts = [
        report(runs, ["fraction"], ["encoder"], title="First"),
        report(runs, ["fraction"], ["encoder"], title="Second & last"),
    ]
    body = ElementTree.fromstring(page(parts)).find("body")
    assert [head.text for head in body.findall("main/section/h2")] == ["First", "Second & last"]
    anchors = [section.get("id") for section in body.iter("section")]
    assert len({*anchors}) == len(anchors)
    links = [link.get("href") for link in body.findall("header/nav//a")]
    assert links == [f"#{anchor}" for anchor in anchors]
    captions = [
        body.find(f".//section[@id='s{number}']/figure/figcaption/b").text for number in (0, 1)
    ]
    assert [caption.partition(":")[0] for caption in captions] == ["First", "Second & last"]


def test_names_with_markup_and_control_characters(tmp_path):
    """Page and picture stay well-formed, and show them."""
    name = "a\n\x08\x1b[0m <script>alert('1')</script> & \ud800"
    for number, other in enumerate(("plain", name)):
        for l2 in (0, 1):
            run(tmp_path / f"{number}{l2}", 0.5, name=other, l2=l2)
    found = report(collect([tmp_path]), ["elmo.l2"], ["encoder"], title=name)
    for whole in (page([found]), picture([found])):
        assert "<script" not in whole
        texts = "".join(ElementTree.fromstring(whole.encode()).itertext())
        assert r"a\n\x08\x1b[0m <script>alert('1')</script> & \ud800" in texts


def test_an_evaluation_says_nothing_of_the_cost_of_training(tmp_path):
    run(tmp_path / "1", 0.5)
    run(tmp_path / "2", 0.6, seed=2)
    evaluated = json.loads((tmp_path / "2" / "result.json").read_text())
    evaluated |= {"epochs": 0, "seconds": {"training": 0.0, "total": 1.0}}
    (tmp_path / "2" / "result.json").write_text(json.dumps(evaluated))
    assert (
        cost(report(collect([tmp_path]), None, ["encoder"])).rows
        == cost(report(collect([tmp_path / "1"]), None, ["encoder"])).rows
    )
    assert "Cost" not in shown(tmp_path / "2", None, ["encoder"])[2]


def test_weights_times_norms(tmp_path):
    """The mean over seeds of each run's product; a run of an earlier version has no norms."""
    for seed, norm in ((1, 10.0), (2, 20.0)):
        run(tmp_path / str(seed), 0.5, seed=seed)
        path = tmp_path / str(seed) / "result.json"
        content = json.loads(path.read_text())
        content["mix"] |= {f"elmo/input/norm{layer}": norm * (layer + 1) for layer in range(3)}
        path.write_text(json.dumps(content))
    run(tmp_path / "earlier", 0.5, fraction=0.5)
    _, body, _ = shown(tmp_path, ["fraction"], ["encoder"])
    section = sections(body)["Layer weights (the paper's Figure 2)"]
    assert [head.text for head in section.iter("th") if head.text.startswith("layer")] == [
        *("layer 0", "layer 1", "layer 2"),
        *("layer 0 × its norm", "layer 1 × its norm", "layer 2 × its norm"),
    ]
    rows = [[cell.text or "" for cell in row.iter("td")] for row in section.findall(".//tbody/tr")]
    shares = ["0.200", "0.500", "0.300", "1.250"]
    assert sorted(rows) == [[*shares, "", "", ""], [*shares, "3.000", "15.000", "13.500"]]
    assert not [cell for cell in section.iter("td") if cell.get("style") == "--s:3.000"]
