"""RESULTS.md says what the raw results of its runs give."""

import gzip
import json
import re
import runpy
import sys
from pathlib import Path

import numpy as np
import pytest
from hydra import compose, initialize_config_dir

from elmo_bench.jobs.results import results
from tests.report.test_probes import content
from tests.report.test_report import result

ROOT = Path(__file__).parents[2]
TABLE = "+tables={Layers:{rows:task,columns:elmo.mix,baseline:none,command:'run it',where:null}}"
CLAIM = "+claims={It helps:{source:Table 1,ours:{elmo.mix:all},theirs:{elmo.mix:none}}}"


def resulting(*overrides):
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        results(compose("config", ["job=results", *overrides]))


def test_results_are_those_of_the_runs(tmp_path):
    """The repository's own."""
    if not [*(ROOT / "results").glob("*.tar.xz")]:
        pytest.skip("results/ has no archives of runs yet")
    there = [f"runs={ROOT}/results", f"document={ROOT}/RESULTS.md", f"cache_dir={tmp_path}"]
    there.append(f"probes={ROOT}/results/probes")
    resulting(*there, "check=true", "output=null", "pictures=null")


def test_squad_with_its_own_dev_articles(tmp_path, monkeypatch, capsys):
    """No article of the training file is in both parts, and its other articles are in neither."""
    script = f"{ROOT}/results/hold_out.py"
    monkeypatch.setattr(sys, "argv", [script, f"{tmp_path}"])
    with pytest.raises(SystemExit, match="none of train-v1"):
        runpy.run_path(script, run_name="__main__")
    ids = [f"q{number}" for number in range(50)]
    articles = [{"paragraphs": [{"context": "Yes.", "qas": [{"id": name}]}]} for name in ids]
    whole = {"version": "1.1", "data": articles}
    (tmp_path / "squad").mkdir()
    (tmp_path / "squad/train-v1.1.json").write_text(json.dumps({"data": articles[:43]}))
    with pytest.raises(SystemExit, match="must be SQuAD's training file"):
        runpy.run_path(script, run_name="__main__")
    (tmp_path / "squad/train-v1.1.json").unlink()
    (tmp_path / "squad/train-v1.1.json.gz").write_bytes(gzip.compress(json.dumps(whole).encode()))
    runpy.run_path(script, run_name="__main__")
    for name, part in (("train", articles[:38]), ("dev", articles[38:44])):
        written = json.loads((tmp_path / f"squad/results.{name}.json").read_text())
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
            result(folder, right.mean(), seed, right, elmo_name=name, elmo_mix=mix)
    text = "# Mine\n\n<!-- table: Layers -->\n<!-- end -->\nprose\n"
    (tmp_path / "R.md").write_text(f"{text}<!-- table: claims -->\n<!-- end -->\nmore prose\n")
    return [
        *("~tables", TABLE, "usual=null", "~claims", CLAIM, "pictures=null"),
        *("rows=null", "equal_within=null"),
        *(f"runs={tmp_path}/runs", f"cache_dir={tmp_path}", f"document={tmp_path}/R.md"),
        *(f"output={tmp_path}/page.html", f"probes={tmp_path}/probes"),
    ]


def test_a_text_with_its_tables(own, tmp_path):
    """Written once, it is as it should be; a figure that somebody changes is found."""
    resulting(*own, f"pictures={{{tmp_path}/layers.svg:Layers}}")
    path = tmp_path / "R.md"
    text = path.read_text()
    assert "| all layers | **80.67 ± 3.21 (3)** |" in text
    assert "\n\n6 runs, none failed. The command: `run it`\n<!-- end -->\nprose\n" in text
    assert "| It helps | Table 1 | better | 1 |\n" in text
    assert text.endswith("<!-- end -->\nmore prose\n")
    assert 'id="claims"' in (tmp_path / "page.html").read_text()
    assert (tmp_path / "layers.svg").read_bytes().startswith(b"<svg")
    (tmp_path / "page.html").unlink()
    resulting(*own, "check=true")
    assert (tmp_path / "page.html").exists()
    path.write_text(text.replace("80.67", "83.00", 1))
    with pytest.raises(ValueError, match=r"R.md:\d+: Layers: not what the runs give\n- .*83.00"):
        resulting(*own, "check=true")


def test_a_table_in_another_file(own, tmp_path):
    """It is written and checked there; the document has no block for it."""
    (tmp_path / "R.md").write_text("<!-- table: claims -->\n<!-- end -->\n")
    (tmp_path / "other.md").write_text("before\n<!-- table: Layers -->\n<!-- end -->\n")
    own = [*own, "+tables.Layers.document=other.md", "output=null"]
    resulting(*own)
    assert "Layers" not in (tmp_path / "R.md").read_text()
    text = (tmp_path / "other.md").read_text()
    assert "| all layers | **80.67 ± 3.21 (3)** |" in text
    resulting(*own, "check=true")
    (tmp_path / "other.md").write_text(text.replace("80.67", "83.00", 1))
    with pytest.raises(ValueError, match=r"other.md:\d+: Layers: not what the runs give"):
        resulting(*own, "check=true")


