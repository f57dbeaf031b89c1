"""What a paper would say of its experiments is what the runs say, and nothing is made up."""

import json
from dataclasses import replace

import numpy as np
import pytest

from elmo_bench.report import answers, as_json, collect, latex, markdown, report
from elmo_bench.report.methods import Origin, checklist, methods, provenance


def run(folder, encoder, seed, mix="all", **more):
    """As job=train leaves it: 300 training examples in 5 epochs of 2 seconds."""
    task = {"name": "ner", "monitor": "f1", "title": "NER", "monitor_title": "entity F1"}
    config = {
        "task": task,
        "data": {"name": "wikigold", "origin": "WikiGold's own page."},
        "encoder": {"name": encoder, **({} if encoder == "none" else {"_target_": "x.load"})},
        "elmo": {"mix": "none" if encoder == "none" else mix, "finetune": False},
        "fit": {"max_epochs": 20, "patience": 4},
        "seed": seed,
    }
    rng = np.random.default_rng([seed, len(encoder)])
    right = rng.random(50) < (0.4 if encoder == "none" else 0.8)
    content = {
        "task": "ner",
        "seed": seed,
        "metrics": {"test/f1": right.mean(), "val/f1": 0.5 + 0.1 * (mix == "top")},
        "config": config,
        "epochs": 5,
        "examples_per_second": 150.0,
        "seconds": {"training": 10.0, "total": 1800.0},
        "parameters": {"trainable": 1000 + len(encoder), "frozen": 0},
        "device": "cpu",
        "inputs": {"data.train": "a" * 64, "encoder.weights": "b" * 64},
        "versions": {"torch": "2.13.0"},
        "commit": "c" * 40,
        "finished": f"2026-01-{seed:02d}T12:00:00+00:00",
        "identity": f"{encoder}-{mix}-{seed}",
    }
    (folder / "counts").mkdir(parents=True)
    (folder / "result.json").write_text(json.dumps(content | more))
    rows = np.stack([right, np.ones_like(right)] * 2, 1)[:, None].astype(float)
    np.savez(
        folder / "counts" / "test.npz",
        sentences=np.arange(50, dtype=np.uint64),
        groups=np.arange(50),
        f1=rows,
    )


@pytest.fixture
def compared(tmp_path):
    for encoder in ("none", "books"):
        for seed in (1, 2, 3, 4, 5):
            run(tmp_path / f"{encoder}{seed}", encoder, seed)
    return report(collect([tmp_path]), ["task"], ["encoder"], baseline=("none",))


def test_the_checklist(compared):
    found = dict(checklist([compared], Origin(failed=0)).rows)
    test = compared.cells[1].comparison.test
    expected = {
        "Which runs are behind the figures?": "10 runs, 5 of each of 2 settings, with the seeds "
        "1, 2, 3, 4 and 5",
        "Which metrics, on which split?": "test entity F1 of NER",
        "Are there figures on dev for each on test?": "of 10 of 10 runs, in the report's CSV and JSON",
        "How large are the splits?": "NER (wikigold) has 300 for training and 50 for test",
        "Where are the data from?": "wikigold: WikiGold's own page.",
        "Which encoders?": f"books (sha256 {'b' * 12}, frozen)",
        "How many parameters do models have?": "1,004 to 1,005 trained parameters",
        "What was searched, in which bounds?": "among these runs nothing beside what "
        "the tables compare; add what you searched elsewhere",
        "How was chosen among it?": "among these runs nothing was chosen: all settings are compared "
        "on test; add what you chose elsewhere",
        "Which epoch is measured?": "the epoch that is best on dev (training ends after 20 epochs, "
        "or after 4 without a better one)",
        "Which differences could the design find?": "a true difference of "
        f"{100 * test.detectable:.2f} points",
        "On which machines?": "cpu (10 runs)",
        "How long did runs take?": "5 hours of machine time together, 30 minutes each on average",
        "With which software?": "torch 2.13.0, commit cccccccccc",
        "How many runs failed?": "none",
    }
    assert {question: found[question] for question in expected} == expected
    assert "Holm" not in found["How were differences tested?"]  # a single comparison
    assert dict(checklist([compared]).rows)["How many runs failed?"] == "not known"


