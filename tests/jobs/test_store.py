"""Training with the layers on disk: the biLM reads a sentence once, and the figures are those
without a store. `tests/build/test_checkpoint.py` has every task.
"""

import json

import pytest
import torch

from elmo_bench import build
from elmo_bench.jobs.train import train
from tests.conftest import result_of, weights_of
from tests.jobs.small_settings import SMALL


@pytest.fixture
def run(new_run, tmp_path):
    """A function of overrides: the figures of a run with a cache of this test's own."""
    short = [f"cache_dir={tmp_path}", "data.size=2", "fit.max_epochs=2"]
    return lambda *overrides: train(new_run(*short, *overrides))


def test_a_sweep_reads_each_sentence_once(tmp_path, run, times_read):
    for overrides in (
        ["seed=1"],
        ["seed=2"],
        ["elmo.mix=top"],
        ["elmo.l2=0.5", "elmo.at=[input,output]"],
        ["fraction=0.5"],
    ):
        run("task=ner", *SMALL["ner"], *overrides)
    assert set(times_read.values()) == {1}
    results = [json.loads(path.read_text()) for path in tmp_path.glob("run*/result.json")]
    assert len({result["seconds"]["encoder"] for result in results}) == 1


def test_an_untrained_biLM_has_layers_too(tmp_path, run, times_read):  # noqa: N802
    """But they are not kept: another seed has others."""
    run("task=ner", *SMALL["ner"], "encoder.pretrained=false")
    assert set(times_read.values()) == {1}
    assert not [path for path in (tmp_path / "layers").iterdir() if path.is_dir()]


def test_the_figures_are_those_without(tmp_path, run, times_read):
    stored = run("task=ner", *SMALL["ner"])
    computed = run("task=ner", *SMALL["ner"], "store.mode=off")
    assert max(times_read.values()) == 4  # two epochs, twice measured
    assert stored == pytest.approx(computed, abs=1e-4)
    for key in ("shares", "norms"):
        mixes = [result_of(tmp_path / name)["mix"]["input"][key] for name in ("run0", "run1")]
        assert mixes[0] == pytest.approx(mixes[1], abs=1e-4)


def test_the_figures_of_a_store_in_memory(tmp_path, run, times_read):
    """Those of the disk to the last bit; nothing is written."""
    overrides = ["task=snli", *SMALL["snli"], "store.dtype=int8", "num_workers=1"]
    in_memory = run(*overrides, "store.mode=memory")
    assert set(times_read.values()) == {1}
    assert not (tmp_path / "layers").exists()
    assert in_memory == run(*overrides)
    one, two = (weights_of(tmp_path / name) for name in ("run0", "run1"))
    assert [key for key in one if not torch.equal(one[key], two[key])] == []


@pytest.mark.parametrize("overrides", [["encoder=none"], ["finetune=full"], ["trainer=smoke"]])
def test_what_needs_no_store(new_run, overrides):
    cfg = new_run("task=ner", "data.size=2", *overrides)
    sentences = build.examples(cfg).all_sentences
    assert build.store(cfg, build.elmo(cfg), sentences, torch.device("cpu")) is None