def test_what_nobody_ran_is_said(own, tmp_path):
    """Of a table, a cell, and a corpus. A row with a single column compares nothing, nor does a
    table without its baseline.
    """
    right = np.arange(100) < 90
    for number, mix in enumerate(("all", "top")):
        path = tmp_path / "runs" / f"srl{number}"
        result(path, 0.9, 1, right, task_name="srl", elmo_mix=mix)
    result(tmp_path / "runs" / "snli", 0.9, 1, right, task_name="snli", elmo_mix="none")
    more = "tables.Later={where:{elmo.mix:top},show:means,command:later}"
    path = tmp_path / "R.md"
    path.write_text(f"{path.read_text()}<!-- table: Later -->\n<!-- end -->\n")
    half = "tables.Half={columns:elmo.mix,baseline:uniform,show:means,command:half}"
    path.write_text(f"{path.read_text()}<!-- table: Half -->\n<!-- end -->\n")
    usual = "usual={seed:{conll2003:1,ontonotes5:1,snli:1,sst:1}}"
    resulting(*own, usual, f"+{more}", f"+{half}", "output=null")
    assert "<!-- table: Half -->\nNot run. The command: `half`\n<!-- end -->" in path.read_text()
    assert "| SRL | no run | 90.00 (1) | 90.00 (1) |" in path.read_text()
    assert "| SNLI |" not in path.read_text()
    assert "none failed. No rows: snli, sst. The command: `run it`" in path.read_text()
    assert "<!-- table: Later -->\nNot run. The command: `later`\n<!-- end -->" in path.read_text()


def test_a_corpus_without_a_value_is_said(own, tmp_path, caplog):
    """It has no runs, also where the setting is null in them."""
    result(tmp_path / "runs" / "srl", 0.9, 1, task_name="srl", elmo_mix="all", elmo_lr=None)
    for number in (1, 2, 3):
        path = tmp_path / "runs" / f"all{number}" / "result.json"
        content = json.loads(path.read_text())
        content["config"]["elmo"]["lr"] = 2
        path.write_text(json.dumps(content))
    resulting(*own, "usual={elmo.lr:{conll2003:2}}", "output=null")
    assert [message for message in caplog.messages if "no value" in message] == [
        "Layers: elmo.lr has no value for ontonotes5, so the table has no runs of it"
    ]
    assert "| SRL |" not in (tmp_path / "R.md").read_text()


def test_probes_that_are_kept(own, tmp_path):
    """They have a block, where there are any."""
    (tmp_path / "probes").mkdir()
    (tmp_path / "probes" / "mini.json").write_text(json.dumps(content("mini")))
    path = tmp_path / "R.md"
    path.write_text(f"{path.read_text()}<!-- table: probes -->\n<!-- end -->\n")
    resulting(*own, "output=null")
    text = path.read_text()
    assert "| mini | 1 | 90.00 ± 0.00 | 15.00 ± 7.07 | 62.50 |\n" in text
    assert "\n\nmini, ewt: python run.py job=probe\n<!-- end -->" in text


def test_a_document_of_ones_own(own, tmp_path):
    """The settings that docs/sweeps.md prints are enough."""
    page = (ROOT / "docs" / "sweeps.md").read_text(encoding="utf-8")
    (printed,) = re.findall(
        r"^```yaml file=mine/job/our_tables.yaml\n(.*?)^```$", page, re.M | re.S
    )
    (tmp_path / "mine" / "job").mkdir(parents=True)
    (tmp_path / "mine" / "job" / "our_tables.yaml").write_text(printed, encoding="utf-8")
    (tmp_path / "PAPER.md").write_text("<!-- table: Layers -->\n<!-- end -->\n")
    files = [f"runs={tmp_path}/runs", f"cache_dir={tmp_path}", f"document={tmp_path}/PAPER.md"]
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        search = f"hydra.searchpath=[file://{tmp_path}/mine]"
        results(compose("config", [search, "job=our_tables", *files]))
    assert "| all layers | **80.67 ± 3.21 (3)** |" in (tmp_path / "PAPER.md").read_text()


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("tables.Layers.show=[mean]", r"tables.Layers.show: unknown mean; it may have means, diff"),
        (
            "tables.Layers.command=null",
            r"tables.Layers.command is missing: give the command that repeats its runs",
        ),
        ("tables.claims={command:x}", r"tables.claims: this is the block of the claims"),
        ("pictures={x.png:Layers}", r"pictures.x.png=Layers, but it must be FILE.svg or FILE.pdf"),
        ("pictures={x.svg:Layer}", r"pictures.x.svg=Layer, but it must be FILE.svg or FILE.pdf"),
    ],
)
def test_what_cannot_be(own, override, message):
    sign = "+" if override.startswith(("tables.Layers.show", "tables.claims")) else ""
    with pytest.raises(ValueError, match=message):
        resulting(*own, sign + override)


def test_a_bad_claim_is_found_before_the_runs_are_read(own, tmp_path):
    with pytest.raises(
        ValueError, match=r"claims\.x\.theirs is missing: give the settings of runs"
    ):
        resulting(*own, f"runs={tmp_path}/nowhere", "+claims.x={source:Table 1,ours:{}}")
