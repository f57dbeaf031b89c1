"""Training with the layers on disk: for every task the biLM reads a sentence once, and the figures
are those without a store.
"""

import json
from collections import Counter

import pytest
import torch

from elmo_bench.encoders.bilm import BiLm
from elmo_bench.jobs.train import train
from tests import conftest
from tests.jobs.small import SMALL


@pytest.fixture
def reads(monkeypatch):
    """How often the biLM has read each sentence."""
    counts, forward = Counter(), BiLm.forward

    def counting(bilm, inputs, *args, **kwargs):
        counts.update(row[row.any(-1)].numpy().tobytes() for row in inputs.chars)
        return forward(bilm, inputs, *args, **kwargs)

    monkeypatch.setattr(BiLm, "forward", counting)
    return counts


def composed(tmp_path, *overrides):
    run_dir = tmp_path / f"run{len(list(tmp_path.glob('run*')))}"
    run_dir.mkdir()
    settings = [
        "trainer=cpu",
        "trainer.enable_progress_bar=false",
        f"cache_dir={tmp_path}",
        f"run_dir={run_dir}",
    ]
    return conftest.composed(*settings, *overrides)


def run(tmp_path, *overrides):
    return train(composed(tmp_path, "data.size=2", "fit.max_epochs=2", *overrides))


@pytest.mark.parametrize("task", SMALL)
def test_every_task_reads_the_store(tmp_path, reads, task):
    run(tmp_path, f"task={task}", *SMALL[task])
    assert set(reads.values()) == {1}


def test_a_sweep_reads_each_sentence_once(tmp_path, reads):
    for overrides in (
        ["seed=1"],
        ["seed=2"],
        ["elmo.mix=top"],
        ["elmo.l2=0.5", "elmo.at=[input,output]"],
        ["fraction=0.5"],
    ):
        run(tmp_path, "task=ner", *SMALL["ner"], *overrides)
    assert set(reads.values()) == {1}
    results = [json.loads(path.read_text()) for path in tmp_path.glob("run*/result.json")]
    assert len({result["seconds"]["encoder"] for result in results}) == 1


def test_an_untrained_biLM_has_layers_too(tmp_path, reads):  # noqa: N802
    """But they are not kept: another seed has others."""
    run(tmp_path, "task=ner", *SMALL["ner"], "encoder.pretrained=false")
    assert set(reads.values()) == {1}
    assert not [path for path in (tmp_path / "layers").iterdir() if path.is_dir()]


def test_the_figures_are_those_without(tmp_path, reads):
    stored = run(tmp_path, "task=ner", *SMALL["ner"])
    computed = run(tmp_path, "task=ner", *SMALL["ner"], "store.mode=off")
    assert max(reads.values()) == 4  # two epochs, twice measured
    assert stored == pytest.approx(computed, abs=1e-4)
    for key in ("shares", "norms"):
        mixes = [
            json.loads((tmp_path / name / "result.json").read_text())["mix"]["input"][key]
            for name in ("run0", "run1")
        ]
        assert mixes[0] == pytest.approx(mixes[1], abs=1e-4)


@pytest.mark.parametrize(
    ("task", "overrides"), [("ner", ["num_workers=1"]), ("snli", ["store.dtype=int8"])]
)
def test_the_figures_of_a_store_in_memory(tmp_path, reads, task, overrides):
    """Those of the disk to the last bit; nothing is written."""
    overrides = [f"task={task}", *SMALL[task], *overrides]
    in_memory = run(tmp_path, *overrides, "store.mode=memory")
    assert set(reads.values()) == {1}
    assert not (tmp_path / "layers").exists()
    assert in_memory == run(tmp_path, *overrides)
    weights = [
        torch.load(tmp_path / name / "best.ckpt", weights_only=True)["state_dict"]
        for name in ("run0", "run1")
    ]
    assert [key for key in weights[0] if not torch.equal(*(each[key] for each in weights))] == []


@pytest.mark.parametrize("overrides", [["encoder=none"], ["finetune=full"], ["trainer=smoke"]])
def test_what_needs_no_store(tmp_path, overrides):
    run(tmp_path, "task=ner", *SMALL["ner"], *overrides)
    assert not (tmp_path / "layers").exists()
