"""The page in a real browser: what is laid out, at a phone's width and in the dark,
reached by keyboard, and read aloud.
"""

import html
import itertools
import json
import re
import shutil
import subprocess
from dataclasses import replace
from importlib import resources

import pytest

from elmo_bench.report import report
from elmo_bench.report.page import as_page
from elmo_bench.runs import collect
from tests.report.made_comparison import made_comparison
from tests.runs.made_runs import commanded_run, trained_run

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
]
OPTIONS = ("headless", "no-sandbox", "disable-gpu", "disable-dev-shm-usage", "hide-scrollbars")
OPTIONS += ("disable-background-networking", "virtual-time-budget=60000", "dump-dom")
PHONE, DESK = 375, 1280  # pixels; a window of headless chromium is wider, a frame in it need not be
# A frame takes its colours from the style of what embeds it: one start shows light and dark.
FRAME = '<iframe width="{}" style="color-scheme: {}" srcdoc="{}"></iframe>'
POLICY = re.compile("<meta http-equiv=.Content-Security-Policy.[^>]*>")
AXE = '<script src="axe.min.js"></script>'  # in place of the policy, which forbids all scripts
MEASURE = """<script>
onload = async () => {
  const measures = [];
  for (const frame of document.querySelectorAll("iframe")) {
    const page = frame.contentDocument, view = frame.contentWindow, root = page.documentElement;
    const all = (what) => [...page.querySelectorAll(what)];
    const found = (await view.axe.run()).violations;
    const tables = all("figure.table .scroll");
    measures.push({
      width: root.clientWidth,
      overflow: root.scrollWidth - root.clientWidth,
      plots: all("figure svg").filter((plot) => plot.checkVisibility()).map(
        (plot) => plot.getBoundingClientRect().height
      ),
      right: all("figcaption, p, dd").map((text) => text.getBoundingClientRect().right),
      focused: tables.map((table) => (table.focus(), page.activeElement === table)),
      broken: all("a[href^='#']").filter((a) => !page.querySelector(a.getAttribute("href"))).length,
      paper: view.getComputedStyle(page.body).backgroundColor,
      violations: found.map((one) => [one.id, one.help, one.nodes.map((node) => node.html)]),
    });
  }
  document.title = JSON.stringify(measures);
};
</script>"""


@pytest.fixture(scope="module")
def reported(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    for number, (name, fraction) in enumerate(itertools.product(("none", "mini"), (0.1, 1.0))):
        trained_run(folder / str(number), 0.2 + 0.1 * number, name=name, fraction=fraction)
        commanded_run(
            folder / str(number), 1, "task=ner", f"encoder={name}", f"fraction={fraction}"
        )
    plain = report(collect([folder]), ["fraction"], ["encoder"], baseline=("none",))
    cells = [
        cell
        if cell.column == ("none",)
        else replace(cell, comparison=made_comparison(0.1, 0.05, 0.01))
        for cell in plain.cells
    ]
    return replace(plain, cells=cells)


@pytest.fixture(scope="module")
def measured(reported, tmp_path_factory):
    """The page's measures on a phone and a desk, by width and colours."""
    folder = tmp_path_factory.mktemp("page")
    source = resources.files("axe_core_python") / "axe.min.js"
    (folder / "axe.min.js").write_bytes(source.read_bytes())
    whole = as_page([reported])
    frames = [*itertools.product((PHONE, DESK), ("light", "dark"))]
    page = html.escape(POLICY.sub(AXE, whole))
    text = "".join(FRAME.format(width, scheme, page) for width, scheme in frames)
    (folder / "frames.html").write_text(MEASURE + text, encoding="utf-8")
    options = [f"--{name}" for name in OPTIONS] + [f"--user-data-dir={folder}/profile"]
    options.append(f"file://{folder}/frames.html")
    shown = subprocess.run([CHROMIUM, *options], capture_output=True, text=True, timeout=120)
    if shown.returncode:  # a browser that is there and does not start is none
        pytest.skip(f"needs chromium: {CHROMIUM} does not start: {shown.stderr[-300:]}")
    measures = json.loads(html.unescape(re.search("<title>(.*?)</title>", shown.stdout)[1]))
    return dict(zip(frames, measures, strict=True))


def test_the_page(measured):
    """Nothing is cut or unreachable, and the rules of axe-core (contrast, names of regions, tables,
    plots) find nothing.
    """
    for (width, scheme), found in measured.items():
        assert found["width"] == width
        assert found["overflow"] <= 0  # what is wide scrolls by itself
        assert min(found["plots"], default=0) > 100
        assert max(found["right"]) <= width
        assert found["focused"]
        assert all(found["focused"])
        assert found["broken"] == 0
        dark = scheme == "dark"
        assert found["paper"] == ("rgb(22, 25, 29)" if dark else "rgb(255, 255, 255)")
        assert found["violations"] == [], (width, scheme)
