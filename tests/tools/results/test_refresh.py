"""RESULTS.md says what the raw results of its runs give."""

import gzip
import json
import re
import runpy
import sys
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
from blocks import refreshed
from refresh import comparable, main

from elmo_bench.files import alone
from elmo_bench.runs import collect
from tests.conftest import printed
from tests.report.made_probes import probes_content
from tests.runs.made_runs import scored_run, write_run

ROOT = Path(__file__).parents[3]
SETTINGS = """
tables:
  Layers: {rows: task, columns: elmo.mix, baseline: none, split: test, command: run it}
claims:
  It helps: {source: Table 1, ours: {elmo.mix: all}, theirs: {elmo.mix: none}}
"""


def block(title, table=""):
    return f"<!-- table: {title} -->\n{table}<!-- end -->\n"


def test_squad_with_its_own_dev_articles(tmp_path, monkeypatch, capsys):
    """No article of the training file is in both parts, and its other articles are in neither."""
    script, folder = f"{ROOT}/results/hold_out.py", tmp_path / "squad"
    monkeypatch.setattr(sys, "argv", [script, f"{tmp_path}"])
    folder.mkdir()
    articles = [
        {"paragraphs": [{"context": "Yes.", "qas": [{"id": f"q{number}"}]}]} for number in range(50)
    ]
    (folder / "train-v1.1.json").write_text(json.dumps({"data": articles[:43]}))
    with pytest.raises(SystemExit, match="must be SQuAD's training file"):
        runpy.run_path(script, run_name="__main__")
    (folder / "train-v1.1.json").unlink()
    whole = {"version": "1.1", "data": articles}
    (folder / "train-v1.1.json.gz").write_bytes(gzip.compress(json.dumps(whole).encode()))
    runpy.run_path(script, run_name="__main__")
    for name, part in (("train", articles[:38]), ("dev", articles[38:44])):
        written = json.loads((folder / f"results.{name}.json").read_text())
        assert written == {"version": "1.1", "data": part}
    assert "results.dev.json: 6 articles, 6 questions" in capsys.readouterr().out


@pytest.fixture
def own(tmp_path):
    """Settings for made-up runs, and a text with a block for each of their tables."""
    for mix, chance in (("none", 0.5), ("all", 0.8)):
        for seed in (1, 2, 3):
            right = np.random.default_rng(seed).random(100) < chance
            folder = tmp_path / "runs" / f"{mix}{seed}"
            name = "none" if mix == "none" else "mini"
            scored_run(folder, right.mean(), seed, right, encoder_name=name, elmo_mix=mix)
    (tmp_path / "R.md").write_text(f"{block('Layers')}prose\n{block('claims')}more prose\n")
    (tmp_path / "tables.yaml").write_text(SETTINGS)
    paths = {"runs": "runs", "cache_dir": "", "document": "R.md", "probes": "probes"}
    settings = [f"{key}={tmp_path}/{name}" for key, name in paths.items()]
    return [f"--settings={tmp_path}/tables.yaml", *settings]


def test_a_text_with_its_tables(own, tmp_path):
    """Written once, it is as it should be; a figure that somebody changes is found."""
    main([*own, f"pictures={{{tmp_path}/layers.svg: Layers}}"])
    path = tmp_path / "R.md"
    text = path.read_text()
    assert "| all layers | **80.67 ± 3.21 (3)** |" in text
    assert "\n\n6 runs, none failed. The command: `run it`\n<!-- end -->\nprose\n" in text
    assert "| It helps | Table 1 | better | 1 |\n" in text
    assert text.endswith("<!-- end -->\nmore prose\n")
    assert (tmp_path / "layers.svg").read_bytes().lstrip().startswith(b"<")
    main([*own, "--check", f"--output={tmp_path}/page.html"])
    assert (tmp_path / "page.html").exists()
    path.write_text(text.replace("80.67", "83.00", 1))
    with pytest.raises(ValueError, match=r"R.md\n.*\n.*\n-.*83.00.*\n\+.*80.67"):
        main([*own, "--check"])


