"""The official metric on two files: the figures of the run that wrote them, and nothing but JSON on standard output."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from elmo_bench.jobs import build
from elmo_bench.jobs.score import score
from elmo_bench.jobs.train import train

ROOT = Path(__file__).parents[2]


def scored(gold, predicted):
    with initialize_config_dir(str(ROOT / "conf"), version_base="1.3"):
        return score(compose("config", ["job=score", "task=ner", f"gold={gold}", f"predicted={predicted}"]))


def test_the_figures_of_the_run(tiny):
    cfg = tiny()
    metrics = train(cfg)
    gold = build.instantiate(cfg.data.files)["test"]
    figures = scored(gold, Path(cfg.run_dir, "predictions", "test.conll"))
    assert {f"test/{name}": value for name, value in figures.items()} == pytest.approx(
        {name: value for name, value in metrics.items() if name.startswith("test/")}, abs=1e-6
    )


def files(tmp_path, gold, predicted):
    (tmp_path / "gold.txt").write_text(gold)
    (tmp_path / "predicted.txt").write_text(predicted)
    return tmp_path / "gold.txt", tmp_path / "predicted.txt"


def test_a_type_that_gold_does_not_know(tmp_path):
    figures = scored(*files(tmp_path, "a B-PER\nb O\n", "a B-PER B-PER\nb O B-NEW\n"))
    assert (figures["precision"], figures["recall"]) == (0.5, 1)


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        ("a O\n\nb O\n", "predicted.txt: 2 sentences, but the gold file has 1"),
        ("x O\nb O\n", "predicted.txt:1: the sentence 'x b', but .*gold.txt:1 has 'a b'"),
        ("a O\nb B\n", "predicted.txt:2: tag 'B', but a tag is"),
    ],
)
def test_predictions_that_do_not_fit(tmp_path, predicted, message):
    with pytest.raises(ValueError, match=message):
        scored(*files(tmp_path, "a B-PER\nb O\n", predicted))


def test_standard_output_is_json_alone(tmp_path):
    gold, predicted = files(tmp_path, "a B-PER\nb O\n", "a B-PER B-PER\nb O O\n")
    command = [sys.executable, str(ROOT / "run.py"), "job=score", "task=ner", f"gold={gold}", f"predicted={predicted}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=120)
    assert json.loads(done.stdout)["f1"] == 1, done.stderr
