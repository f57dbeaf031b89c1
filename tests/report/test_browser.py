"""The page and the picture in a real browser: what is laid out, at a phone's width and in the dark,
and reached by keyboard.
"""

import json
import re
import shutil
import subprocess
from html import escape

import pytest

from elmo_bench.report import page, picture, report
from elmo_bench.runs import collect
from tests.report.test_page import run

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine"),
]
MEASURE = """<script>
const all = (what) => [...document.querySelectorAll(what)];
parent.document.title = JSON.stringify({
  width: document.documentElement.clientWidth,
  overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  plots: all("figure > svg").map((plot) => plot.getBoundingClientRect().height),
  captions: all("figcaption").map((caption) => caption.getBoundingClientRect().right),
  focused: all(".scroll").map((table) => (table.focus(), document.activeElement === table)),
  broken: all("nav a").filter((link) => !document.querySelector(link.getAttribute("href"))).length,
  paper: getComputedStyle(document.body).backgroundColor,
});
</script></body>"""
PHONE = 375  # pixels; a window of headless chromium is wider, a frame in it need not be


@pytest.fixture
def reported(tmp_path):
    for number, (name, fraction) in enumerate(
        [("none", 0.1), ("none", 1.0), ("mini", 0.1), ("mini", 1.0)]
    ):
        run(tmp_path / "runs" / str(number), 0.2 + 0.1 * number, name=name, fraction=fraction)
    return report(collect([tmp_path / "runs"]), ["fraction"], ["encoder"], baseline=("none",))


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    """What it prints, for some arguments; a browser that is there and does not start is none."""
    folder = tmp_path_factory.mktemp("chromium")

    def call(*arguments):
        options = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
        ]
        options += [
            "--disable-background-networking",
            "--disable-sync",
            f"--user-data-dir={folder}/profile",
        ]
        return subprocess.run(
            [CHROMIUM, *options, *arguments], capture_output=True, text=True, timeout=120
        )

    (folder / "tiny.html").write_text("<p>It starts.</p>")
    tried = call("--dump-dom", f"file://{folder}/tiny.html")
    if "It starts." not in tried.stdout:
        pytest.skip(f"{CHROMIUM} does not start: {tried.stderr[-300:]}")
    return call


@pytest.fixture
def measured(reported, chromium, tmp_path):
    """The page's measures on a phone, with some options of the browser."""

    def measure(*options):
        inner = page([reported]).replace("</body>", MEASURE)
        (tmp_path / "phone.html").write_text(
            f'<iframe width="{PHONE}" srcdoc="{escape(inner)}"></iframe>', encoding="utf-8"
        )
        found = chromium("--dump-dom", *options, f"file://{tmp_path}/phone.html")
        return json.loads(re.search("<title>(.*?)</title>", found.stdout)[1])

    return measure


def test_the_page(measured):
    found = measured()
    assert found["width"] == PHONE
    assert found["overflow"] <= 0  # what is wide scrolls by itself
    assert found["plots"]
    assert min(found["plots"]) > 100
    assert max(found["captions"]) <= PHONE
    assert found["focused"]
    assert all(found["focused"])
    assert found["broken"] == 0


def test_the_page_in_the_dark(measured):
    assert measured("--blink-settings=preferredColorScheme=1")["paper"] == "rgb(255, 255, 255)"
    assert measured("--blink-settings=preferredColorScheme=0")["paper"] == "rgb(22, 25, 29)"


def test_the_picture(reported, chromium, tmp_path):
    (tmp_path / "picture.svg").write_text(picture([reported]), encoding="utf-8")
    chromium(f"--screenshot={tmp_path}/picture.png", f"file://{tmp_path}/picture.svg")
    assert (tmp_path / "picture.png").stat().st_size > 5000  # one colour all over takes less
