import io
import json

import pytest
from rich.console import Console

from elmo_bench.report import cells, collect, table


def result(folder, f1, seed=1, **choices):
    config = {
        "task": {"name": "ner", "monitor": "f1"},
        "data": {"name": "sample"},
        "elmo": {"name": "mini", "mix": "all"},
        "seed": seed,
    }
    for key, value in choices.items():
        group, _, name = key.partition("_")
        config[group][name] = value
    folder.mkdir(parents=True)
    content = {"task": "ner", "seed": seed, "metrics": {"test/f1": f1, "test/recall": f1 / 2}, "config": config}
    (folder / "result.json").write_text(json.dumps(content))


@pytest.fixture
def runs(tmp_path):
    for number, (mix, seed, f1) in enumerate(
        [("all", 1, 0.5), ("all", 2, 0.6), ("top", 1, 0.4), ("top", 2, 0.4), ([0, 1], 1, 0.3)]
    ):
        result(tmp_path / str(number), f1, seed, elmo_mix=mix)
    return tmp_path


def text(shown):
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(shown)
    return console.export_text()


def test_means_and_deviations_over_seeds(runs):
    group = cells(collect([runs]), ["task.name"], ["elmo.mix"], None)[("ner",)]
    assert group[("all",)].mean == pytest.approx(0.55)
    assert group[("all",)].deviation == pytest.approx(0.0707, abs=1e-4)
    assert group[("top",)].deviation == 0
    assert group[("[0,1]",)] == (0.3, None, 1)


def test_table(runs):
    shown = text(table(collect([runs]), None, ["elmo.mix"]))
    for expected in ("elmo.mix=all", "elmo.mix=top", "elmo.mix=[0,1]", "55.00 ± 7.07 (2)", "30.00 (1)"):
        assert expected in shown


def test_another_metric(runs):
    assert "27.50" in text(table(collect([runs]), None, ["elmo.mix"], "recall"))
    with pytest.raises(ValueError, match="metric=em: a run of ner has"):
        table(collect([runs]), None, ["elmo.mix"], "em")


def test_runs_that_differ_in_more_stand_apart(runs):
    result(runs / "other", 0.9, 1, elmo_name="none")
    assert "none" in text(table(collect([runs]), None, ["elmo.mix"]))
    with pytest.raises(ValueError, match=r"some runs in a cell differ in \['elmo.name'\]"):
        table(collect([runs]), ["task.name"], ["elmo.mix"])


def test_the_same_run_twice_counts_once(runs):
    result(runs / "again", 0.5, 1, elmo_mix="all")
    assert cells(collect([runs]), ["task.name"], ["elmo.mix"], None)[("ner",)][("all",)].runs == 2


def test_nothing_there(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"runs=.*no result.json"):
        collect([tmp_path])
    (tmp_path / "result.json").write_text("{")
    with pytest.raises(ValueError, match=r"result.json: not a result of elmo-bench"):
        collect([tmp_path])