def test_what_nobody_ran(own, tmp_path):
    """A row with a single column compares nothing, nor does a table without its baseline. A table
    may stand in another file, which is made if it is missing.
    """
    right = np.arange(100) < 90
    for number, mix in enumerate(("all", "top")):
        path = tmp_path / "runs" / f"srl{number}"
        scored_run(path, 0.9, 1, right, task_name="srl", task_title="SRL", elmo_mix=mix)
    snli = {"task_name": "snli", "task_title": "SNLI", "elmo_mix": "none"}
    scored_run(tmp_path / "runs" / "snli", 0.9, 1, right, **snli)
    main(
        [
            *own,
            "tables.Later={where: {elmo.mix: top}, show: means, command: later}",
            "tables.Half={baseline: uniform, show: means, command: half}",
            f"documents={{Later: {tmp_path}/other.md, Half: {tmp_path}/other.md}}",
        ]
    )
    text = (tmp_path / "R.md").read_text()
    assert "| SRL |  | 90.00 (1) | 90.00 (1) |" in text
    assert "| SNLI |" not in text
    tables = {each: f"Not run. The command: `{each.lower()}`\n" for each in ("Later", "Half")}
    other = "\n".join(f"## {title}\n\n{block(title, tables[title])}" for title in tables)
    assert (tmp_path / "other.md").read_text() == other


def test_a_baseline_without_the_settings_of_rows(tmp_path):
    """It serves all rows, as in reports."""
    for name, more in {"base": {"encoder_name": "none"}, "a": {"elmo_l2": 1}, "b": {}}.items():
        scored_run(tmp_path / name, 0.5, **more)
    table = {"rows": ["elmo.l2"], "columns": ["encoder"], "baseline": ("none",)}
    assert len(comparable(collect([tmp_path]), table)) == 3


def test_the_gains(own, tmp_path):
    """What runs do not say of their corpora stands beside them, and in the picture."""
    about = {"title": "CoNLL", "command": "data=conll2003", "train": "14,987 sentences"}
    corpora = tmp_path / "corpora.yaml"
    corpora.write_text(json.dumps({"conll2003": about | {"of": "all", "source": "nobody"}}))
    pictures = ", ".join(f"{tmp_path}/gains{kind}: Layers" for kind in (".svg", ".pdf"))
    more = [f"tables.Layers.corpora={corpora}", f"pictures={{{pictures}}}"]
    main([*own, *more, "captions=false"])
    text = (tmp_path / "R.md").read_text()
    assert re.search(
        r"\| CoNLL \| 14,987 sentences \(all\) \| \d+.\d+ ± \d.\d+ \| – \| \+\d+.\d+ \(.*\)"
        r" \| preliminary \| 3 \+ 3 \| data=conll2003 \|\n\nPublished: CoNLL: nobody\.",
        text,
    )
    assert "3 + 3 runs, 14,987 sentences (all)" in (tmp_path / "gains.svg").read_text()
    assert (tmp_path / "gains.pdf").read_bytes().startswith(b"%PDF-")
    corpora.write_text("{}")
    with pytest.raises(ValueError, match="corpora: the file does not have conll2003: add it"):
        main([*own, *more])


def test_documents_of_two_settings(own, tmp_path):
    """A document has the tables of both, but no title twice."""
    (tmp_path / "more.yaml").write_text(SETTINGS.partition("claims:")[0])
    both = [*own, f"--settings={tmp_path}/more.yaml"]
    with pytest.raises(ValueError, match=r"R.md: two tables have the title 'Layers': rename one"):
        main(both)
    (tmp_path / "more.yaml").write_text("tables: {Means: {columns: elmo.mix, command: run it}}")
    (tmp_path / "R.md").write_text(f"{block('Layers')}{block('claims')}{block('Means')}")
    main(both)
    assert "\nMeans: " in (tmp_path / "R.md").read_text()


