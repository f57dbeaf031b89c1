"""What a report says of how it was made is what the runs say, and nothing is made up."""

import json
from dataclasses import replace

import pytest

from elmo_bench.report import report
from elmo_bench.report.methods import methods
from elmo_bench.report.provenance import commands, provenance
from elmo_bench.report.write import latex, markdown
from elmo_bench.runs import collect
from tests.report.made_comparison import made_comparison
from tests.runs.made_runs import a_run, commanded_run, write_run


def run(folder, encoder, seed):
    """As job=train leaves it: 300 training examples in 5 epochs of 2 seconds."""
    config = {
        "task": {"name": "ner", "monitor": "f1", "title": "NER", "monitor_title": "entity F1"},
        "data": {"name": "wikigold"},
        "encoder": {"name": encoder},
        "elmo": {"mix": "none" if encoder == "none" else "all"},
        "seed": seed,
    }
    write_run(
        folder,
        {"test/f1": 0.5},
        config,
        epochs=5,
        examples_per_second=150.0,
        seconds={"training": 10.0, "total": 1800.0},
        parameters={"trainable": 1000, "frozen": 0},
        device="cpu",
        inputs={"data.train": "a" * 64, "encoder.weights": "b" * 64},
        versions={"torch": "2.13.0"},
        commit="c" * 40,
        finished=f"2026-01-{seed:02d}T12:00:00+00:00",
        identity=f"{encoder}-{seed}",
    )


@pytest.fixture
def compared(tmp_path):
    for encoder in ("none", "books"):
        for seed in (1, 2, 3, 4, 5):
            run(tmp_path / f"{encoder}{seed}", encoder, seed)
    found = report(collect([tmp_path]), ["task"], ["encoder"], baseline=("none",))
    cells = [replace(cell, comparison=made_comparison(0.1, 0.05)) for cell in found.cells]
    return replace(found, cells=cells)


def test_where_the_figures_come_from(compared):
    rows = provenance([compared], "python run.py job=report").rows
    assert rows == [
        ["report", "python run.py job=report"],
        ["runs", "10"],
        ["finished", "2026-01-01 to 2026-01-05"],
        ["time of all runs", "5:00:00"],
        ["device", "cpu (10 runs)"],
        ["software", f"torch 2.13.0, commit {'c' * 10}"],
        ["sha256", f"wikigold: train {'a' * 12}"],
        ["sha256", f"encoder: weights {'b' * 12}"],
    ]
    assert methods([compared]).startswith(
        "We train models of NER (wikigold): 10 runs of 2 settings, with seeds 1, 2, 3, 4 and 5. "
        "Scores are test entity F1, means"
    )
    assert "tested by a two-sided t-test" in methods([compared])
    assert methods([compared]) in markdown([compared])
    assert r"\paragraph{Methods}" in latex([compared])


def test_an_evaluation_on_another_corpus(tmp_path):
    """Its model and its other files are of the corpus of training."""
    run(tmp_path / "1", "none", 1)
    content = json.loads((tmp_path / "1" / "result.json").read_text())
    content["config"] |= {"trained_on": {"name": "wikigold"}, "split": "test"}
    content["config"]["data"] = {"name": "wnut17"}
    content["inputs"] = {"data.train": "a" * 64, "data.test": "d" * 64}
    (tmp_path / "1" / "result.json").write_text(json.dumps(content | {"epochs": 0}))
    found = report(collect([tmp_path]), ["task"], ["data"])
    assert provenance([found]).rows[2:] == [
        ["time of all runs", "0:30:00"],
        ["device", "cpu (1 run)"],
        ["software", f"torch 2.13.0, commit {'c' * 10}"],
        ["sha256", f"wikigold: train {'a' * 12}"],
        ["sha256", f"wnut17: test {'d' * 12}"],
    ]
    assert "models of NER (wikigold, scored on wnut17): 1 run of" in methods([found])


def test_what_is_not_known_is_not_said(tmp_path):
    """Of job=evaluate: no hours, no sizes, no software; without a baseline no tests."""
    bare = {"task": "ner", "seed": 1, "metrics": {"test/f1": 0.5}}
    bare["config"] = {"task": {"name": "ner", "monitor": "f1"}, "seed": 1}
    (tmp_path / "result.json").write_text(json.dumps(bare))
    found = report(collect([tmp_path]), ["task"], ["task.monitor"])
    assert provenance([found]).rows == [["runs", "1"]]
    assert "tested" not in methods([found])


def test_commands(tmp_path):
    """A line for the seeds of a setting; what changes no figure and where files are is not said."""
    setting = ("task=ner", "'encoder.directions=[forward]'", "+vocab.vectors=/home/me/glove.gz")
    aside = ("outputs_dir=/home/me/out", "resume=true", "logger=csv", "hydra.sweep.dir=/tmp/x")
    runs = [
        commanded_run(tmp_path / "10", 10, *setting, *aside),
        commanded_run(tmp_path / "2", 2, *setting),
        commanded_run(tmp_path / "none", 1, "job=card", "out=mine", "task=ner", "encoder=none"),
        a_run(folder=tmp_path),  # came without its command
        replace(
            commanded_run(tmp_path / "tuned", 3, "sweep=tune", "budget=2", "elmo.l2=0.1"),
            config={"budget": 2, "tune": {"elmo.l2": "choice(0, 0.1)"}},
        ),
    ]
    for seed, name in ((1, "best.ckpt"), (2, "best.ckpt"), (3, "mine.ckpt")):
        checkpoint = f"checkpoint=/me/{seed}/{name}"
        runs.append(commanded_run(tmp_path / f"evaluated{seed}", seed, "job=evaluate", checkpoint))
    assert commands(runs) == [
        "python run.py -m task=ner 'encoder.directions=[forward]' +vocab.vectors=glove.gz seed=2,10",
        "python run.py task=ner encoder=none seed=1",
        "python run.py elmo.l2=0.1 seed=3",
        "python run.py job=evaluate checkpoint=best.ckpt",
        "python run.py job=evaluate checkpoint=mine.ckpt",
    ]
