"""The whole way: two systems trained, compared, and the comparison in every format."""

import json
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from elmo_bench.jobs.report import report
from elmo_bench.jobs.train import train

CONF = str(Path(__file__).parents[2] / "conf")


def reported(*overrides):
    with initialize_config_dir(CONF, version_base="1.3"):
        report(compose("config", ["job=report", *overrides]))


def test_trained_and_compared(tiny, tmp_path, capsys):
    runs = [tiny(*overrides) for overrides in (["elmo=none"], ["elmo=none", "seed=2"], [])]
    metrics = [train(cfg) for cfg in runs]
    outputs = [tmp_path / f"report.{suffix}" for suffix in ("html", "md", "tex", "csv", "json")]
    folders = ",".join(cfg.run_dir for cfg in runs)
    reported(f"runs=[{folders}]", "rows=task", "columns=elmo", "baseline=none", f"output=[{','.join(map(str, outputs))}]")
    assert all(path.stat().st_size for path in outputs)
    base, ours = json.loads(outputs[-1].read_text())["cells"]
    assert (base["runs"], base["baseline"], base["published"]) == (2, True, 0.9015)
    assert ours["difference"] == pytest.approx(metrics[2]["test/f1"] - (metrics[0]["test/f1"] + metrics[1]["test/f1"]) / 2)
    assert 0 < ours["p_holm"] == ours["p_examples"] <= 1
    assert ours["p_seeds"] is None
    assert ours["low"] <= ours["high"]
    assert "cell by cell" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("override", "error", "message"),
    [
        ("output=report.pdf", ValueError, r"output=report.pdf: the formats are FILE.html, .*FILE.json"),
        ("output=nowhere/report.html", FileNotFoundError, "output=nowhere/report.html: there is no such folder"),
        ("runs=nowhere", FileNotFoundError, "runs=nowhere: no result.json at or below it"),
    ],
)
def test_what_cannot_be(override, error, message):
    with pytest.raises(error, match=message):
        reported(override)