def test_what_was_searched_and_chosen_on_dev(tmp_path):
    for mix in ("all", "top"):
        for seed in (1, 2):
            run(tmp_path / f"{mix}{seed}", "books", seed, mix)
            run(tmp_path / f"none{mix}{seed}", "none", seed)
    reports = answers(
        collect([tmp_path]), ["task"], ["encoder", "elmo.mix"], baseline=("none",) * 2
    )
    found = dict(checklist(reports).rows)
    assert found["What was searched, in which bounds?"] == "layers in {top layer, all layers}"
    assert found["How was chosen among it?"].startswith(
        "beside the baseline, of up to 2 settings the best on dev"
    )
    assert "layers in {top layer, all layers}" in methods(reports)


def test_the_share_of_the_training_set_is_said(tmp_path):
    for number, share in enumerate((0.1, 1.0)):
        config = {"task": {"name": "ner", "monitor": "f1"}, "fraction": share}
        config |= {"data": {"name": "wikigold"}, "encoder": {"name": "static", "_target_": "x"}}
        config |= {"elmo": {"mix": "all", "finetune": False}}
        config |= {"fit": {"max_epochs": 1, "patience": 1}}
        more = {"config": config, "examples_per_second": 150.0 * share}
        more["inputs"] = {"encoder.vectors": "d" * 64}
        run(tmp_path / str(number), "static", number + 1, **more)
    runs = collect([tmp_path])
    (part,) = (each for each in runs if each.seed == 1)
    text = methods([report([part], ["task"], ["encoder"])])
    assert "has 30 (10 % of the training set) for training" in text
    assert "training ends after 1 epoch)" in text
    found = checklist([report(runs, ["fraction"], ["encoder"])])
    assert (
        "ner (wikigold) has 30 (10 % of the training set) and 300 (100 % of the training set) for "
        "training and 50 for test" in dict(found.rows)["How large are the splits?"]
    )
    assert dict(found.rows)["Which encoders?"] == f"static (sha256 {'d' * 12}, frozen)"


def test_where_the_figures_come_from(compared):
    rows = provenance([compared], Origin("python run.py job=report")).rows
    assert ["report", "python run.py job=report"] in rows
    assert ["trained", "2026-01-01 to 2026-01-05"] in rows
    assert ["sha256", f"wikigold: train {'a' * 12}"] in rows
    assert all(len(row) == 2 and all(row) for row in rows)


def test_what_is_not_known_is_not_said(tmp_path):
    """Of a run of an earlier version, and of job=evaluate: no hours, no sizes, no software."""
    bare = {"task": "ner", "seed": 1, "metrics": {"test/f1": 0.5}}
    bare["config"] = {"task": {"name": "ner", "monitor": "f1"}}
    (tmp_path / "result.json").write_text(json.dumps(bare))
    found = report(collect([tmp_path]), ["task"], ["task.monitor"])
    text = methods([found])
    assert not any(word in text for word in ("hours", "None", "Software", "tested", "nan", " ."))
    answered = dict(checklist([found]).rows)
    assert answered["How long did runs take?"] == answered["On which machines?"] == "not known"


def test_every_format_has_them(compared):
    text = methods([compared], Origin())
    assert text in markdown([compared])
    assert "| Which encoders? |" in markdown([compared])
    assert r"\item[{Which encoders?}] books" in latex([compared])
    content = json.loads(as_json([compared]))
    assert content["methods"] == text
    assert content["checklist"]["On which machines?"] == "cpu (10 runs)"
    assert content["cells"][0]["dev"] == 0.5


def test_the_failures_of_all_are_not_those_of_each(compared):
    """JSON has the methods of each table by itself."""
    both = [replace(compared, title=title) for title in ("one", "two")]
    content = json.loads(as_json(both, Origin(failed=3)))
    assert all("failed: 3" not in each["methods"] for each in content.values())
    assert "failed: 3" in json.loads(as_json([compared], Origin(failed=3)))["methods"]