def test_probes_that_are_kept(own, tmp_path):
    """They have a block, where there are any."""
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "mini.json").write_text(json.dumps(probes_content("mini")))
    path = tmp_path / "R.md"
    path.write_text(f"{path.read_text()}{block('probes')}")
    main(own)
    text = path.read_text()
    assert "| mini | 1 | 90.00 ± 0.00 | 15.00 ± 7.07 | 62.50 |\n" in text
    assert "\n\nmini, ewt: python run.py job=probe\n<!-- end -->" in text


def test_a_run_that_is_under_way_has_not_failed(own, tmp_path):
    write_run(tmp_path / "runs" / "begun", {}, identity="begun", inputs={})
    for ends, counted in ((False, "none"), (True, "1")):
        with nullcontext() if ends else alone(tmp_path / "runs" / "begun" / "run", ""):
            main(own)
        assert f"6 runs, {counted} failed." in (tmp_path / "R.md").read_text()


def test_a_document_of_ones_own(own, tmp_path):
    """The settings that docs/compare.md prints are enough."""
    (tmp_path / "paper.yaml").write_text(printed("compare.md")["paper.yaml"], encoding="utf-8")
    (tmp_path / "PAPER.md").write_text(block("Layers"))
    files = [f"runs={tmp_path}/runs", f"cache_dir={tmp_path}", f"document={tmp_path}/PAPER.md"]
    main([f"--settings={tmp_path}/paper.yaml", *files])
    assert "| all layers | **80.67 ± 3.21 (3)** |" in (tmp_path / "PAPER.md").read_text()


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("tables.Layers.show=[mean]", r"tables.Layers.show: unknown {'mean'}; use means, diff"),
        ("tables.Layers.command=null", r"tables.Layers.command is missing: give the command"),
        ("tables.claims={command: x}", r"tables.claims: this is the block of the claims"),
        ("pictures={x.docx: Layers}", r"x.docx: unknown ending; give FILE"),
        ("pictures={x.svg: Layer}", r"pictures: no such tables: \['Layer'\]"),
        ("documents={Layer: x.md}", r"documents: no such tables: \['Layer'\]"),
        ("claims.x={source: Table 1, ours: {}}", r"claims.x.theirs: Field required"),
        ("equal_within=-1", r"equal_within=-1: Input should be greater than 0"),
        ("equal_wihtin=1", r"equal_wihtin=1: Extra inputs are not permitted"),
    ],
)
def test_what_cannot_be(own, setting, message):
    """It is found before the runs are read."""
    with pytest.raises(ValueError, match=message):
        main([*own, "runs=nowhere", setting])


OLD = "old\nlines\n"
TEXT = f"# Mine\n\n{block('One', OLD)}prose | stays\n{block('Two: a part')}end\n"


def test_tables_go_into_their_blocks():
    tables = {"One": "a\n\nb", "Two: a part": "c"}
    text = refreshed(TEXT, tables, "x.md")
    assert text == TEXT.replace("old\nlines", "a\n\nb").replace("part -->", "part -->\nc")
    assert refreshed(text, tables, "x.md") == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TEXT.replace("One", "Oen"), r"x.md:3: unknown table 'Oen'; the tables are One, Two: a"),
        (TEXT.replace("Two: a part", "One"), r"x.md:8: there is another block 'One' above"),
        (TEXT.replace("lines\n<!-- end -->", ""), r"x.md:7: the block 'One' above has no <!-- end"),
        (TEXT.replace("-->\n<!-- end -->\nend", "-->"), r"x.md: the block 'Two: a part' has no"),
        (f"<!-- end -->\n{TEXT}", r"x.md:1: <!-- end --> without a preceding <!-- table: TITLE"),
        (TEXT.partition("prose")[0], r"x.md: no block <!-- table: Two: a part -->"),
    ],
)
def test_a_block_and_a_table_belong_together(text, message):
    with pytest.raises(ValueError, match=message):
        refreshed(text, {"One": "", "Two: a part": ""}, "x.md")
